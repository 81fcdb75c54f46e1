#include "models/model.h"

#include "base/quote.h"
#include "models/decoder.h"

namespace deepinfer::models {

namespace {

struct Architecture {
    const char* name;
    std::unique_ptr<Decoder> (*make)(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa);
};
constexpr Architecture architectures[] = {
    {"llama", make_llama},
    {"qwen2", make_qwen2},
    {"qwen3", make_qwen3},
    {"gemma3", make_gemma3},
};

Error unknown_architecture(const std::string& name) {
    std::string supported;
    for (const Architecture& a : architectures)
        supported += (supported.empty() ? "" : ", ") + std::string(a.name);
    return Error{ErrorCode::unsupported,
                 "architecture " + quote(name) + " is not supported; supported: " + supported};
}

}  // namespace

const char* to_string(WeightPlace place) {
    switch (place) {
        case WeightPlace::private_memory:
            return "private memory";
        case WeightPlace::disk_file:
            return "a file on a disk, shared";
        case WeightPlace::memory_file:
            return "a file in memory (tmpfs), shared";
        case WeightPlace::huge_page_file:
            return "a file of huge pages (hugetlbfs), shared";
    }
    return "";
}

StepCost Model::cost(std::span<const ChunkShape> step, KvType) const { return count_rows(step); }

Result<std::unique_ptr<Model>> Model::load(const checkpoint::Checkpoint& checkpoint, ThreadPool& pool,
                                           const LoadOptions& options) {
    auto name = read_architecture(checkpoint);
    if (!name) return std::move(name).error();
    for (const Architecture& architecture : architectures) {
        if (*name != architecture.name) continue;
        auto config = read_config(checkpoint);
        if (!config) return std::move(config).error();
        auto model = architecture.make(*config, pool, options.isa);
        if (Status status = model->load(checkpoint, options); !status) return status.error();
        return std::unique_ptr<Model>(std::move(model));
    }
    return unknown_architecture(*name);
}

}  // namespace deepinfer::models
