// model.safetensors.index.json. Run: shard_index_fuzz -max_total_time=60 NEW_INPUTS
// tests/fuzz/corpus/shard_index
#include "checkpoint/contents.h"
#include "checkpoint_invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer::checkpoint;
    const auto entries = read_shard_index({reinterpret_cast<const char*>(data), size}, "index");
    if (!entries) return 0;
    for (const ShardEntry& entry : *entries) {
        require(!entry.tensor.empty() && !entry.file.empty());
        require(entry.file.find('/') == std::string::npos && entry.file != "..");  // stays in the folder
    }
    return 0;
}
