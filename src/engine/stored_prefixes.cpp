#include "engine/stored_prefixes.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/seconds.h"

namespace deepinfer::engine {

namespace {

constexpr size_t most_loads = 4;                             // at a time
constexpr auto lookup_time = std::chrono::milliseconds(50);  // what is not found by then is computed
constexpr int64_t most_written_bytes = int64_t{64} << 20;    // of copies that are being written
constexpr int64_t most_written_blocks = 64;
constexpr auto grace = std::chrono::milliseconds(250);  // after which a store is taken to hang
constexpr auto again_after = std::chrono::seconds(60);
constexpr auto stalls_after = std::chrono::seconds(1);  // without a block written
constexpr size_t most_written_again = 1 << 16;          // that are remembered
constexpr double doubted_less = 0.875;                  // with each load that is not begun
constexpr double seconds_per_token_unknown = 1e-3;      // of computing, without a cost model

kv::Prefix prefix(const Sequence& s) { return {s.keys, s.tokens}; }

}  // namespace

StoredPrefixes::StoredPrefixes(kv::PrefixCache& cache, kv::BlockPool& pool, const StepTimes& times,
                               EngineStats& counters, Stores stores, std::function<void()> wake)
    : cache_(cache), pool_(pool), times_(times), counters_(counters) {
    doubt_.assign(stores.size(), 1);
    backlog_.resize(stores.size());
    if (!stores.empty()) transfer_ = std::make_unique<BlockTransfer>(std::move(stores), std::move(wake));
}

StoredPrefixes::~StoredPrefixes() {
    if (!transfer_) return;
    for (Waiting& write : waiting_writes_) {
        if (!cache_.holds(write.block, write.order.put.key)) continue;
        transfer_->write(std::move(write.order));  // from where it is: nobody computes any more
    }
    transfer_.reset();
}

double StoredPrefixes::seconds_to_compute(int32_t first, int32_t blocks) const {
    const Chunk chunk{blocks * kv::block_tokens, first * kv::block_tokens, 0};
    const double predicted = times_.seconds({&chunk, 1});
    return predicted > 0 ? predicted : chunk.rows * seconds_per_token_unknown;
}

bool StoredPrefixes::fetch(const SequencePtr& s, int32_t spare, bool others_run) {
    using Search = Sequence::Search;
    if (!transfer_) return false;
    if (s->search == Search::none) {
        if (s->found >= s->usable || s->started || unresponsive_)
            s->search = Search::done;
        else
            look_up(s);
    }
    if (s->search == Search::located) {
        const auto found = located_.find(s->ticket);
        if (begin_load(s, found->second, spare, others_run)) return true;
        located_.erase(found);
        s->search = Search::done;
    }
    return s->search != Search::done && !give_up_waiting(*s);
}

// A search that takes longer than any deadline: somebody hangs. What is being loaded stays his until he comes back.
bool StoredPrefixes::give_up_waiting(Sequence& s) {
    if (Clock::now() < s.search_until) return false;
    if (const auto load = loads_.find(s.ticket); load != loads_.end())
        s.not_loaded += static_cast<int32_t>(load->second.table.size() - load->second.ready);
    s.why_not_loaded = CacheMiss::late;
    s.search = Sequence::Search::done;
    ++counters_.cache_lookups_given_up_total;
    looking_.erase(s.ticket);
    located_.erase(s.ticket);
    unresponsive_ = true;
    return true;
}

void StoredPrefixes::look_up(const SequencePtr& s) {
    s->ticket = next_ticket_++;
    s->search = Sequence::Search::looking;
    s->searched_from = s->found;
    looking_.emplace(s->ticket, s);
    s->search_until = Clock::now() + lookup_time + grace;
    ++counters_.cache_lookups_total;
    const auto keys =
        std::span(s->keys).subspan(static_cast<size_t>(s->found), static_cast<size_t>(s->usable - s->found));
    transfer_->look_up({s->ticket, {keys.begin(), keys.end()}, Clock::now() + lookup_time});
}

// Since it was looked for, others may have computed or loaded some of it; or what came before it may have left the pool: then
// what follows is of no use.
void StoredPrefixes::skip(Located& located, int32_t found) {
    if (found < located.first) located.runs.clear();
    for (int32_t there = found - located.first; there > 0 && !located.runs.empty();) {
        BlockTransfer::Run& run = located.runs.front();
        const int32_t here = std::min(there, run.blocks);
        there -= here;
        run.blocks -= here;
        if (run.blocks == 0) located.runs.erase(located.runs.begin());
    }
    located.first = found;
}

// Cuts off runs that would take too long. Returns how many blocks are left.
int32_t StoredPrefixes::cut_to_worth(Sequence& s, Located& located) {
    double load = 0;
    int32_t blocks = 0, worth = 0;
    size_t keep = 0;
    for (size_t i = 0; i < located.runs.size(); ++i) {
        const BlockTransfer::Run& run = located.runs[i];
        load += run.blocks * run.seconds_per_block * doubt_[run.store];
        blocks += run.blocks;
        if (load <= seconds_to_compute(s.found, blocks) / 2) keep = i + 1, worth = blocks;
    }
    if (keep == located.runs.size()) return worth;
    for (size_t i = keep; i < located.runs.size(); ++i) doubt_[located.runs[i].store] *= doubted_less;
    located.runs.resize(keep);
    s.not_loaded = blocks - worth;
    s.why_not_loaded = CacheMiss::not_worth;
    if (worth == 0) ++counters_.cache_loads_not_worth_total;
    return worth;
}

// False if nothing is to be loaded. True if it was begun, or has to wait for its turn.
bool StoredPrefixes::begin_load(const SequencePtr& s, Located& located, int32_t spare, bool others_run) {
    skip(located, s->found);
    const int32_t wanted = cut_to_worth(*s, located);
    if (wanted == 0) return false;
    if (loads_.size() >= most_loads) {
        if (unresponsive_) return false;
        s->search_until = Clock::now() + grace;  // its turn comes
        return true;
    }
    std::vector<kv::BlockId> table = cache_.acquire(prefix(*s), s->found);
    const auto first = static_cast<int32_t>(table.size());
    const int32_t room = cache_.available() - spare;
    const bool fits = first == s->found && room >= wanted;
    if (!fits && (others_run || room <= 0 || first != s->found)) {
        for (kv::BlockId block : table) pool_.release(block);
        if (others_run && first == s->found) {  // room may come
            s->search_until = Clock::now() + grace;
            return true;
        }
        s->not_loaded += wanted;
        s->why_not_loaded = CacheMiss::no_room;
        ++counters_.cache_loads_no_room_total;
        return false;
    }
    BlockTransfer::Load order;
    order.ticket = s->ticket;
    order.deadline = Clock::now() + duration(seconds_to_compute(s->found, wanted) / 2);
    int32_t left = std::min(wanted, room);
    for (const BlockTransfer::Run& run : located.runs) {
        if (left == 0) break;
        order.runs.push_back(
            {run.store, std::min(run.blocks, left), run.seconds_per_block, doubt_[run.store] < 1});
        left -= order.runs.back().blocks;
        doubt_[run.store] = 1;
    }
    if (wanted > room) s->not_loaded += wanted - room, s->why_not_loaded = CacheMiss::no_room;
    for (int32_t i = 0; i < std::min(wanted, room); ++i) {
        const auto at = static_cast<size_t>(first) + static_cast<size_t>(i);
        table.push_back(cache_.allocate());
        assert(table.back() >= 0);
        assert(at < static_cast<size_t>(s->usable));
        order.keys.push_back(s->keys[at]);
        order.memory.emplace_back(pool_.data(table.back()), pool_.layout().block_bytes);
    }
    const auto tokens = std::span(s->tokens).subspan(static_cast<size_t>(first) * kv::block_tokens,
                                                     order.keys.size() * kv::block_tokens);
    order.tokens.assign(tokens.begin(), tokens.end());
    s->search = Sequence::Search::loading;
    s->search_until = order.deadline + grace;
    loads_.emplace(s->ticket, Loading{s, std::move(table), static_cast<size_t>(first), order.runs});
    located_.erase(s->ticket);
    transfer_->load(std::move(order));
    return true;
}

void StoredPrefixes::give_up(const Sequence& s) {
    if (!transfer_) return;
    looking_.erase(s.ticket);
    located_.erase(s.ticket);
    const auto load = loads_.find(s.ticket);
    if (load == loads_.end()) return;
    load->second.sequence->search = Sequence::Search::done;
    transfer_->cancel_load(s.ticket);
}

void StoredPrefixes::loaded(Loading& l, int32_t blocks) {
    for (int32_t i = 0; i < blocks; ++i, ++l.ready) {
        Sequence& s = *l.sequence;
        const auto index = static_cast<int32_t>(l.ready);
        const double seconds = seconds_to_compute(index, 1);
        const kv::BlockId own = l.table[l.ready], held = cache_.publish(prefix(s), index, l.table, seconds);
        if (held != own) pool_.release(own);
        l.table[l.ready] = held;
        const size_t store = l.runs[l.run].store;
        if (s.search == Sequence::Search::loading) s.loaded_tokens[store] += kv::block_tokens;
        if (store > 0 && held == own && cache_.holds(own))
            queue_write(s, index, own, seconds, (uint32_t{1} << store) - 1);  // into the nearer ones
        if (++l.in_run == l.runs[l.run].blocks) ++l.run, l.in_run = 0;
    }
}

void StoredPrefixes::ended(Loading& l, store::Get::Outcome outcome) {
    for (kv::BlockId block : l.table) pool_.release(block);  // those in the cache stay there
    Sequence& s = *l.sequence;
    if (std::exchange(s.search, Sequence::Search::done) != Sequence::Search::loading) return;
    if (outcome != store::Get::Outcome::ok) {
        s.not_loaded += static_cast<int32_t>(l.table.size() - l.ready);
        s.why_not_loaded = outcome == store::Get::Outcome::late ? CacheMiss::late : CacheMiss::failed;
    }
    switch (outcome) {
        case store::Get::Outcome::ok:
        case store::Get::Outcome::missing:  // it left the store meanwhile
            ++counters_.cache_loads_total;
            break;
        case store::Get::Outcome::late:
            ++counters_.cache_loads_late_total;
            break;
        case store::Get::Outcome::damaged:
        case store::Get::Outcome::failed:
            ++counters_.cache_loads_failed_total;
            break;
    }
}

void StoredPrefixes::receive() {
    if (!transfer_) return;
    for (BlockTransfer::Report& report : transfer_->reports()) {
        unresponsive_ = unresponsive_ && report.kind == BlockTransfer::Report::Kind::written;
        switch (report.kind) {
            case BlockTransfer::Report::Kind::located: {
                const auto looking = looking_.find(report.ticket);
                if (looking == looking_.end()) break;  // it ended
                Sequence& s = *looking->second;
                s.search = report.runs.empty() ? Sequence::Search::done : Sequence::Search::located;
                if (report.runs.empty())
                    ++counters_.cache_lookups_empty_total;
                else
                    located_[report.ticket] = {s.searched_from, std::move(report.runs)};
                looking_.erase(looking);
                break;
            }
            case BlockTransfer::Report::Kind::loaded:
                loaded(loads_.at(report.ticket), report.blocks);
                break;
            case BlockTransfer::Report::Kind::ended: {
                const auto load = loads_.find(report.ticket);
                ended(load->second, report.outcome);
                loads_.erase(load);
                break;
            }
            case BlockTransfer::Report::Kind::touched: {
                const auto touched = touched_.extract(report.ticket);
                for (const BlockTransfer::Run& has : report.runs) write_lacking(*touched.mapped(), has);
                break;
            }
            case BlockTransfer::Report::Kind::written:
                --backlog_[report.store].blocks;
                backlog_[report.store].moved = Clock::now();
                if (!report.last) break;
                spare_.push_back(std::move(report.bytes));
                ++(report.stored ? counters_.cache_writes_total : counters_.cache_writes_failed_total);
                break;
        }
    }
    write_more();
}

void StoredPrefixes::queue_write(const Sequence& s, int32_t index, kv::BlockId block, double seconds,
                                 uint32_t stores) {
    if (s.retention == kv::Retention::none) return;
    const auto i = static_cast<size_t>(index);
    Waiting write{block, {}};
    write.order.stores = stores;
    store::Put& put = write.order.put;
    put.key = s.keys[i];
    put.parent = i > 0 ? s.keys[i - 1] : s.root;
    put.index = index;
    std::ranges::copy(prefix(s).block(i), put.tokens.begin());
    put.seconds = static_cast<float>(seconds);
    put.retention = s.retention;
    put.tenant = s.tenant_hash;
    put.bytes = {pool_.data(block), pool_.layout().block_bytes};
    waiting_writes_.push_back(std::move(write));
}

void StoredPrefixes::offer(const Sequence& s, int32_t index, double seconds) {
    if (!transfer_) return;
    queue_write(s, index, s.blocks[static_cast<size_t>(index)],
                seconds > 0 ? seconds : seconds_to_compute(index, 1), BlockTransfer::all_stores);
    write_more();
}

// Of what the sequence began with, a store has the first `has.blocks` only.
void StoredPrefixes::write_lacking(const Sequence& s, const BlockTransfer::Run& has) {
    const Clock::time_point now = Clock::now();
    if (written_again_.size() >= most_written_again) written_again_.clear();
    for (int32_t i = has.blocks; i < s.cached_tokens / kv::block_tokens; ++i) {
        const kv::BlockId block = cache_.block_of(prefix(s), i);
        if (block < 0) return;
        Clock::time_point& last = written_again_[s.keys[static_cast<size_t>(i)]];
        if (last != Clock::time_point() && now - last < again_after) continue;
        last = now;
        queue_write(s, i, block, seconds_to_compute(i, 1), uint32_t{1} << has.store);
    }
}

// Those of `stores` that take another block now; nothing: one that works on is to be waited for. One that does not move any more is
// left out: what it lacks is written again when it is used.
std::optional<uint32_t> StoredPrefixes::ready_stores(uint32_t stores, int32_t most) const {
    uint32_t ready = 0;
    for (size_t i = 0; i < backlog_.size(); ++i) {
        if ((stores >> i & 1) == 0) continue;
        if (backlog_[i].blocks < most)
            ready |= uint32_t{1} << i;
        else if (Clock::now() - backlog_[i].moved < stalls_after)
            return std::nullopt;
    }
    return ready;
}

void StoredPrefixes::write_more() {
    const auto bytes = static_cast<int64_t>(pool_.layout().block_bytes);
    const int64_t most = std::clamp<int64_t>(most_written_bytes / bytes, 1, most_written_blocks);
    while (!waiting_writes_.empty()) {
        const std::optional<uint32_t> stores =
            ready_stores(waiting_writes_.front().order.stores, static_cast<int32_t>(most));
        if (!stores) break;
        Waiting write = std::move(waiting_writes_.front());
        waiting_writes_.pop_front();
        if (*stores == 0 || !cache_.holds(write.block, write.order.put.key)) {
            ++counters_.cache_writes_dropped_total;
            continue;
        }
        write.order.stores = *stores;
        for (size_t i = 0; i < backlog_.size(); ++i) {
            if ((*stores >> i & 1) == 0) continue;
            if (backlog_[i].blocks++ == 0) backlog_[i].moved = Clock::now();
        }
        // A copy, so that the pool never waits for a store.
        std::vector<uint8_t>& copy = write.order.bytes;
        if (!spare_.empty()) {
            copy = std::move(spare_.back());
            spare_.pop_back();
        }
        copy.assign(write.order.put.bytes.begin(), write.order.put.bytes.end());
        write.order.put.bytes = copy;
        transfer_->write(std::move(write.order));
    }
    // A block is there once, so more than the pool has would be blocks that left it.
    for (; static_cast<int32_t>(waiting_writes_.size()) > pool_.total(); waiting_writes_.pop_front())
        ++counters_.cache_writes_dropped_total;
}

void StoredPrefixes::started(const SequencePtr& sequence) {
    Sequence& s = *sequence;
    if (!transfer_ || s.found == 0) return;
    int32_t rest = s.cached_tokens;  // a load may have brought more than was there in the end
    for (size_t i = 0; i < transfer_->stores(); ++i) {
        s.loaded_tokens[i] = std::min(s.loaded_tokens[i], rest);
        rest -= s.loaded_tokens[i];
        counters_.cache_store_hits_total[i] += static_cast<uint64_t>(s.loaded_tokens[i]);
    }
    const auto keys = std::span(s.keys).first(static_cast<size_t>(s.found));
    const uint64_t ticket = next_ticket_++;
    if (transfer_->touch({ticket, {keys.begin(), keys.end()}})) touched_.emplace(ticket, sequence);
}

std::vector<TierStats> StoredPrefixes::tiers(const EngineStats& stats) const {
    std::vector<TierStats> result;
    for (size_t i = 0; transfer_ && i < transfer_->stores(); ++i)
        result.push_back(
            {transfer_->store(i).name(), stats.cache_store_hits_total[i], transfer_->store(i).stats()});
    return result;
}

}  // namespace deepinfer::engine
