#include "cli/bench_session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/memory_info.h"
#include "models/config.h"

namespace deepinfer::cli {

namespace {

int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

int blocks_for(int tokens) { return static_cast<int>(kv::blocks_for(tokens)); }

// "135M", "1.5B"
std::string short_count(uint64_t n) {
    char text[32];
    const double value = static_cast<double>(n);
    if (value >= 1e9)
        std::snprintf(text, sizeof text, "%.1fB", value / 1e9);
    else
        std::snprintf(text, sizeof text, "%.0f%c", value >= 1e6 ? value / 1e6 : value / 1e3,
                      value >= 1e6 ? 'M' : 'K');
    return text;
}

// The mixtures that GGUF's general.file_type numbers; files of one type are named by that type.
const char* mixture_name(int64_t file_type) {
    switch (file_type) {
        case 10:
            return "Q2_K - Medium";
        case 11:
            return "Q3_K - Small";
        case 12:
            return "Q3_K - Medium";
        case 13:
            return "Q3_K - Large";
        case 14:
            return "Q4_K - Small";
        case 15:
            return "Q4_K - Medium";
        case 16:
            return "Q5_K - Small";
        case 17:
            return "Q5_K - Medium";
        default:
            return nullptr;
    }
}

std::string weight_type(const checkpoint::Checkpoint& file) {
    if (const auto type = file.metadata().integer("general.file_type"); type && *type)
        if (const char* name = mixture_name(**type)) return name;
    std::map<TensorType, uint64_t> bytes;
    for (const checkpoint::Tensor& tensor : file.tensors()) bytes[tensor.type] += tensor.data.size();
    const auto most = std::max_element(bytes.begin(), bytes.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == bytes.end() ? "" : to_string(most->first);
}

}  // namespace

Result<BenchSession> BenchSession::load(const std::string& model, int threads, kernels::Compute compute) {
    LoadOptions options;
    options.model = model;
    options.threads = threads;
    options.compute = compute;
    options.need_tokenizer = false;
    options.quiet = true;
    auto loaded = load_model_only(options);
    if (!loaded) return std::move(loaded).error();
    return BenchSession(std::move(*loaded));
}

uint64_t BenchSession::model_bytes() const {
    uint64_t bytes = 0;
    for (const checkpoint::Tensor& tensor : model_.checkpoint->tensors()) bytes += tensor.data.size();
    return bytes;
}

std::string BenchSession::model_type() const {
    const models::ModelInfo& info = model_.model->info();
    return info.architecture + " " + short_count(info.parameters) + " " + weight_type(*model_.checkpoint);
}

Status BenchSession::check(const std::string& model, std::span<const BenchTest> tests) {
    auto file = checkpoint::Checkpoint::open(model);
    if (!file) return std::move(file).error();
    const auto config = models::read_config(**file);
    if (!config) return Error{config.error().code, model + ": " + config.error().message};
    for (const BenchTest& test : tests) {
        if (test.longest() > config->context)
            return Error{ErrorCode::invalid_argument, model + ": " + std::to_string(test.longest()) +
                                                          " tokens are more than the model's context of " +
                                                          std::to_string(config->context)};
        if (!kv_type_fits(test.kv_type, config->head_dim))
            return Error{ErrorCode::invalid_argument,
                         model + ": its heads of " + std::to_string(config->head_dim) +
                             " values cannot be stored as " + to_string(test.kv_type)};
    }
    return {};
}

Status BenchSession::make_cache(const BenchTest& test) {
    const int tokens = test.longest(), each = blocks_for(tokens);
    if (cache_ && cache_->blocks.layout().type == test.kv_type &&
        static_cast<int>(cache_->tables.size()) >= test.sequences &&
        static_cast<int>(cache_->tables[0].size()) >= each)
        return {};
    cache_.reset();
    auto made = model_.model->kv_layout(test.kv_type);
    if (!made) return std::move(made).error();
    const kv::Layout& layout = *made;
    const uint64_t bytes =
        layout.block_bytes * static_cast<uint64_t>(each) * static_cast<uint64_t>(test.sequences);
    auto available = available_memory();
    if (available) *available -= std::min(*available, model_.model->info().cached_bytes());
    if (available && bytes > *available)
        return Error{ErrorCode::resource_exhausted, "keys and values of " + std::to_string(test.sequences) +
                                                        " x " + std::to_string(tokens) + " tokens take " +
                                                        format_bytes(bytes) + "; " +
                                                        format_bytes(*available) + " are available"};
    auto blocks = kv::BlockPool::create(layout, each * test.sequences);
    if (!blocks) return std::move(blocks).error();
    cache_.emplace(Cache{std::move(*blocks), {}, 0});
    cache_->tables.resize(static_cast<size_t>(test.sequences));
    for (auto& table : cache_->tables)
        for (int i = 0; i < each; ++i) {
            table.push_back(cache_->blocks.allocate());
            std::memset(cache_->blocks.data(table.back()), 0, layout.block_bytes);  // commits the pages
        }
    return {};
}

TokenId BenchSession::next_token() {  // any tokens do; spread over the vocabulary
    random_ = random_ * 1664525u + 1013904223u;
    return static_cast<TokenId>((random_ >> 8) % static_cast<uint32_t>(model_.model->info().vocabulary));
}

void BenchSession::forward(models::Batch& batch) {
    for (TokenId& token : batch.tokens) token = next_token();
    logits_.resize(std::max(logits_.size(),
                            batch.logit_rows.size() * static_cast<size_t>(model_.model->info().vocabulary)));
    model_.model->forward(batch, cache_->blocks, logits_.data());
}

void BenchSession::prefill(int sequences, int position, int tokens, int rows) {
    models::Batch batch;
    int32_t used = 0;
    for (int s = 0; s < sequences; ++s)
        for (int at = 0; at < tokens;) {
            const int count = std::min(rows - used, tokens - at);
            batch.sequences.push_back({used, count, position + at, cache_->tables[static_cast<size_t>(s)]});
            used += count;
            at += count;
            if (at == tokens) batch.logit_rows.push_back(used - 1);
            if (used == rows || (s == sequences - 1 && at == tokens)) {
                batch.tokens.resize(static_cast<size_t>(used));
                forward(batch);
                batch = {};
                used = 0;
            }
        }
}

void BenchSession::step(int sequences, int position, int rows) {
    models::Batch batch;
    for (int s = 0; s < sequences; ++s)
        batch.sequences.push_back({s * rows, rows, position, cache_->tables[static_cast<size_t>(s)]});
    for (int i = 0; i < sequences * rows; ++i) batch.logit_rows.push_back(i);
    batch.tokens.resize(batch.logit_rows.size());
    forward(batch);
}

int64_t BenchSession::sample(const BenchTest& test) {
    const int rows = std::min(test.batch_rows, test.micro_batch_rows);
    const int64_t start = now_ns();
    if (test.prompt > 0) prefill(test.sequences, test.depth, test.prompt, rows);
    for (int i = 0; i < test.generation; ++i)
        step(test.sequences, test.depth + test.prompt + i, test.step_rows);
    return now_ns() - start;
}

double BenchSession::bytes_per_step(const BenchTest& test) const {
    int64_t bytes = 0;
    for (int i = 0; i < test.generation; ++i) {
        const models::ChunkShape chunk{test.step_rows, test.depth + test.prompt + i, test.step_rows};
        const std::vector<models::ChunkShape> step(static_cast<size_t>(test.sequences), chunk);
        const models::StepCost cost = model_.model->cost(step, test.kv_type);
        bytes += cost.weight_bytes + cost.kv_bytes;
    }
    return static_cast<double>(bytes) / test.generation;
}

Result<BenchSamples> BenchSession::run(const BenchTest& test, int repetitions, bool warm_up, bool bandwidth) {
    if (Status status = make_cache(test); !status) return std::move(status).error();
    if (bandwidth && !bandwidth_) {
        auto made = ReadBandwidth::create(*model_.pool);
        if (!made) return std::move(made).error();
        bandwidth_.emplace(std::move(*made));
    }
    const int rows = std::min(test.batch_rows, test.micro_batch_rows);
    if (cache_->filled < test.depth)
        prefill(static_cast<int>(cache_->tables.size()), cache_->filled, test.depth - cache_->filled, rows);
    cache_->filled = test.depth;  // what follows overwrites the rest
    if (warm_up) {                // buffers grow, pages are committed, caches fill
        BenchTest first = test;
        first.prompt = std::min(test.prompt, std::max(1, rows / test.sequences));
        first.generation = std::min(test.generation, 2);
        sample(first);
        if (bandwidth) bandwidth_->measure();
    }
    BenchSamples samples;
    for (int r = 0; r < repetitions; ++r) {
        samples.nanoseconds.push_back(sample(test));
        if (bandwidth) samples.read_gb_per_second.push_back(bandwidth_->measure());
    }
    if (test.generation > 0) samples.bytes_per_step = bytes_per_step(test);
    return samples;
}

}  // namespace deepinfer::cli
