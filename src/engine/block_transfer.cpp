#include "engine/block_transfer.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "engine/seconds.h"

namespace deepinfer::engine {

namespace {

// Of a call to a store; between calls, others get their turn.
constexpr size_t most_at_once = 16, most_bytes_at_once = size_t{16} << 20;
constexpr size_t most_touches = 1024;  // that wait; more are not told: the blocks age a little earlier
constexpr auto touch_time = std::chrono::milliseconds(100);
constexpr int32_t averaged_calls = 8;

size_t blocks_at_once(size_t block_bytes) {
    return std::clamp<size_t>(most_bytes_at_once / std::max<size_t>(block_bytes, 1), 1, most_at_once);
}

BlockTransfer::Report ended(BlockTransfer::Ticket ticket, store::Get::Outcome outcome) {
    BlockTransfer::Report report;
    report.kind = BlockTransfer::Report::Kind::ended;
    report.ticket = ticket;
    report.outcome = outcome;
    return report;
}

}  // namespace

void BlockTransfer::Speed::observe(size_t blocks, double took) {
    observed = std::min(observed + 1, averaged_calls);
    seconds_per_block +=
        (took / static_cast<double>(std::max<size_t>(blocks, 1)) - seconds_per_block) / observed;
}

BlockTransfer::BlockTransfer(Stores stores, std::function<void()> wake)
    : stores_(std::move(stores)), wake_(std::move(wake)), speeds_(stores_.size()) {
    assert(stores_.size() <= most_stores);
    try {
        reader_ = std::thread([this] { read_loop(); });
        for (size_t i = 0; i < stores_.size(); ++i) writers_.push_back(std::make_unique<Writer>());
        for (size_t i = 0; i < stores_.size(); ++i)
            writers_[i]->thread = std::thread([this, i] { write_loop(i); });
    } catch (...) {
        stop();
        throw;
    }
}

BlockTransfer::~BlockTransfer() { stop(); }

void BlockTransfer::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        stop_by_ = Clock::now() + drain_time;
    }
    read_wake_.notify_all();
    for (const auto& writer : writers_) writer->wake.notify_all();
    if (reader_.joinable()) reader_.join();
    for (const auto& writer : writers_)
        if (writer->thread.joinable()) writer->thread.join();
}

void BlockTransfer::look_up(Lookup order) {
    const std::lock_guard lock(mutex_);
    lookups_.push_back(std::move(order));
    read_wake_.notify_one();
}

void BlockTransfer::load(Load order) {
    const std::lock_guard lock(mutex_);
    loads_.push_back(std::move(order));
    read_wake_.notify_one();
}

void BlockTransfer::cancel_load(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(ticket);
}

bool BlockTransfer::touch(Touch order) {
    const std::lock_guard lock(mutex_);
    if (touches_.size() >= most_touches) return false;
    touches_.push_back(std::move(order));
    read_wake_.notify_one();
    return true;
}

void BlockTransfer::write(Write order) {
    const std::lock_guard lock(mutex_);
    const auto writing = std::make_shared<Writing>(Writing{std::move(order)});
    for (size_t i = 0; i < writers_.size(); ++i) {
        if ((writing->order.stores >> i & 1) == 0) continue;
        ++writing->left;
        writers_[i]->queue.push_back(writing);
        writers_[i]->wake.notify_one();
    }
    assert(writing->left > 0);
}

std::vector<BlockTransfer::Report> BlockTransfer::reports() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reports_, {});
}

void BlockTransfer::report(Report report) {
    {
        const std::lock_guard lock(mutex_);
        reports_.push_back(std::move(report));
    }
    wake_();
}

// Look-ups first, since they are quick; then some blocks of each load in turn; touches when there is nothing else.
void BlockTransfer::read_loop() {
    std::deque<Loading> loading;
    for (;;) {
        std::deque<Lookup> lookups;
        std::optional<Touch> touched;
        {
            std::unique_lock lock(mutex_);
            read_wake_.wait(lock, [&] {
                return stopping_ || !lookups_.empty() || !loads_.empty() || !touches_.empty() ||
                       !loading.empty();
            });
            if (stopping_) break;
            lookups = std::exchange(lookups_, {});
            for (Load& order : std::exchange(loads_, {})) loading.push_back({std::move(order)});
            for (Loading& l : loading)
                l.cancelled = l.cancelled || std::ranges::count(cancelled_, l.order.ticket) > 0;
            cancelled_.clear();
            if (lookups.empty() && loading.empty() && !touches_.empty()) {
                touched = std::move(touches_.front());
                touches_.pop_front();
            }
        }
        for (const Lookup& order : lookups) answer(order);
        if (!loading.empty()) {
            Loading first = std::move(loading.front());
            loading.pop_front();
            if (!load_some(first)) loading.push_back(std::move(first));
        }
        if (touched) touch_all(*touched);
    }
    for (const Loading& l : loading) report(ended(l.order.ticket, store::Get::Outcome::late));
}

void BlockTransfer::touch_all(const Touch& order) {
    Report result;
    result.kind = Report::Kind::touched;
    result.ticket = order.ticket;
    for (size_t i = 0; i < stores_.size(); ++i) {
        const Clock::time_point deadline = Clock::now() + touch_time;
        stores_[i]->touch(order.keys, deadline);
        const size_t there = stores_[i]->find(order.keys, deadline);
        if (there < order.keys.size()) result.runs.push_back({i, static_cast<int32_t>(there)});
    }
    report(std::move(result));
}

// Each block from the nearest store that has it.
void BlockTransfer::answer(const Lookup& order) {
    Report found;
    found.ticket = order.ticket;
    std::span<const kv::BlockKey> rest(order.keys);
    while (!rest.empty()) {
        const size_t before = rest.size();
        for (size_t i = 0; i < stores_.size() && !rest.empty(); ++i) {
            const size_t here = std::min(stores_[i]->find(rest, order.deadline), rest.size());
            if (here == 0) continue;
            found.runs.push_back({i, static_cast<int32_t>(here), speeds_[i].seconds_per_block});
            rest = rest.subspan(here);
            break;  // what follows may be in a nearer one again
        }
        if (rest.size() == before) break;
    }
    report(std::move(found));
}

bool BlockTransfer::load_some(Loading& l) {
    const auto end = [&](store::Get::Outcome outcome) {
        report(ended(l.order.ticket, outcome));
        return true;
    };
    if (l.done == l.order.keys.size()) return end(store::Get::Outcome::ok);
    if (l.cancelled || Clock::now() >= l.order.deadline) return end(store::Get::Outcome::late);
    const Run& run = l.order.runs[l.run];
    const size_t count =
        std::min(blocks_at_once(l.order.memory[l.done].size()), static_cast<size_t>(run.blocks - l.in_run));
    std::vector<store::Get> items;
    for (size_t i = l.done; i < l.done + count; ++i)
        items.push_back({l.order.keys[i],
                         std::span(l.order.tokens).subspan(i * kv::block_tokens, kv::block_tokens),
                         l.order.memory[i]});
    if (run.measure_anew && l.in_run == 0) speeds_[run.store].observed = 0;
    const Clock::time_point begin = Clock::now();
    stores_[run.store]->get(items, std::min(l.order.deadline, begin + read_time));
    const auto bad = std::ranges::find_if(
        items, [](const store::Get& item) { return item.outcome != store::Get::Outcome::ok; });
    const auto good = static_cast<size_t>(bad - items.begin());
    speeds_[run.store].observe(good, seconds(Clock::now() - begin));
    if (good > 0) {
        Report progress;
        progress.kind = Report::Kind::loaded;
        progress.ticket = l.order.ticket;
        progress.blocks = static_cast<int32_t>(good);
        report(std::move(progress));
    }
    l.done += good;
    l.in_run += static_cast<int32_t>(good);
    if (bad != items.end()) return end(bad->outcome);
    if (l.in_run == run.blocks) ++l.run, l.in_run = 0;
    return false;
}

void BlockTransfer::write_loop(size_t store) {
    Writer& writer = *writers_[store];
    for (;;) {
        std::vector<std::shared_ptr<Writing>> batch;
        std::vector<store::Put> items;
        Clock::time_point deadline;
        {
            std::unique_lock lock(mutex_);
            writer.wake.wait(lock, [&] { return stopping_ || !writer.queue.empty(); });
            deadline = Clock::now() + write_time;
            if (stopping_) deadline = std::min(deadline, stop_by_);
            if (writer.queue.empty() || (stopping_ && Clock::now() >= stop_by_)) break;
            const size_t most = blocks_at_once(writer.queue.front()->order.put.bytes.size());
            while (!writer.queue.empty() && batch.size() < most) {
                items.push_back(writer.queue.front()->order.put);
                batch.push_back(std::move(writer.queue.front()));
                writer.queue.pop_front();
            }
        }
        stores_[store]->put(items, deadline);
        {
            const std::lock_guard lock(mutex_);
            for (size_t i = 0; i < batch.size(); ++i) {
                Writing& w = *batch[i];
                Report done;
                done.kind = Report::Kind::written;
                done.store = store;
                done.stored = items[i].outcome <= store::Put::Outcome::present;
                w.stored = w.stored || done.stored;
                done.last = --w.left == 0;
                if (done.last) done.stored = w.stored, done.bytes = std::move(w.order.bytes);
                reports_.push_back(std::move(done));
            }
        }
        wake_();
    }
}

}  // namespace deepinfer::engine
