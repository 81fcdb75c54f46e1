// From a path to a running engine: what every command that computes needs.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/kv_type.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "cli/stores.h"
#include "engine/local_engine.h"
#include "kv/block_pool.h"
#include "models/model.h"
#include "tokenizer/tokenizer.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace deepinfer::cli {

constexpr double usual_step_ms = 80;

struct LoadOptions {
    std::filesystem::path model;  // .gguf file, .safetensors file, or folder
    std::optional<bool> pin;      // threads bound to processors; nothing: if there are several memory nodes
    int threads = 0;              // 0: all processors of this process
    int context = 0;              // tokens per request; 0: the model's own limit, as far as memory allows
    int max_running = 64, max_waiting = 1024, max_rows = 512;
    int64_t kv_memory_mib = 0;          // 0: a quarter of what is available after loading
    std::filesystem::path weight_file;  // packed weights, kept and shared; empty: in private memory
    bool verify_weight_file = false;
    kernels::Compute compute = kernels::Compute::serve;
    std::optional<KvType> kv_type;  // nothing: f16, or f32 when computing in f32
    bool need_tokenizer = true;
    std::map<std::string, double> tenant_weights;  // EngineOptions::tenant_weights
    double max_wait_seconds = 0;  // for the first step; who would wait longer is refused; 0: nobody
    bool step_times = false;      // predict how long steps take; else only max_rows bounds them
    bool no_profile = false;      // do not compute steps to learn that: it is learned from the first requests
    // Their budgets: SchedulerLimits::prefill_seconds and decode_seconds.
    std::optional<double> step_ms;  // nothing: usual_step_ms, more where that is a few rows only
    double itl_ms = 0;
    bool no_async = false;
    bool no_prefix_cache = false;     // compute every prompt whole
    bool share_prefix_cache = false;  // between API keys
    StoreOptions stores;              // where computed blocks are kept beyond memory; none unless asked for
    bool record_trace = false;        // keep what the engine does, for people to look at
    bool quiet = false;               // no progress on stderr
};

// Adds --model and --threads to a command; with an engine, --context and --kv-memory as well.
void add_model_options(CLI::App& command, LoadOptions& options);
void add_engine_options(CLI::App& command, LoadOptions& options);

// An unsigned 64-bit number in digits: CLI11 itself takes "-1", and clamps what is too large.
CLI::Validator unsigned_number();
// A number in the range; CLI11's own check takes "nan".
CLI::Validator real_number(double least, double most);

// A model in memory, without an engine. Members are destroyed bottom up.
struct ModelInMemory {
    std::unique_ptr<checkpoint::Checkpoint> checkpoint;
    std::unique_ptr<tokenizer::Tokenizer> tokenizer;  // null if there is none and none was needed
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<models::Model> model;
    kernels::Isa isa = kernels::Isa::portable;
    std::string name;  // file name without extension, or the folder's name
};
Result<ModelInMemory> load_model_only(const LoadOptions& options);

struct LoadedModel {
    ModelInMemory memory;
    std::unique_ptr<kv::BlockPool> blocks;
    std::shared_ptr<engine::Trace> trace;  // null if not recorded
    std::unique_ptr<engine::Engine> engine;

    const tokenizer::Tokenizer& tokenizer() const { return *memory.tokenizer; }
    const std::string& name() const { return memory.name; }
};
Result<LoadedModel> load_model(const LoadOptions& options);
// Of a model that is loaded, with these options; ends the engine that there is, and forgets its blocks.
Status start_engine(LoadedModel& loaded, const LoadOptions& options);

}  // namespace deepinfer::cli
