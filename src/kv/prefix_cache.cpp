#include "kv/prefix_cache.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace deepinfer::kv {

namespace {
using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
}  // namespace

const PrefixCache::Entry* PrefixCache::find(const Prefix& prefix, size_t i) const {
    const auto found = entries_.find(prefix.keys[i]);
    if (found == entries_.end()) return nullptr;
    const Entry& entry = found->second;
    const bool follows = i == 0 ? !entry.parent : entry.parent && entry.parent->key == prefix.keys[i - 1];
    return follows && std::ranges::equal(entry.tokens, prefix.block(i)) ? &entry : nullptr;
}

int32_t PrefixCache::match(const Prefix& prefix, int32_t known) const {
    auto count = static_cast<size_t>(known);
    assert(count <= prefix.keys.size());
    // Parents leave after their children: where a block is there, those before it are.
    while (count > 0 && !find(prefix, count - 1)) --count;
    while (count < prefix.keys.size() && find(prefix, count)) ++count;
    return static_cast<int32_t>(count);
}

int32_t PrefixCache::unreferenced(const Prefix& prefix, int32_t count) const {
    int32_t result = 0;
    // Whoever references a block references those before it.
    for (auto i = static_cast<size_t>(count); i-- > 0; ++result)
        if (pool_.references(find(prefix, i)->block) > 0) break;
    return result;
}

std::vector<BlockId> PrefixCache::acquire(const Prefix& prefix, int32_t count) {
    std::vector<BlockId> blocks;
    blocks.reserve(static_cast<size_t>(count));
    for (size_t i = 0; i < static_cast<size_t>(count) && find(prefix, i); ++i) {
        Entry& entry = entries_.find(prefix.keys[i])->second;
        pool_.retain(entry.block);
        use(entry);
        blocks.push_back(entry.block);
    }
    return blocks;
}

BlockId PrefixCache::publish(const Prefix& prefix, int32_t index, std::span<const BlockId> table,
                             double seconds_to_compute) {
    const auto i = static_cast<size_t>(index);
    const BlockId block = table[i];
    Entry* parent = i > 0 ? owner_of(table[i - 1]) : nullptr;
    if (i > 0 && (!parent || parent->key != prefix.keys[i - 1])) return block;
    const auto [place, fresh] = entries_.try_emplace(prefix.keys[i]);
    Entry& entry = place->second;
    if (!fresh) {
        if (entry.block == block || !find(prefix, i)) return block;
        pool_.retain(entry.block);
        use(entry);
        return entry.block;
    }
    entry.key = prefix.keys[i];
    entry.parent = parent;
    entry.block = block;
    entry.seconds = seconds_to_compute;
    entry.entered_at = entry.used_at = Clock::now();
    std::ranges::copy(prefix.block(i), entry.tokens.begin());
    set_value(entry);
    if (parent && parent->children++ == 0) leaves_.erase(parent);
    leaves_.insert(&entry);
    if (owners_.empty()) owners_.resize(static_cast<size_t>(pool_.total()));
    assert(!owner_of(block));
    owners_[static_cast<size_t>(block)] = &entry;
    pool_.set_kept(block, true);
    ++stats_.blocks;
    return block;
}

void PrefixCache::use(Entry& entry) {
    const Clock::time_point now = Clock::now();
    stats_.reuse_gap.add(seconds(now - std::exchange(entry.used_at, now)));
    const bool leaf = entry.children == 0;
    if (leaf) leaves_.erase(&entry);
    set_value(entry);
    if (leaf) leaves_.insert(&entry);
}

BlockId PrefixCache::allocate() {
    if (pool_.free() == 0 && pool_.kept() > 0) {
        // Leaves that are in use are passed over; there are at most as many as running sequences.
        const auto victim = std::ranges::find_if(
            leaves_, [this](const Entry* entry) { return pool_.references(entry->block) == 0; });
        assert(victim != leaves_.end());
        floor_ = std::max(floor_, (*victim)->value);
        note_eviction(**victim);
        evict(**victim);
    }
    return pool_.allocate();
}

void PrefixCache::note_eviction(const Entry& entry) {
    const Clock::time_point now = Clock::now();
    ++stats_.evicted_total;
    stats_.lifetime.add(seconds(now - entry.entered_at));
    stats_.idle.add(seconds(now - entry.used_at));
    if (!gone_.insert(entry.key).second) return;
    gone_order_.push_back(entry.key);
    if (gone_order_.size() <= 2 * static_cast<size_t>(pool_.total())) return;
    gone_.erase(gone_order_.front());
    gone_order_.pop_front();
}

void PrefixCache::evict(Entry& entry) {
    assert(entry.children == 0);
    leaves_.erase(&entry);
    if (Entry* parent = entry.parent; parent && --parent->children == 0) leaves_.insert(parent);
    owners_[static_cast<size_t>(entry.block)] = nullptr;
    pool_.set_kept(entry.block, false);
    --stats_.blocks;
    entries_.erase(BlockKey(entry.key));
}

void PrefixCache::clear() {
    while (!leaves_.empty()) evict(**leaves_.begin());
}

std::string PrefixCache::check() const {
    size_t leaves = 0;
    std::unordered_map<const Entry*, int32_t> children;
    for (const auto& [key, entry] : entries_) {
        if (key != entry.key) return "an entry under another's key";
        if (owner_of(entry.block) != &entry) return "a block that does not know its entry";
        if (entry.parent) {
            ++children[entry.parent];
            const auto parent = entries_.find(entry.parent->key);
            if (parent == entries_.end() || &parent->second != entry.parent) return "a parent that is gone";
            if (pool_.references(entry.block) > 0 && pool_.references(entry.parent->block) == 0)
                return "a referenced block whose parent is not";
        }
        if (entry.children == 0) {
            ++leaves;
            if (!leaves_.contains(const_cast<Entry*>(&entry))) return "a leaf that is not listed";
        }
    }
    for (const auto& [key, entry] : entries_)
        if (entry.children != children[&entry]) return "a wrong number of children";
    if (leaves != leaves_.size()) return "a listed leaf that is none";
    if (stats_.blocks != entries_.size()) return "a wrong number of blocks";
    int32_t kept = 0, free = 0, referenced = 0;
    for (BlockId block = 0; block < pool_.total(); ++block) {
        if (pool_.references(block) > 0)
            ++referenced;
        else
            ++(holds(block) ? kept : free);
    }
    if (kept != pool_.kept() || free != pool_.free() || free + kept + referenced != pool_.total())
        return "free + kept + referenced blocks are not all";
    return {};
}

}  // namespace deepinfer::kv
