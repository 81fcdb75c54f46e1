#include "engine/scheduler.h"

#include <gtest/gtest.h>

namespace deepinfer::engine {
namespace {

std::vector<std::pair<int, int>> work(const Plan& plan) {
    std::vector<std::pair<int, int>> out;
    for (const auto& w : plan.work) out.emplace_back(w.sequence, w.rows);
    return out;
}
using Work = std::vector<std::pair<int, int>>;
constexpr SchedulerLimits limits{.max_rows = 100, .max_running = 4, .block_tokens = 64};

TEST(Scheduler, NothingToDo) { EXPECT_TRUE(plan({}, {}, 10, limits).work.empty()); }

TEST(Scheduler, DecodesFirstThenPrefillThenNewRequestsUpToTheRows) {
    const std::vector<SequenceView> running{{500, 100, 8}, {65, 64, 1}}, waiting{{20, 0, 0}, {30, 0, 0}};
    // One decode row (it needs a block), then what is left of 100 rows to the running prefill; no rows for
    // new ones.
    EXPECT_EQ(work(plan(running, waiting, 10, limits)), (Work{{1, 1}, {0, 99}}));
    const std::vector<SequenceView> nearly{{150, 100, 3}, {65, 64, 1}};
    const Plan p = plan(nearly, waiting, 10, limits);
    EXPECT_EQ(work(p), (Work{{1, 1}, {0, 50}, {2, 20}, {3, 29}}));
    EXPECT_EQ(p.admitted, 2);
}

TEST(Scheduler, NewRequestsStartInOrderAndOnlyWithRoomForTheirPrompt) {
    const std::vector<SequenceView> waiting{{129, 0, 0}, {10, 0, 0}};
    EXPECT_TRUE(plan({}, waiting, 2, limits).work.empty())
        << "130 tokens need 3 blocks; the shorter one behind it must not overtake";
    EXPECT_EQ(work(plan({}, waiting, 3, limits)), (Work{{0, 100}}));
    const std::vector<SequenceView> exact{{64, 0, 0}};
    EXPECT_TRUE(plan({}, exact, 1, limits).work.empty()) << "the first new token needs a place as well";
}

TEST(Scheduler, RunningIsBounded) {
    const std::vector<SequenceView> waiting(6, SequenceView{1, 0, 0});
    const Plan p = plan({}, waiting, 100, limits);
    EXPECT_EQ(p.admitted, 4);
}

TEST(Scheduler, TheYoungestGivesWayWhenBlocksRunOut) {
    const std::vector<SequenceView> running{{65, 64, 1}, {65, 64, 1}, {100, 99, 2}}, waiting{{1, 0, 0}};
    const Plan p = plan(running, waiting, 0, limits);
    EXPECT_EQ(p.preempted, (std::vector<int32_t>{2}));
    EXPECT_EQ(work(p), (Work{{0, 1}, {1, 1}}));
    EXPECT_EQ(p.admitted, 0) << "nobody starts while blocks are short";
}

TEST(Scheduler, TheOldestAlwaysAdvances) {
    std::vector<SequenceView> running{{65, 64, 1}, {65, 64, 1}};
    const Plan p = plan(running, {}, 0, limits);
    EXPECT_EQ(work(p), (Work{{0, 1}}));
    EXPECT_EQ(p.preempted, (std::vector<int32_t>{1}));
}

// Plays random arrivals against a model of the pool: every request ends, blocks are never overdrawn.
TEST(Scheduler, RandomLoadsEndAndNeverOverdrawThePool) {
    uint32_t random = 1;
    const auto next = [&](uint32_t below) {
        random = random * 1664525u + 1013904223u;
        return static_cast<int32_t>((random >> 8) % below);
    };
    for (int round = 0; round < 200; ++round) {
        const int32_t total = 4 + next(12);
        struct Request {
            SequenceView view;
            int32_t target;
        };
        std::vector<Request> running;
        std::vector<Request> waiting;
        int32_t free_blocks = total, left = 30;
        const auto blocks = [](int32_t tokens) { return (tokens + 63) / 64; };
        for (int step = 0; left > 0 || !running.empty() || !waiting.empty(); ++step) {
            ASSERT_LT(step, 200000) << "no progress";
            if (left > 0 && next(3) == 0) {
                const int32_t prompt = 1 + next(static_cast<uint32_t>(total * 64 - 1)),
                              target = std::min(total * 64, prompt + 1 + next(150));
                waiting.push_back({{prompt, 0, 0}, target});
                --left;
            }
            std::vector<SequenceView> r, w;
            for (const auto& q : running) r.push_back(q.view);
            for (const auto& q : waiting) w.push_back(q.view);
            const Plan p = plan(r, w, free_blocks, limits);
            int32_t rows = 0;
            std::vector<int32_t> grow(running.size() + waiting.size(), 0);
            for (const auto& item : p.work)
                rows += item.rows, grow[static_cast<size_t>(item.sequence)] += item.rows;
            ASSERT_LE(rows, limits.max_rows);
            std::vector<Request> preempted;
            for (int32_t index : p.preempted) {
                Request& q = running[static_cast<size_t>(index)];
                ASSERT_EQ(grow[static_cast<size_t>(index)], 0) << "preempted and computed in one step";
                free_blocks += q.view.blocks;
                q.view.blocks = q.view.computed = 0;
                preempted.push_back(q);
                q.target = -1;
            }
            const auto advance = [&](Request& q, int32_t n) {
                const int32_t need = std::max(0, blocks(q.view.computed + n) - q.view.blocks);
                free_blocks -= need, q.view.blocks += need;
                q.view.computed += n;
                if (q.view.computed == q.view.tokens) ++q.view.tokens;
            };
            for (size_t i = 0; i < running.size(); ++i)
                if (running[i].target > 0 && grow[i] > 0) advance(running[i], grow[i]);
            for (int32_t i = 0; i < p.admitted; ++i) {
                Request q = waiting[static_cast<size_t>(i)];
                q.view.blocks = blocks(q.view.tokens + 1);
                free_blocks -= q.view.blocks;
                advance(q, grow[r.size() + static_cast<size_t>(i)]);
                running.push_back(q);
            }
            waiting.erase(waiting.begin(), waiting.begin() + p.admitted);
            waiting.insert(waiting.begin(), preempted.rbegin(), preempted.rend());
            ASSERT_GE(free_blocks, 0);
            ASSERT_LE(static_cast<int32_t>(running.size() - p.preempted.size()), limits.max_running);
            std::erase_if(running, [&](const Request& q) {
                if (q.target > 0 && q.view.tokens >= q.target) free_blocks += q.view.blocks;
                return q.target < 0 || q.view.tokens >= q.target;
            });
        }
        ASSERT_EQ(free_blocks, total);
    }
}

}  // namespace
}  // namespace deepinfer::engine
