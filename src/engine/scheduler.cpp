#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace deepinfer::engine {

namespace {

constexpr double nearly = 0.9;  // of its budget: then a step is full
constexpr double enough = 0.5;  // if a prompt ends in it: its first token should not wait for others' chunks
// Waiting ones that do not fit, looked at in a step: more would cost more than they gain.
constexpr int32_t most_passed = 32;
constexpr int32_t chunk_rows = 16;  // chunks are multiples of it: tiles of the matrix products come out even

class Planner {
  public:
    Planner(const PlanInput& input, const StepTimes& times, const SchedulerLimits& limits)
        : input_(input),
          times_(times),
          limits_(limits),
          free_blocks_(input.free_blocks),
          coming_blocks_(input.coming_blocks),
          rows_left_(limits.max_rows),
          used_(input.tenants.begin(), input.tenants.end()),
          out_(input.running.size() + input.waiting.size(), false) {}

    Plan run() {
        count_ = static_cast<int32_t>(input_.running.size());
        decode();
        const double decoding = chunks_.empty() ? 0 : times_.seconds(chunks_);
        plan_.budget = chunks_.empty()              ? prefill_budget()
                       : limits_.decode_seconds > 0 ? limits_.decode_seconds
                                                    : limits_.decode_slowdown * decoding;
        plan_.predicted = decoding;
        for (const Plan::Work& row : plan_.work)
            charge(view(row.sequence), decoding / static_cast<double>(plan_.work.size()));
        prefill();
        for (const TenantView& tenant : used_) plan_.used.push_back(tenant.used);
        return std::move(plan_);
    }

  private:
    double prefill_budget() const {
        const Chunk row{1, 0, 1};
        const double least = limits_.prefill_slowdown;
        return std::max(limits_.prefill_seconds, least > 0 ? least * times_.seconds({&row, 1}) : 0);
    }
    const SequenceView& view(int32_t index) const {
        const auto i = static_cast<size_t>(index), n = input_.running.size();
        return i < n ? input_.running[i] : input_.waiting[i - n];
    }
    bool is_running(int32_t index) const { return static_cast<size_t>(index) < input_.running.size(); }
    int32_t blocks_for(int32_t tokens) const {
        return (tokens + limits_.block_tokens - 1) / limits_.block_tokens;
    }
    int32_t extra_blocks(const SequenceView& s, int32_t rows) const {
        return std::max(0, blocks_for(s.computed + rows) - s.blocks);
    }
    // All blocks of the prompt and of the first new token, so that it cannot get stuck half-way; a tail for every
    // further choice.
    int32_t admission_blocks(const SequenceView& s) const {
        return blocks_for(s.tokens + 1) - s.blocks + s.revived + s.choices - 1;
    }
    static Chunk chunk_of(const SequenceView& s, int32_t rows) {
        return {rows, s.computed, s.all_logits ? rows : s.computed + rows == s.tokens ? 1 : 0};
    }
    void take(int32_t index, int32_t rows) {
        const SequenceView& s = view(index);
        rows_left_ -= rows;
        chunks_.push_back(chunk_of(s, rows));
        plan_.work.push_back({index, rows});
    }

    void charge(const SequenceView& s, double seconds) {
        TenantView& tenant = used_[static_cast<size_t>(s.tenant)];
        tenant.used += seconds / tenant.weight;
    }

    void decode() {
        auto youngest = static_cast<int32_t>(input_.running.size()) - 1;
        for (int32_t i = 0; i < static_cast<int32_t>(input_.running.size()) && rows_left_ > 0; ++i) {
            const SequenceView& s = input_.running[static_cast<size_t>(i)];
            if (out_[static_cast<size_t>(i)] || s.complete || s.tokens - s.computed != 1) continue;
            const int32_t need = extra_blocks(s, 1);
            for (; need > free_blocks_ + coming_blocks_ && youngest > i; --youngest) give_up(youngest);
            // Waits for a step in flight, or for those that finish; alone it always fits.
            if (need > free_blocks_) {
                coming_blocks_ -= std::min(coming_blocks_, need);
                continue;
            }
            free_blocks_ -= need;
            take(i, 1);
        }
    }

    void give_up(int32_t index) {
        const SequenceView& s = input_.running[static_cast<size_t>(index)];
        if (out_[static_cast<size_t>(index)] || s.complete || s.blocks == 0) return;
        out_[static_cast<size_t>(index)] = true;
        (s.in_flight ? coming_blocks_ : free_blocks_) += s.freed_by_giving;
        --count_;
        plan_.preempted.push_back(index);
    }

    void prefill() {
        std::vector<int32_t> candidates;
        for (int32_t i = 0; i < static_cast<int32_t>(out_.size()); ++i) {
            const SequenceView& s = view(i);
            const bool starts = !is_running(i) && plan_.preempted.empty() && !s.pending &&
                                !s.held_back;  // short of blocks: nobody new
            const bool goes_on =
                is_running(i) && !out_[static_cast<size_t>(i)] && !s.complete && s.tokens - s.computed > 1;
            if (starts || goes_on) candidates.push_back(i);
        }
        // Finding whose turn it is looks at all candidates: those that cannot start are left out.
        const auto leave_out_waiting = [&] {
            std::erase_if(candidates, [&](int32_t c) {
                if (!is_running(c)) plan_.skipped.push_back(c);
                return !is_running(c);
            });
        };
        int32_t passed = 0;
        bool first = true;
        if (count_ >= limits_.max_running) leave_out_waiting();
        while (!candidates.empty() && rows_left_ > 0 &&
               (first || plan_.predicted <= (ends_ ? enough : nearly) * plan_.budget)) {
            const auto at = candidates.begin() + next(candidates);
            const int32_t index = *at;
            const SequenceView& s = view(index);
            candidates.erase(at);
            const bool fits = is_running(index) || (count_ + s.choices <= limits_.max_running &&
                                                    admission_blocks(s) <= free_blocks_);
            const int32_t rows = fits ? chunk(s, is_running(index), first) : 0;
            if (rows == 0) {
                plan_.skipped.push_back(index);
                // Others may pass one that does not fit, but not for ever: then places and blocks are kept for it.
                if (!fits && (s.skipped >= limits_.most_skipped || ++passed == most_passed))
                    leave_out_waiting();
                continue;
            }
            first = false;
            ends_ |= s.computed + rows == s.tokens;
            admit(index, rows);
            if (count_ >= limits_.max_running) leave_out_waiting();
        }
        if (first)
            plan_.skipped.clear();
        else
            plan_.skipped.insert(plan_.skipped.end(), candidates.begin(), candidates.end());
    }

    void admit(int32_t index, int32_t rows) {
        const SequenceView& s = view(index);
        if (is_running(index)) {
            free_blocks_ -= extra_blocks(s, rows);
        } else {
            free_blocks_ -= admission_blocks(s);
            count_ += s.choices;
            plan_.admitted.push_back(index - static_cast<int32_t>(input_.running.size()));
        }
        take(index, rows);
        const double now = times_.seconds(chunks_);
        charge(s, now - plan_.predicted);
        plan_.predicted = now;
    }

    // Rows of the next chunk; 0 if none fits.
    int32_t chunk(const SequenceView& s, bool running, bool first) {
        int32_t most = std::min({s.tokens - s.computed, rows_left_, s.max_rows});
        if (running) most = std::min(most, (s.blocks + free_blocks_) * limits_.block_tokens - s.computed);
        if (most <= 0) return 0;
        const bool ends = most == s.tokens - s.computed;
        chunks_.emplace_back();
        const auto fits = [&](int32_t rows) {
            chunks_.back() = chunk_of(s, rows);
            return times_.seconds(chunks_) <= plan_.budget;
        };
        int32_t rows = most;
        if (!fits(most)) rows = largest(most - 1, fits);
        // Sixteens, unless that would leave a part of the time unused.
        if (const int32_t even = rows / chunk_rows * chunk_rows;
            !(rows == most && ends) && even >= nearly * rows)
            rows = even;
        if (rows == 0 && first) rows = 1;
        chunks_.pop_back();
        return rows;
    }
    // The largest n in [0, most] with fits(n), which holds for 0 and, above some n, for none.
    template <class F>
    static int32_t largest(int32_t most, F&& fits) {
        int32_t yes = 0, no = most + 1;
        while (no - yes > 1) {
            const int32_t middle = yes + (no - yes) / 2;
            (fits(middle) ? yes : no) = middle;
        }
        return yes;
    }

    int bucket(const SequenceView& s) const {
        return static_cast<int>(std::floor(std::log2(std::max(1.0, s.service / limits_.shortest_service))));
    }

    // The position in `candidates` of the one whose turn it is.
    std::ptrdiff_t next(const std::vector<int32_t>& candidates) const {
        const auto used = [&](int32_t c) { return used_[static_cast<size_t>(view(c).tenant)].used; };
        int32_t tenant = view(candidates[0]).tenant;
        double least = used(candidates[0]);
        for (int32_t c : candidates)
            if (used(c) < least) least = used(c), tenant = view(c).tenant;
        std::optional<std::ptrdiff_t> aged;
        std::map<std::pair<int32_t, int>, std::ptrdiff_t> heads;  // first come of (priority, bucket)
        for (size_t i = 0; i < candidates.size(); ++i) {
            const SequenceView& s = view(candidates[i]);
            if (s.tenant != tenant) continue;
            const auto earlier = [&](std::ptrdiff_t than) {
                return s.arrival < view(candidates[static_cast<size_t>(than)]).arrival;
            };
            const auto at = static_cast<std::ptrdiff_t>(i);
            if (s.skipped >= limits_.most_skipped && (!aged || earlier(*aged))) aged = at;
            const auto [head, fresh] = heads.try_emplace({s.priority, bucket(s)}, at);
            if (!fresh && earlier(head->second)) head->second = at;
        }
        if (aged) return *aged;
        std::ptrdiff_t best = heads.begin()->second;
        double best_ratio = -1;
        const int32_t priority = heads.begin()->first.first;
        for (const auto& [key, at] : heads) {
            if (key.first != priority) break;
            const SequenceView& s = view(candidates[static_cast<size_t>(at)]);
            const double service = std::max(s.service, limits_.shortest_service),
                         ratio = (input_.now - s.waiting_since + service) / service;
            if (ratio > best_ratio) best_ratio = ratio, best = at;
        }
        return best;
    }

    const PlanInput& input_;
    const StepTimes& times_;
    const SchedulerLimits& limits_;
    Plan plan_;
    std::vector<Chunk> chunks_;
    int32_t free_blocks_, coming_blocks_, rows_left_, count_ = 0;
    std::vector<TenantView> used_;
    std::vector<bool> out_;
    bool ends_ = false;  // a prompt, in this step
};

}  // namespace

Plan plan(const PlanInput& input, const StepTimes& times, const SchedulerLimits& limits) {
    return Planner(input, times, limits).run();
}

}  // namespace deepinfer::engine
