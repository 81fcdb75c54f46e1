#include "cli/load_model.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/memory_info.h"
#include "cli/cache_fingerprint.h"
#include "cli/cache_folder.h"
#include "cli/cpu_info.h"
#include "cli/kv_type.h"
#include "engine/cost_model.h"

namespace deepinfer::cli {

namespace {

// "loading ███░░ 42 %" on a terminal, one line at the start and the end otherwise.
class LoadingBar {
  public:
    explicit LoadingBar(bool quiet, std::string name)
        : quiet_(quiet), terminal_(isatty(STDERR_FILENO)), name_(std::move(name)) {}
    void update(uint64_t done, uint64_t total) {
        const int percent = total ? static_cast<int>(100 * done / total) : 100;
        if (quiet_ || percent == shown_) return;
        if (terminal_) {
            std::string bar;
            for (int i = 0; i < 30; ++i) bar += i * 100 < percent * 30 ? "█" : "░";
            std::fprintf(stderr, "\rloading %s %s %3d %%%s", name_.c_str(), bar.c_str(), percent,
                         percent == 100 ? "\n" : "");
        } else if (shown_ < 0) {
            std::fprintf(stderr, "loading %s (%s)\n", name_.c_str(), format_bytes(total).c_str());
        } else if (percent == 100) {
            std::fprintf(stderr, "loaded %s\n", name_.c_str());
        }
        shown_ = percent;
    }
    void say(const std::string& line) {
        if (quiet_) return;
        std::fprintf(stderr, "%s%s\n", terminal_ && shown_ >= 0 ? "\n" : "", line.c_str());
        shown_ = -1;
    }

  private:
    bool quiet_, terminal_;
    std::string name_;
    int shown_ = -1;
};

std::string display_name(const std::filesystem::path& path) {
    std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();
    return std::filesystem::is_directory(normal) ? normal.filename().string() : normal.stem().string();
}

// Blocks for the KV cache: what was asked for; else a quarter of the free memory, but no more than all running
// sequences could fill, and no less than one sequence of the whole context if the memory has room for it.
Result<int32_t> choose_block_count(const LoadOptions& options, const models::ModelInfo& info,
                                   const kv::Layout& layout, int32_t context) {
    const uint64_t block = layout.block_bytes;
    std::optional<uint64_t> available = available_memory();
    if (available) *available -= std::min(*available, info.cached_bytes());
    const uint64_t per_sequence = static_cast<uint64_t>(kv::blocks_for(context)) + 1;
    uint64_t count = 0;
    if (options.kv_memory_mib > 0) {
        count = (static_cast<uint64_t>(options.kv_memory_mib) << 20) / block;
        if (available && count * block > *available)
            return Error{ErrorCode::resource_exhausted, "a KV cache of " + format_bytes(count * block) +
                                                            " was asked for; " + format_bytes(*available) +
                                                            " are available"};
    } else {
        const uint64_t free_blocks = available.value_or(uint64_t{4} << 30) / block;
        count = std::max(free_blocks / 4, std::min(per_sequence, free_blocks));
        count = std::min(count, per_sequence * static_cast<uint64_t>(options.max_running));
    }
    count = std::min<uint64_t>(count, 1 << 24);
    if (count < 2)
        return Error{ErrorCode::resource_exhausted,
                     "no room for the KV cache: a block of " + std::to_string(kv::block_tokens) +
                         " tokens takes " + format_bytes(block) + ", and there must be two; " +
                         (options.kv_memory_mib > 0
                              ? "--kv-memory asks for " + std::to_string(options.kv_memory_mib) + " MiB"
                              : format_bytes(available.value_or(0)) + " are available")};
    return static_cast<int32_t>(count);
}

Result<std::unique_ptr<engine::CostModel>> make_step_times(const LoadOptions& options, ModelInMemory& m,
                                                           KvType kv_type) {
    if (options.no_profile) return std::make_unique<engine::CostModel>(*m.model, kv_type);
    engine::ProfileOptions profile;
    profile.folder = cache_folder("profiles");
    profile.machine = processor_name() + ", " + kernels::to_string(m.isa) + ", " +
                      std::to_string(m.pool->threads()) + " threads of " +
                      std::to_string(Topology::of_this_process().processors()) + ", weights in " +
                      to_string(m.model->info().weight_place);
    if (!options.quiet)
        profile.notice = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    return engine::profiled_cost_model(*m.model, kv_type, profile);
}

// All but the fingerprint.
engine::EngineOptions engine_options(const LoadOptions& options, const ModelInMemory& m, int32_t context) {
    engine::EngineOptions engine;
    engine.context_length = context;
    engine.limits.max_running = options.max_running;
    engine.max_waiting = options.max_waiting;
    engine.tenant_weights = options.tenant_weights;
    engine.limits.max_rows = options.max_rows;
    engine.max_wait_seconds = options.max_wait_seconds;
    engine.async = !options.no_async;
    engine.prefix_cache = !options.no_prefix_cache;
    engine.share_between_tenants = options.share_prefix_cache;
    engine.isa = m.isa;
    if (m.tokenizer) engine.end_of_generation = m.tokenizer->end_of_generation();
    engine.limits.decode_seconds = options.itl_ms / 1e3;
    engine.limits.prefill_seconds = options.step_ms.value_or(usual_step_ms) / 1e3;
    if (!options.step_ms) engine.limits.prefill_slowdown = 8;
    return engine;
}

// Sets the fingerprint, too, if there are any.
Result<engine::Stores> make_stores(const LoadOptions& options, const ModelInMemory& m,
                                   const kv::Layout& layout, engine::EngineOptions& engine) {
    if (!engine.prefix_cache || !options.stores.any()) return engine::Stores();
    engine.fingerprint = cache_fingerprint(*m.checkpoint, m.tokenizer.get(), options.compute, layout, *m.pool,
                                           cache_folder("digests"));
    return open_stores(options.stores, store::block_shape(layout, engine.fingerprint),
                       [&](const std::string& line) {
                           if (!options.quiet) std::fprintf(stderr, "%s\n", line.c_str());
                       });
}

void say_what_was_loaded(const LoadedModel& loaded, const kv::Layout& layout, int64_t blocks,
                         int32_t context) {
    const ModelInMemory& m = loaded.memory;
    const models::ModelInfo& info = m.model->info();
    std::fprintf(stderr,
                 "%s: %.0f million parameters, %s packed in %s and %s mapped; KV cache of %lld tokens, "
                 "%s, in %s; %d "
                 "threads, %s\n",
                 m.name.c_str(), static_cast<double>(info.parameters) / 1e6,
                 format_bytes(info.weight_bytes).c_str(), to_string(info.weight_place),
                 format_bytes(info.mapped_bytes).c_str(), static_cast<long long>(blocks) * kv::block_tokens,
                 to_string(layout.type),
                 format_bytes(static_cast<uint64_t>(blocks) * layout.block_bytes).c_str(), m.pool->threads(),
                 kernels::to_string(m.isa));
    if (loaded.engine->context_length() < context)
        std::fprintf(
            stderr,
            "the KV cache holds %d tokens, fewer than the context of %d: longer requests are refused\n",
            loaded.engine->context_length(), context);
}

}  // namespace

void add_model_options(CLI::App& command, LoadOptions& options) {
    command
        .add_option("--model,-m", options.model,
                    "GGUF file, safetensors file, or folder with config.json and safetensors")
        ->required();
    auto* weight_file =
        command.add_option("--weight-file", options.weight_file,
                           "keep the packed weights in this file, for the next start and other processes");
    command
        .add_flag(
            "--verify-weight-file", options.verify_weight_file,
            "read the whole weight file and compare it with its checksum; build it again if it is damaged")
        ->needs(weight_file);
    command
        .add_option(
            "--threads,-t", options.threads,
            "threads that compute (0: all processors, or as many as the quota of a container keeps busy)")
        ->check(CLI::Range(0, 1024));
    command
        .add_option_function<std::string>(
            "--pin", [&options](const std::string& how) { options.pin = how == "on"; },
            "bind each thread to a processor: on or off (on if there are several memory nodes)")
        ->check(CLI::IsMember({"on", "off"}));
}

void add_engine_options(CLI::App& command, LoadOptions& options) {
    add_model_options(command, options);
    command
        .add_option("--context", options.context, "tokens a request can have at most (0: the model's limit)")
        ->check(CLI::Range(0, 1 << 24) &
                CLI::Validator(
                    [](const std::string& tokens) {
                        return tokens == "1" ? "a request of 1 token has no room for an answer: 2 at least"
                                             : "";
                    },
                    "not 1"));
    command
        .add_option("--kv-memory", options.kv_memory_mib,
                    "MiB for the KV cache (0: a quarter of the free memory)")
        ->check(CLI::Range(0, 1 << 24));
    add_kv_type_options(command, options.kv_type);
}

CLI::Validator unsigned_number() {
    return CLI::Validator(
        [](const std::string& text) {
            uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool good = error == std::errc() && end == text.data() + text.size();
            return good ? std::string() : "'" + text + "' is not a number from 0 to 18446744073709551615";
        },
        "UINT64");
}

CLI::Validator real_number(double least, double most) {
    return CLI::Validator(
        [least, most](const std::string& text) {
            double value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool good = error == std::errc() && end == text.data() + text.size() && value >= least &&
                              value <= most;  // not if it is NaN
            if (good) return std::string();
            std::ostringstream message;
            message << "'" << text << "' is not a number from " << least << " to " << most;
            return message.str();
        },
        "NUMBER");
}

Result<ModelInMemory> load_model_only(const LoadOptions& options) {
    ModelInMemory m;
    const char* forced = std::getenv("DEEPINFER_ISA");
    auto isa = kernels::choose_isa(forced ? forced : "");
    if (!isa) return Error{isa.error().code, "DEEPINFER_ISA: " + isa.error().message};
    m.isa = *isa;
    auto checkpoint = checkpoint::Checkpoint::open(options.model);
    if (!checkpoint) return std::move(checkpoint).error();
    m.checkpoint = std::move(*checkpoint);
    m.name = display_name(options.model);
    auto tokenizer = tokenizer::Tokenizer::from_checkpoint(*m.checkpoint);
    if (tokenizer)
        m.tokenizer = std::move(*tokenizer);
    else if (options.need_tokenizer)
        return std::move(tokenizer).error();
    // On one memory node the system may move a thread away from a busy neighbour; on several, what a thread packs it
    // reads from its own node, so it must stay there.
    const Topology topology = Topology::of_this_process();
    auto pool = ThreadPool::create(options.threads > 0 ? options.threads : available_processors(), topology,
                                   options.pin.value_or(topology.nodes.size() > 1));
    if (!pool) return std::move(pool).error();
    m.pool = std::move(*pool);
    const ThreadPool::PinnedCaller pinned(*m.pool);
    LoadingBar bar(options.quiet, m.name);
    models::LoadOptions load;
    load.compute = options.compute;
    load.isa = m.isa;
    load.weight_file = options.weight_file;
    load.verify_weight_file = options.verify_weight_file;
    load.notice = [&bar](const std::string& line) { bar.say(line); };
    load.progress = [&bar](uint64_t done, uint64_t total) { bar.update(done, total); };
    auto model = models::Model::load(*m.checkpoint, *m.pool, load);
    if (!model) return std::move(model).error();
    m.model = std::move(*model);
    if (m.tokenizer && m.tokenizer->vocabulary_size() > m.model->info().vocabulary)
        return Error{ErrorCode::corrupt_data,
                     "the tokenizer has " + std::to_string(m.tokenizer->vocabulary_size()) +
                         " tokens, the model only " + std::to_string(m.model->info().vocabulary)};
    return m;
}

Result<LoadedModel> load_model(const LoadOptions& options) {
    if (!options.no_prefix_cache)
        if (Status status = check_stores(options.stores); !status) return status.error();
    auto memory = load_model_only(options);
    if (!memory) return std::move(memory).error();
    LoadedModel loaded;
    loaded.memory = std::move(*memory);
    if (Status status = start_engine(loaded, options); !status) return status.error();
    return loaded;
}

Status start_engine(LoadedModel& loaded, const LoadOptions& options) {
    loaded.engine.reset();
    loaded.blocks.reset();
    ModelInMemory& m = loaded.memory;
    const int32_t trained = m.model->info().context_length,
                  context = options.context > 0 ? options.context : trained;
    if (context > trained)
        return Error{ErrorCode::invalid_argument, "--context " + std::to_string(context) +
                                                      " is more than the model was trained for (" +
                                                      std::to_string(trained) + ")"};
    auto kv_layout = m.model->kv_layout(options.kv_type.value_or(default_kv_type(options.compute)));
    if (!kv_layout) return std::move(kv_layout).error();
    const kv::Layout& layout = *kv_layout;
    auto count = choose_block_count(options, m.model->info(), layout, context);
    if (!count) return std::move(count).error();
    auto blocks = kv::BlockPool::create(layout, *count);
    if (!blocks) return std::move(blocks).error();
    loaded.blocks = std::make_unique<kv::BlockPool>(std::move(*blocks));
    engine::EngineOptions engine = engine_options(options, m, context);
    auto stores = make_stores(options, m, layout, engine);
    if (!stores) return std::move(stores).error();
    std::unique_ptr<engine::CostModel> times;
    if (options.step_times) {
        auto made = make_step_times(options, m, layout.type);
        if (!made) return std::move(made).error();
        times = std::move(*made);
    }
    if (options.record_trace) loaded.trace = std::make_shared<engine::Trace>();
    auto started = engine::make_local_engine(*m.model, *loaded.blocks, *m.pool, engine, std::move(times),
                                             loaded.trace, std::move(*stores));
    if (!started) return std::move(started).error();
    loaded.engine = std::move(*started);
    if (!options.quiet) say_what_was_loaded(loaded, layout, *count, context);
    return {};
}

}  // namespace deepinfer::cli
