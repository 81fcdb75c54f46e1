#include "engine/scheduler.h"

#include <algorithm>

namespace deepinfer::engine {

namespace {

int32_t blocks_for(int32_t tokens, const SchedulerLimits& limits) {
    return (tokens + limits.block_tokens - 1) / limits.block_tokens;
}

}  // namespace

Plan plan(std::span<const SequenceView> running, std::span<const SequenceView> waiting, int32_t free_blocks,
          const SchedulerLimits& limits) {
    Plan plan;
    int32_t rows_left = limits.max_rows;
    std::vector<bool> out(running.size(), false);
    const auto extra_blocks = [&](const SequenceView& s, int32_t rows) {
        return std::max(0, blocks_for(s.computed + rows, limits) - s.blocks);
    };

    // Decoding sequences, oldest first; the youngest give way.
    int32_t youngest = static_cast<int32_t>(running.size()) - 1;
    for (int32_t i = 0; i < static_cast<int32_t>(running.size()) && rows_left > 0; ++i) {
        const SequenceView& s = running[static_cast<size_t>(i)];
        if (out[static_cast<size_t>(i)] || s.tokens - s.computed != 1) continue;
        const int32_t need = extra_blocks(s, 1);
        while (need > free_blocks && youngest > i) {
            if (!out[static_cast<size_t>(youngest)]) {
                out[static_cast<size_t>(youngest)] = true;
                free_blocks += running[static_cast<size_t>(youngest)].blocks;
                plan.preempted.push_back(youngest);
            }
            --youngest;
        }
        if (need > free_blocks)
            continue;  // the oldest waits for those that finish; a lone sequence always fits (checked on
                       // submission)
        free_blocks -= need;
        --rows_left;
        plan.work.push_back({i, 1});
    }

    // Prefill of running sequences: as much as rows and blocks allow.
    for (int32_t i = 0; i < static_cast<int32_t>(running.size()) && rows_left > 0; ++i) {
        const SequenceView& s = running[static_cast<size_t>(i)];
        if (out[static_cast<size_t>(i)] || s.tokens - s.computed <= 1) continue;
        const int32_t room = (s.blocks + free_blocks) * limits.block_tokens - s.computed;
        const int32_t rows = std::min({s.tokens - s.computed, rows_left, room});
        if (rows <= 0) continue;
        free_blocks -= extra_blocks(s, rows);
        rows_left -= rows;
        plan.work.push_back({i, rows});
    }

    // New sequences, in order of arrival, each with room for its whole prompt and one more token.
    int32_t count = static_cast<int32_t>(running.size() - plan.preempted.size());
    if (!plan.preempted.empty()) return plan;  // blocks are short: nobody new
    for (const SequenceView& s : waiting) {
        if (rows_left == 0 || count >= limits.max_running || blocks_for(s.tokens + 1, limits) > free_blocks)
            break;
        const int32_t rows = std::min(s.tokens - s.computed, rows_left);
        free_blocks -= blocks_for(s.tokens + 1, limits);
        rows_left -= rows;
        ++count;
        plan.work.push_back({static_cast<int32_t>(running.size()) + plan.admitted, rows});
        ++plan.admitted;
    }
    return plan;
}

}  // namespace deepinfer::engine
