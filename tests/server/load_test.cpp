// Many clients on the real engine with a model that only hashes: what they leave behind, and what happens when more comes
// than can be done.
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "server/hash_server.h"

namespace deepinfer::testing {
namespace {

using namespace std::chrono_literals;

size_t open_files() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
}
size_t threads() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
    return count;
}
size_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    size_t all = 0, resident = 0;
    statm >> all >> resident;
    return resident * 4096;
}

constexpr const char* stream =
    R"({"model":"hash","prompt":"Once upon a time","max_tokens":20,"ignore_eos":true,"stream":true})";

TEST(Load, AThousandStreamsOfWhichHalfDisconnectLeaveNothingBehind) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2500) GTEST_SKIP() << "only " << files.rlim_cur << " open files are allowed";
    engine::EngineOptions options;
    options.limits.max_running = 200;
    HashServer served(400, options, 1ms);
    std::mt19937 random(3);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr int warm_up = 2, rounds = 3;  // they keep freed memory, and are slow
#else
    constexpr int warm_up = 15, rounds = 10;  // until the allocator has all that it will ever need
#endif
    size_t files_before = 0, threads_before = 0, answered = 0;
    std::vector<size_t> memory_before, memory_after;
    for (int round = 0; round <= warm_up + rounds; ++round) {
        std::vector<std::unique_ptr<Client>> clients;
        for (int i = 0; i < 1000; ++i) {
            clients.push_back(std::make_unique<Client>(served.server->port()));
            clients.back()->send_request("POST", "/v1/completions", stream);
            if (i % 3 == 2)
                clients[random() % clients.size()]->close();  // queued, in the prompt, in the answer
        }
        for (size_t i = 0; i < clients.size(); ++i)
            if (random() % 4 == 0) clients[i]->close();
        for (auto& client : clients)
            if (client->fd() >= 0)
                answered += client->read_response(60'000).body.find("[DONE]") != std::string::npos;
        clients.clear();
        ASSERT_TRUE(soon([&] {
            const engine::EngineStats s = served.engine->stats();
            return s.running == 0 && s.waiting == 0 && s.blocks_free == s.blocks_total &&
                   served.server->metrics().connections == 0 &&
                   served.server->metrics().active_generations == 0;
        })) << "round "
            << round;
        if (round <= warm_up) files_before = open_files(), threads_before = threads();
        (round <= warm_up ? memory_before : memory_after).push_back(resident_bytes());
    }
    EXPECT_GT(answered, 1000u);
    EXPECT_EQ(open_files(), files_before);
    EXPECT_EQ(threads(), threads_before);
    const double growth =
        static_cast<double>(*std::min_element(memory_after.end() - 3, memory_after.end())) /
            static_cast<double>(*std::max_element(memory_before.end() - 3, memory_before.end())) -
        1;
    std::printf("%zu answers; memory grew by %.2f %% in ten rounds\n", answered, growth * 100);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(growth, 0.05);  // -0.5 to 3.6 % was seen: the allocator; a request that stays would be more
#endif
}

struct Outcome {
    int answered = 0;
    std::array<int, 1000>
        refused{};  // by the milliseconds until then, from 0; the last: all that took longer
    int refusals() const { return std::accumulate(refused.begin(), refused.end(), 0); }
    // Milliseconds that a share `q` of the refusals did not reach.
    size_t refusal_quantile(double q) const {
        const double most = q * refusals();
        size_t i = 0;
        for (int seen = refused[0]; seen < most; seen += refused[i]) ++i;
        return i + 1;
    }
};

// `clients` ask again as soon as they have an answer, or a few milliseconds after a refusal.
Outcome ask_for(const HashServer& served, int clients, std::chrono::milliseconds time) {
    std::mutex mutex;
    Outcome outcome;
    std::vector<std::thread> threads_of;
    const auto end = std::chrono::steady_clock::now() + time;
    for (int c = 0; c < clients; ++c)
        threads_of.emplace_back([&] {
            Outcome mine;
            while (std::chrono::steady_clock::now() < end) {
                Client client(served.server->port());
                const auto begin = std::chrono::steady_clock::now();
                client.send_request("POST", "/v1/completions", stream);
                const Response response = client.read_response(60'000);
                if (response.status == 200) {
                    ++mine.answered;
                    continue;
                }
                EXPECT_EQ(response.status, 429);
                EXPECT_TRUE(response.has("Retry-After: ")) << response.head;
                EXPECT_NE(response.body.find("rate_limit"), std::string::npos) << response.body;
                const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
                    std::chrono::steady_clock::now() - begin);
                ++mine.refused[std::min(static_cast<size_t>(took.count()), mine.refused.size() - 1)];
                std::this_thread::sleep_for(5ms);
            }
            const std::lock_guard lock(mutex);
            outcome.answered += mine.answered;
            for (size_t i = 0; i < mine.refused.size(); ++i) outcome.refused[i] += mine.refused[i];
        });
    for (auto& thread : threads_of) thread.join();
    return outcome;
}

// With DEEPINFER_FULL_TESTS=1 for a minute each.
TEST(Load, MoreThanCanBeDoneIsRefusedInTimeAndCostsNothing) {
    engine::EngineOptions options;
    options.limits.max_running = 16;
    options.max_waiting = 16;
    HashServer served(200, options, 5ms);
    const auto time = std::getenv("DEEPINFER_FULL_TESTS") ? 60'000ms : 1500ms;
    const Outcome peak = ask_for(served, 16, time);
    EXPECT_EQ(peak.refusals(), 0);
    const int crowd = 4 * (options.limits.max_running + options.max_waiting);
    ask_for(served, crowd, time / 10);  // the memory that so many connections need
    const size_t before = resident_bytes();
    const Outcome over = ask_for(served, crowd, time);
    const double growth = static_cast<double>(resident_bytes()) / static_cast<double>(before) - 1;
    EXPECT_GT(over.refusals(), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(growth, 0.05);
#endif
    std::printf(
        "%d answers with as many clients as places, %d with four times what may run and wait; %d refused, "
        "median within "
        "%zu ms, 99 %% within %zu ms, all within %zu ms; memory of %zu KiB grew by %.1f %%\n",
        peak.answered, over.answered, over.refusals(), over.refusal_quantile(0.5),
        over.refusal_quantile(0.99), over.refusal_quantile(1), before / 1024, growth * 100);
    EXPECT_GT(over.answered, peak.answered / 2) << "on a busy machine; on a quiet one at least 90 %";
    EXPECT_TRUE(
        soon([&] { return served.engine->stats().blocks_free == served.engine->stats().blocks_total; }));
}

}  // namespace
}  // namespace deepinfer::testing
