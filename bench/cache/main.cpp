// How much of its input the prefix cache finds again, on sessions like those of coding agents or on a recorded trace, with a model
// that computes nothing: millions of tokens go through the engine as it is in seconds.
//
//   cache_hits agent                         sessions made here; see Sessions for their distributions
//   cache_hits trace FILE                    lines with input_length and hash_ids, one id for each 512 tokens (Mooncake's format)
//   --blocks N,N,...                         sizes of the pool, in blocks of 64 tokens
//   --disk FOLDER --disk-mib N               a disk store behind it
//   --kill                                   agent: a process does the first half and is killed; another goes on from its folder
//
// Prints one JSON object for each size: tokens of the prompts, found in memory and in the store, and what a cache of unlimited size
// would have found, in whole blocks.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <random>
#include <unordered_set>

#include "base/json.h"
#include "engine/local_engine.h"
#include "kv/block_key.h"
#include "store/file_store.h"

namespace deepinfer {
namespace {

constexpr int32_t vocabulary = 256;
constexpr int32_t trace_block = 512;

// Its next token follows from the last one and the place. Blocks hold 64 bytes that nobody looks at.
class NothingModel final : public models::Model {
  public:
    NothingModel() {
        info_.architecture = "nothing";
        info_.vocabulary = vocabulary;
        info_.context_length = 1 << 20;
    }
    const models::ModelInfo& info() const override { return info_; }
    Result<kv::Layout> kv_layout(KvType type) const override {
        kv::Layout layout;
        layout.type = type;
        layout.layers.push_back({1, 1, 0, 0, 0});
        layout.block_bytes = 64;
        return layout;
    }
    void forward(const models::Batch& batch, const kv::BlockPool&, float* logits) override {
        for (const models::SequenceChunk& s : batch.sequences)
            for (const int32_t row : batch.logit_rows) {
                if (row < s.first_row || row >= s.first_row + s.rows) continue;
                std::fill(logits, logits + vocabulary, 0.0f);
                const int64_t position = s.position + row - s.first_row;
                logits[(batch.tokens[static_cast<size_t>(row)] * 31 + position * 7) % vocabulary] = 1;
                logits += vocabulary;
            }
    }

  private:
    models::ModelInfo info_;
};

struct Answer {
    std::vector<TokenId> tokens;
    engine::Finish finish;
};

class Bench {
  public:
    Bench(int32_t blocks, engine::Stores stores) : pool_(1) {
        blocks_ = std::make_unique<kv::BlockPool>(
            std::move(*kv::BlockPool::create(*model_.kv_layout(KvType::f16), blocks)));
        engine::EngineOptions options;
        options.async = false;
        options.limits.max_rows = 8192;
        engine_ =
            engine::make_local_engine(model_, *blocks_, pool_, options, nullptr, nullptr, std::move(stores))
                .value();
    }
    Answer ask(std::vector<TokenId> prompt, int32_t tokens) {
        Answer answer;
        bool done = false;
        engine::Request request;
        request.prompt = std::move(prompt);
        request.sampling.max_tokens = tokens;
        request.sampling.ignore_eos = true;
        request.sampling.temperature = 0;
        engine::Listener listener;
        listener.on_token = [&](int32_t, const engine::SampledToken& t) { answer.tokens.push_back(t.token); };
        listener.on_finish = [&](int32_t, const engine::Finish& finish) {
            const std::lock_guard lock(mutex_);
            answer.finish = finish;
            done = true;
            changed_.notify_one();
        };
        const auto id = engine_->submit(std::move(request), std::move(listener));
        if (!id) {
            std::fprintf(stderr, "cache_hits: %s\n", id.error().message.c_str());
            std::exit(1);
        }
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done; });
        return answer;
    }
    engine::EngineStats stats() const { return engine_->stats(); }

  private:
    NothingModel model_;
    ThreadPool pool_;
    std::unique_ptr<kv::BlockPool> blocks_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::unique_ptr<engine::Engine> engine_;
};

// What a cache that forgets nothing would find.
class Unlimited {
  public:
    int64_t find(const std::vector<TokenId>& prompt) const {
        std::vector<kv::BlockKey> keys;
        kv::extend_keys({}, prompt, {}, keys);
        const size_t most = (prompt.size() - 1) / kv::block_tokens;
        size_t n = 0;
        while (n < most && seen_.contains(keys[n])) ++n;
        return static_cast<int64_t>(n) * kv::block_tokens;
    }
    void add(const std::vector<TokenId>& computed) {
        std::vector<kv::BlockKey> keys;
        kv::extend_keys({}, computed, {}, keys);
        seen_.insert(keys.begin(), keys.end());
    }

  private:
    std::unordered_set<kv::BlockKey, kv::BlockKeyHash> seen_;
};

struct Counts {
    int64_t requests = 0, prompt = 0, cached = 0, stored = 0, ideal = 0;
    int64_t trace_blocks = 0, trace_hits = 0;  // of 512 tokens
    int64_t most_missed = 0;                   // blocks less than unlimited, of one request
    void add(size_t prompt_tokens, const engine::Finish& finish, int64_t unlimited) {
        ++requests;
        prompt += static_cast<int64_t>(prompt_tokens);
        cached += finish.cached_tokens;
        for (const int32_t tokens : finish.loaded_tokens) stored += tokens;
        ideal += unlimited;
        most_missed = std::max(most_missed, (unlimited - finish.cached_tokens) / kv::block_tokens);
    }
};

// Sessions of coding agents. All begin with the same 20 000 tokens (system prompt and tools). A session has 8 to 40 turns (uniform);
// each adds what a tool put out (log-normal, median 600 tokens, sigma 1, at most 8000) and gets an answer (log-normal,
// median 120, sigma 0.7, at most 1000), which stays in the history. Between an answer and the next turn pass 20 s on average
// (exponential); 16 sessions are open at a time, and a new one begins when one ends.
class Sessions {
  public:
    explicit Sessions(int total) : total_(total) {
        for (int i = 0; i < 20'000; ++i) preamble_.push_back(token());
        for (int i = 0; i < std::min(16, total); ++i) begin();
    }
    bool over() const { return open_.empty(); }
    // The session whose turn comes next.
    void turn(Bench& bench, Unlimited& unlimited, Counts& counts) {
        const auto next = std::ranges::min_element(open_, {}, &Session::time);
        Session& s = *next;
        for (int i = draw(600, 1.0, 8000); i > 0; --i) s.history.push_back(token());
        const int64_t ideal = unlimited.find(s.history);
        const Answer answer = bench.ask(s.history, draw(120, 0.7, 1000));
        counts.add(s.history.size(), answer.finish, ideal);
        s.history.insert(s.history.end(), answer.tokens.begin(), answer.tokens.end());
        unlimited.add({s.history.begin(), s.history.end() - 1});  // the last token was never computed
        s.time += std::exponential_distribution<double>(1 / 20.0)(random_);
        if (--s.turns > 0) return;
        open_.erase(next);
        if (begun_ < total_) begin();
    }

  private:
    struct Session {
        std::vector<TokenId> history;
        double time = 0;
        int turns = 0;
    };
    TokenId token() { return static_cast<TokenId>(random_() % vocabulary); }
    int draw(double median, double sigma, int most) {
        const double value = std::lognormal_distribution<double>(std::log(median), sigma)(random_);
        return std::clamp(static_cast<int>(value), 1, most);
    }
    void begin() {
        double now = open_.empty() ? 0 : std::ranges::min_element(open_, {}, &Session::time)->time;
        now += std::exponential_distribution<double>(1 / 20.0)(random_);
        open_.push_back({preamble_, now, std::uniform_int_distribution<int>(8, 40)(random_)});
        ++begun_;
    }

    std::mt19937 random_{1};
    int total_, begun_ = 0;
    std::vector<TokenId> preamble_;
    std::vector<Session> open_;
};

struct TraceRequest {
    int64_t input = 0;
    std::vector<int64_t> ids;
};
std::vector<TraceRequest> read_trace(const std::string& path) {
    std::vector<TraceRequest> requests;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const auto json = parse_json(line, path);
        if (!json) {
            std::fprintf(stderr, "cache_hits: %s\n", json.error().message.c_str());
            std::exit(1);
        }
        TraceRequest request{json->at("input_length").to_number<int64_t>(), {}};
        for (const auto& id : json->at("hash_ids").as_array()) request.ids.push_back(id.to_number<int64_t>());
        requests.push_back(std::move(request));
    }
    return requests;
}
// 512 tokens that follow from each id, as many as the request has.
std::vector<TokenId> expand(const TraceRequest& request) {
    std::vector<TokenId> tokens;
    const auto length = static_cast<size_t>(request.input);
    for (const int64_t id : request.ids) {
        uint64_t state = static_cast<uint64_t>(id) + 1;
        for (int i = 0; i < trace_block && tokens.size() < length; ++i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            tokens.push_back(static_cast<TokenId>(state >> 56));
        }
    }
    return tokens;
}

struct Options {
    std::string what, trace, disk;
    std::vector<int32_t> blocks{100'000};
    double disk_mib = 1000;
    int sessions = 100;
    bool kill = false;
};

engine::Stores stores_of(const Options& options) {
    engine::Stores stores;
    if (options.disk.empty()) return stores;
    store::FileStoreOptions file;
    file.folder = options.disk;
    file.shape = store::block_shape(*NothingModel().kv_layout(KvType::f16), {});
    file.budget_bytes = static_cast<uint64_t>(options.disk_mib * 1024 * 1024);
    file.sync = false;
    stores.push_back(std::move(store::open_file_store(file).value()));
    return stores;
}

void print(const Options& options, int32_t blocks, const Counts& c, const Bench& bench, double seconds) {
    const auto share = [](int64_t part, int64_t whole) {
        return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
    };
    boost::json::object line{{"what", options.what},
                             {"blocks", blocks},
                             {"requests", c.requests},
                             {"prompt_tokens", c.prompt},
                             {"cached", share(c.cached, c.prompt)},
                             {"from_store", share(c.stored, c.prompt)},
                             {"unlimited", share(c.ideal, c.prompt)},
                             {"of_unlimited", share(c.cached, c.ideal)},
                             {"most_blocks_missed", c.most_missed},
                             {"evicted", bench.stats().cache.evicted_total},
                             {"seconds", seconds}};
    if (c.trace_blocks > 0) line["of_512_token_blocks"] = share(c.trace_hits, c.trace_blocks);
    std::cout << boost::json::serialize(line) << std::endl;
}

// The first half of the turns, in a process that is killed after it. Returns how many turns that is.
int first_half(const Options& options, int32_t blocks, Sessions& sessions, Unlimited& unlimited) {
    const int turns = options.sessions * 12;
    const pid_t child = ::fork();
    if (child == 0) {
        Sessions same(options.sessions);
        Unlimited nothing;
        Counts counts;
        Bench bench(blocks, stores_of(options));
        for (int i = 0; i < turns && !same.over(); ++i) same.turn(bench, nothing, counts);
        ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    Counts unused;
    Bench bench(blocks, {});  // to know what was said
    for (int i = 0; i < turns && !sessions.over(); ++i) sessions.turn(bench, unlimited, unused);
    return turns;
}

void run(const Options& options, int32_t blocks) {
    Unlimited unlimited;
    Counts counts;
    Sessions sessions(options.what == "agent" ? options.sessions : 0);
    if (options.kill) first_half(options, blocks, sessions, unlimited);
    const auto begin = std::chrono::steady_clock::now();
    Bench bench(blocks, stores_of(options));
    if (options.what == "agent") {
        while (!sessions.over() && !(options.kill && counts.requests >= 16))
            sessions.turn(bench, unlimited, counts);
    } else {
        for (const TraceRequest& request : read_trace(options.trace)) {
            std::vector<TokenId> prompt = expand(request);
            const int64_t ideal = unlimited.find(prompt);
            unlimited.add(prompt);
            const auto length = static_cast<int64_t>(prompt.size());
            const Answer answer = bench.ask(std::move(prompt), 1);
            counts.add(static_cast<size_t>(length), answer.finish, ideal);
            counts.trace_blocks += static_cast<int64_t>(request.ids.size());
            counts.trace_hits += answer.finish.cached_tokens / trace_block;
        }
    }
    print(options, blocks, counts, bench,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

}  // namespace
}  // namespace deepinfer

int main(int argc, char** argv) {
    deepinfer::Options options;
    CLI::App app("How much of its input the prefix cache finds again");
    app.add_option("what", options.what)->required()->check(CLI::IsMember({"agent", "trace"}));
    app.add_option("file", options.trace, "of the trace")->check(CLI::ExistingFile);
    app.add_option("--blocks", options.blocks, "sizes of the pool")->delimiter(',');
    app.add_option("--sessions", options.sessions, "of agents, all told")->capture_default_str();
    app.add_option("--disk", options.disk, "folder of a disk store");
    app.add_option("--disk-mib", options.disk_mib, "its budget")->capture_default_str();
    app.add_flag("--kill", options.kill,
                 "agent: the first half in a process that is killed, then 16 turns more");
    CLI11_PARSE(app, argc, argv);
    if (options.what == "trace" && options.trace.empty())
        return std::fputs("cache_hits: trace needs a file\n", stderr), 2;
    if (options.kill && options.disk.empty())
        return std::fputs("cache_hits: --kill needs --disk\n", stderr), 2;
    for (const int32_t blocks : options.blocks) deepinfer::run(options, blocks);
    return 0;
}
