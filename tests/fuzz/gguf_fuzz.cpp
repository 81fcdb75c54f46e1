// GGUF headers. Run: gguf_fuzz -max_total_time=60 NEW_INPUTS tests/fuzz/corpus/gguf
#include "checkpoint_invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer::checkpoint;
    const auto file = std::as_bytes(std::span(data, size));
    check_invariants(Checkpoint::parse_gguf(file), file);
    return 0;
}
