#include "engine/mailbox.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace deepinfer::engine {

namespace {

std::string one_digit(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

}  // namespace

bool Mailbox::Orders::cancels(RequestId id) const {
    return id < cancelled_below ||
           std::ranges::any_of(cancelled, [&](const Cancel& c) { return c.id == id && c.choice < 0; });
}

Result<RequestId> Mailbox::submit(Request request, Listener listener) {
    RequestId id = 0;
    {
        std::lock_guard lock(mutex_);
        if (stopping_) return Error{ErrorCode::cancelled, "the engine is shutting down"};
        const int32_t there = stats_.running + stats_.waiting;
        // Places to run count as well: a burst may fill them before the first step takes it from the queue.
        if (there + request.choices > places_) {
            ++stats_.rejected_total;
            return Error{ErrorCode::resource_exhausted,
                         "the queue is full: " + std::to_string(stats_.running) + " requests run and " +
                             std::to_string(stats_.waiting) + " wait; try again later",
                         std::max(1.0, std::ceil(seconds_per_finish_ * request.choices))};
        }
        if (max_wait_ > 0 && stats_.estimated_wait > max_wait_) {
            ++stats_.rejected_total;
            return Error{ErrorCode::resource_exhausted,
                         "the server is busy: a request would wait about " +
                             one_digit(stats_.estimated_wait) + " s for its turn, and at most " +
                             one_digit(max_wait_) + " s are allowed; try again later",
                         std::max(1.0, std::ceil(stats_.estimated_wait - max_wait_))};
        }
        id = next_id_++;
        stats_.waiting += request.choices;
        arrived_choices_ += request.choices;
        orders_.arrived.push_back({id, std::move(request), std::move(listener), Clock::now()});
    }
    wake_.notify_one();
    return id;
}

void Mailbox::cancel(RequestId id, int32_t choice) {
    {
        std::lock_guard lock(mutex_);
        orders_.cancelled.push_back({id, choice});
    }
    wake_.notify_one();
}

void Mailbox::cancel_all() {
    {
        std::lock_guard lock(mutex_);
        orders_.cancelled_below = next_id_;
    }
    wake_.notify_one();
}

void Mailbox::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_one();
}

EngineStats Mailbox::stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
}

bool Mailbox::stopping() const {
    std::lock_guard lock(mutex_);
    return stopping_;
}

void Mailbox::wake() {
    {
        std::lock_guard lock(mutex_);
        woken_ = true;
    }
    wake_.notify_one();
}

Mailbox::Orders Mailbox::take(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    const auto something = [this] {
        return stopping_ || woken_ || !orders_.arrived.empty() || !orders_.cancelled.empty() ||
               orders_.cancelled_below > 0;
    };
    if (until == Clock::time_point::max())
        wake_.wait(lock, something);
    else if (until != Clock::time_point::min())
        wake_.wait_until(lock, until, something);
    woken_ = false;
    arrived_choices_ = 0;
    return std::exchange(orders_, {});
}

void Mailbox::publish(const EngineStats& stats, double seconds_per_finish) {
    std::lock_guard lock(mutex_);
    const uint64_t rejected = stats_.rejected_total;
    stats_ = stats;
    stats_.waiting += arrived_choices_;
    stats_.rejected_total = rejected;
    seconds_per_finish_ = seconds_per_finish;
}

}  // namespace deepinfer::engine
