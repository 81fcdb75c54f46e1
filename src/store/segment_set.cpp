#include "store/segment_set.h"

#include <algorithm>
#include <limits>

namespace deepinfer::store {

namespace {

// What was used less than a minute ago is about as good as what is used now.
constexpr double fresh_seconds = 60;
// Of blocks of other models, whose index is not read: seconds per byte.
constexpr double usual_worth = 1e-7;

double aged(double worth, int64_t used, int64_t now) {
    return worth / (static_cast<double>(std::max<int64_t>(now - used, 0)) + fresh_seconds);
}

}  // namespace

const SegmentSet::Place* SegmentSet::find(const kv::BlockKey& key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &found->second;
}

void SegmentSet::add(const SegmentPtr& segment, size_t record, int64_t used) {
    segment->used.resize(std::max(segment->used.size(), record + 1));
    const SegmentEntry& entry = segment->entries[record];
    if (!places_.try_emplace(entry.key, Place{segment, record}).second) return;
    segment->used[record] = used;
    Tenant& tenant = tenants_[entry.tenant];
    ++tenant.blocks;
    if (ages_of_tenants_) tenant.stored.push_back(entry.key);
}

void SegmentSet::forget(const kv::BlockKey& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    const Place place = found->second;
    Tenant& tenant = tenants_[place.segment->entries[place.record].tenant];
    place.segment->used[place.record] = 0;
    --tenant.blocks;
    places_.erase(found);
    drop_gone(tenant);
}

// From the front, where they gather.
void SegmentSet::drop_gone(Tenant& tenant) {
    while (!tenant.stored.empty() && !places_.contains(tenant.stored.front())) tenant.stored.pop_front();
}

void SegmentSet::touch(const Place& place, int64_t now) { place.segment->used[place.record] = now; }

SegmentPtr SegmentSet::named(const std::filesystem::path& name) const {
    const auto found = segments_.find(name.string());
    return found == segments_.end() ? nullptr : found->second;
}

void SegmentSet::erase(const SegmentPtr& segment) {
    for (const SegmentEntry& entry : segment->entries)
        if (const Place* place = find(entry.key); place && place->segment == segment) forget(entry.key);
    segments_.erase(segment->path.filename().string());
}

int64_t SegmentSet::bytes() const {
    int64_t sum = 0;
    for (const auto& [name, segment] : segments_) sum += segment->bytes;
    for (const OtherFile& other : others) sum += other.bytes;
    return sum;
}

uint64_t SegmentSet::tenant_bytes(uint64_t tenant) const {
    const auto found = tenants_.find(tenant);
    return found == tenants_.end() ? 0 : found->second.blocks * static_cast<uint64_t>(record_bytes_);
}

std::vector<uint64_t> SegmentSet::tenants() const {
    std::vector<uint64_t> result;
    for (const auto& [tenant, blocks] : tenants_) result.push_back(tenant);
    return result;
}

const kv::BlockKey* SegmentSet::oldest_of(uint64_t tenant) {
    drop_gone(tenants_[tenant]);
    const std::deque<kv::BlockKey>& stored = tenants_[tenant].stored;
    return stored.empty() ? nullptr : &stored.front();
}

std::vector<SegmentPtr> SegmentSet::expired(int64_t now) const {
    std::vector<SegmentPtr> result;
    for (const auto& [name, segment] : segments_)
        if (!segment->own && segment->last_used + kv::lifetime(segment->retention).count() < now)
            result.push_back(segment);
    return result;
}

double SegmentSet::worth(const SegmentEntry& entry, int64_t used, int64_t now) const {
    return used == 0
               ? 0
               : aged(static_cast<double>(entry.seconds) / static_cast<double>(record_bytes_), used, now);
}

double SegmentSet::worth(const Segment& segment, int64_t now) const {
    double sum = 0;
    for (size_t i = 0; i < segment.entries.size(); ++i)
        sum += worth(segment.entries[i], i < segment.used.size() ? segment.used[i] : 0, now);
    return sum * static_cast<double>(record_bytes_) /
           static_cast<double>(std::max<int64_t>(segment.bytes, 1));
}

SegmentSet::Victim SegmentSet::least_worth(int64_t now) const {
    Victim victim;
    victim.worth = victim.next_worth = std::numeric_limits<double>::infinity();
    const auto consider = [&](double value, SegmentPtr segment, std::optional<size_t> other) {
        if (value < victim.worth) {
            victim.next_worth = victim.worth;
            victim.worth = value;
            victim.segment = std::move(segment);
            victim.other = other;
        } else {
            victim.next_worth = std::min(victim.next_worth, value);
        }
    };
    for (const auto& [name, segment] : segments_)
        if (!segment->own && segment->sealed) consider(worth(*segment, now), segment, std::nullopt);
    for (size_t i = 0; i < others.size(); ++i)
        if (!others[i].in_use) consider(aged(usual_worth, others[i].last_used, now), nullptr, i);
    return victim;
}

}  // namespace deepinfer::store
