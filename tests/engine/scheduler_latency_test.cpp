// What requests notice of the scheduler, on a device whose time is computed: the plans of a whole run are carried out on a
// clock of their own, so the figures are exact and the same everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/scheduler.h"

namespace deepinfer::engine {
namespace {

// Weights that are read once a step, rows that cost compute, attention that grows with depth: about a 0.5 B model on two
// cores.
struct Device final : StepTimes {
    double seconds(std::span<const Chunk> step) const override {
        double rows = 0, pairs = 0;
        for (const Chunk& c : step) {
            const double n = c.rows, p = c.position;
            rows += n, pairs += n * p + n * (n + 1) / 2;
        }
        return rows == 0 ? 0 : std::max(0.011, 0.0013 * rows) + 0.15e-6 * pairs;
    }
    void observe(std::span<const Chunk>, double) override {}
};

struct SimulatedRequest {
    double arrival = 0;
    int32_t prompt = 0, answer = 1;
    std::vector<double> tokens = {};  // when they came
    double first() const { return tokens.front() - arrival; }
    double longest_gap_from(double time) const {
        double gap = 0;
        for (size_t i = 1; i < tokens.size(); ++i)
            if (tokens[i - 1] >= time) gap = std::max(gap, tokens[i] - tokens[i - 1]);
        return gap;
    }
};

// Fills in when the tokens came. `longest_wait`: most steps with prompt rows in which an unfinished prompt had none.
void simulate(std::vector<SimulatedRequest>& requests, const SchedulerLimits& limits, int32_t& longest_wait) {
    const Device device;
    struct Active {
        SequenceView view;
        size_t request = 0;
    };
    std::vector<Active> running, waiting;
    double now = 0;
    size_t next = 0, ended = 0;
    longest_wait = 0;
    while (ended < requests.size()) {
        for (; next < requests.size() && requests[next].arrival <= now; ++next) {
            SequenceView view;
            view.tokens = requests[next].prompt;
            view.arrival = view.waiting_since = requests[next].arrival;
            waiting.push_back({view, next});
        }
        if (running.empty() && waiting.empty()) {
            now = requests[next].arrival;
            continue;
        }
        std::vector<SequenceView> r, w;
        for (std::vector<Active>* list : {&running, &waiting})
            for (Active& a : *list) {
                const Chunk rest{a.view.tokens - a.view.computed, a.view.computed, 1};
                a.view.service = device.seconds({&rest, 1});
                (list == &running ? r : w).push_back(a.view);
            }
        const std::vector<TenantView> tenants{{}};
        const Plan p = plan({r, w, tenants, 1 << 20, 0, now}, device, limits);
        ASSERT_FALSE(p.work.empty());
        ASSERT_TRUE(p.preempted.empty());
        const auto at = [&](int32_t i) -> Active& {
            const auto k = static_cast<size_t>(i);
            return k < r.size() ? running[k] : waiting[k - r.size()];
        };
        for (const int32_t i : p.skipped) longest_wait = std::max(longest_wait, ++at(i).view.skipped);
        const double start = now;
        now += p.predicted;
        for (const Plan::Work& item : p.work) {
            Active& a = at(item.sequence);
            a.view.computed += item.rows, a.view.skipped = 0, a.view.waiting_since = start;
            if (a.view.computed < a.view.tokens) continue;
            ++a.view.tokens;
            requests[a.request].tokens.push_back(now);
        }
        for (const int32_t i : p.admitted) running.push_back(waiting[static_cast<size_t>(i)]);
        std::erase_if(waiting, [&](const Active& a) {
            return std::any_of(running.begin(), running.end(),
                               [&](const Active& b) { return b.request == a.request; });
        });
        ended += std::erase_if(running, [&](const Active& a) {
            const SimulatedRequest& q = requests[a.request];
            return static_cast<int32_t>(q.tokens.size()) >= q.answer;
        });
    }
}

SchedulerLimits server_limits() {
    SchedulerLimits limits;
    limits.prefill_seconds = 0.08;  // as `serve` has it
    return limits;
}

double p95_of_short(std::vector<SimulatedRequest> requests, int32_t& longest_wait) {
    simulate(requests, server_limits(), longest_wait);
    std::vector<double> first;
    for (const SimulatedRequest& q : requests)
        if (q.prompt == 200) first.push_back(q.first());
    std::sort(first.begin(), first.end());
    return first[static_cast<size_t>(std::ceil(0.95 * static_cast<double>(first.size()))) - 1];
}

// One prompt of 64 K tokens among twenty of 200: the short ones' first tokens come at most twice as late, and the long one
// is never passed over for long.
TEST(SchedulerLatency, ALongPromptDoesNotHoldUpShortOnes) {
    for (const double pause :
         {0.0, 0.3, 1.0}) {  // between the short ones; at 0.3 s the device is nearly full
        std::vector<SimulatedRequest> with{{.arrival = 0, .prompt = 65'536}}, without;
        for (int i = 0; i < 20; ++i)
            without.push_back({.arrival = 5 + i * pause, .prompt = 200, .answer = 8});
        with.insert(with.end(), without.begin(), without.end());
        int32_t skipped_without = 0, skipped = 0;
        const double alone = p95_of_short(without, skipped_without), beside = p95_of_short(with, skipped);
        EXPECT_LE(beside, 2 * alone) << "pause " << pause;
        EXPECT_LE(skipped, server_limits().most_skipped + 20) << "several may have waited as long";
        std::printf("a short one every %.1f s: p95 of the first token %.2f s, beside 64 K tokens %.2f s\n",
                    pause, alone, beside);
    }
}

// A running answer's tokens come at most three times as far apart while a prompt of 32 K tokens is computed.
TEST(SchedulerLatency, ALongPromptDoesNotStallARunningAnswer) {
    std::vector<SimulatedRequest> requests{{.arrival = 0, .prompt = 200, .answer = 20'000},
                                           {.arrival = 5, .prompt = 32'768}};
    int32_t skipped = 0;
    simulate(requests, server_limits(), skipped);
    SimulatedRequest& answer = requests[0];
    const double done = requests[1].tokens.front();
    SimulatedRequest before = answer, during = answer;
    std::erase_if(before.tokens, [](double t) { return t > 5; });
    std::erase_if(during.tokens, [&](double t) { return t > done; });
    const double idle = before.longest_gap_from(before.tokens[1]), busy = during.longest_gap_from(5);
    EXPECT_LT(done, answer.tokens.back()) << "the prompt is computed beside the answer, not after it";
    EXPECT_LE(busy, 3 * idle);
    std::printf("between tokens: %.1f ms, beside a prompt of 32 K tokens at most %.1f ms\n", idle * 1e3,
                busy * 1e3);
}

// Alone, a long prompt pays for its chunks with little time.
TEST(SchedulerLatency, ALongPromptAloneIsNearlyAsFastAsUnchunked) {
    for (const int32_t tokens : {30'000, 120'000}) {
        std::vector<SimulatedRequest> requests{{.arrival = 0, .prompt = tokens}};
        int32_t skipped = 0;
        simulate(requests, server_limits(), skipped);
        const Chunk whole{tokens, 0, 1};
        EXPECT_LE(requests[0].first(), 1.15 * Device().seconds({&whole, 1})) << tokens;
    }
}

}  // namespace
}  // namespace deepinfer::engine
