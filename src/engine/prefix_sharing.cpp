#include "engine/prefix_sharing.h"

#include <cassert>
#include <utility>

#include "engine/prompt_scores.h"

namespace deepinfer::engine {

void PrefixSharing::enter(Sequence& s, const std::string& tenant, const std::string& salt) const {
    if (!enabled_) return;
    s.root =
        kv::CacheScope{.fingerprint = fingerprint_, .adapter = {}, .tenant = tenant, .salt = salt}.root();
}

bool PrefixSharing::look(Sequence& s) const {
    if (!enabled_) return false;
    // The last token is computed in any case: its logits are wanted. So are those of all, for prompt log-probabilities.
    s.usable = wants_scores(s) ? 0 : (s.known() - 1) / kv::block_tokens;
    kv::extend_keys(s.root, s.tokens, {}, s.keys);  // of one that gave way: with its answer so far
    const bool changed = look_again(s);
    s.held = s.found < s.usable && claims_.contains(s.keys[static_cast<size_t>(s.found)]);
    return changed;
}

bool PrefixSharing::look_again(Sequence& s) const {
    if (!enabled_) return false;
    const int32_t known = std::min(s.found, s.usable);
    const int32_t before = std::exchange(s.found, cache_.match(prefix(s), known));
    return s.found != before;
}

void PrefixSharing::hold_back_twins(const std::deque<SequencePtr>& waiting) const {
    if (!enabled_) return;
    std::unordered_map<kv::BlockKey, Sequence*, kv::BlockKeyHash> first;
    for (const SequencePtr& s : waiting) {
        if (s->held || s->found >= s->usable) continue;
        Sequence*& other = first[s->keys[static_cast<size_t>(s->found)]];
        if (!other) {
            other = s.get();
            continue;
        }
        const bool sooner =
            s->priority != other->priority ? s->priority < other->priority : s->arrival < other->arrival;
        (sooner ? other : s.get())->held = true;
        if (sooner) other = s.get();
    }
}

void PrefixSharing::admit(Sequence& s) {
    if (!enabled_) return;
    assert(s.blocks.empty());
    s.blocks = cache_.acquire(prefix(s), s.found);
    assert(static_cast<int32_t>(s.blocks.size()) == s.found);
    s.computed = s.found * kv::block_tokens;
    s.published = s.found;
    s.claimed = std::max(s.found, s.usable);
    for (int32_t i = s.found; i < s.claimed; ++i) claims_.try_emplace(s.keys[static_cast<size_t>(i)], &s);
    if (s.started) return;  // came back: what it finds is its own work
    s.cached_tokens = std::min(s.computed, s.prompt_tokens);
    s.counted = s.cached_tokens;
}

CacheMisses PrefixSharing::misses(const Sequence& s) const {
    CacheMisses result{};
    if (!enabled_) return result;
    int32_t rest = s.prompt_tokens - s.cached_tokens;
    if (wants_scores(s)) {
        of(result, CacheMiss::prompt_logprobs) = rest;
        return result;
    }
    // Of its full blocks, those that a store had and did not give come first.
    const int32_t first = s.cached_tokens / kv::block_tokens;
    const auto add = [&](CacheMiss why) { of(result, why) += kv::block_tokens, rest -= kv::block_tokens; };
    for (int32_t i = first; i < s.usable; ++i)
        add(i < first + s.not_loaded                                ? s.why_not_loaded
            : cache_.evicted_lately(s.keys[static_cast<size_t>(i)]) ? CacheMiss::evicted
                                                                    : CacheMiss::fresh);
    of(result, CacheMiss::tail) = rest;
    return result;
}

PrefixSharing::Published PrefixSharing::publish(Sequence& s, int32_t computed) {
    Published result;
    const int32_t full = computed / kv::block_tokens;
    if (!enabled_ || full <= s.published) return result;
    kv::extend_keys(s.root, s.tokens, {}, s.keys);
    const kv::Prefix all{s.keys, s.tokens};
    for (; s.published < full; ++s.published) {
        const auto i = static_cast<size_t>(s.published);
        const Chunk chunk{kv::block_tokens, s.published * kv::block_tokens, 0};
        const double seconds = times_.seconds({&chunk, 1});
        const kv::BlockId held = cache_.publish(all, s.published, s.blocks, seconds);
        if (held != s.blocks[i])
            result.replaced.push_back(std::exchange(s.blocks[i], held));
        else if (cache_.holds(held, s.keys[i]))
            result.entered.push_back({s.published, seconds});
        if (s.published < s.claimed)
            if (const auto claim = claims_.find(s.keys[i]); claim != claims_.end() && claim->second == &s)
                claims_.erase(claim);
    }
    return result;
}

void PrefixSharing::leave(Sequence& s) {
    for (int32_t i = s.published; i < s.claimed; ++i)
        if (const auto claim = claims_.find(s.keys[static_cast<size_t>(i)]);
            claim != claims_.end() && claim->second == &s)
            claims_.erase(claim);
    s.found = s.published = s.claimed = 0;
}

}  // namespace deepinfer::engine
