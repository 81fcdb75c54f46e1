// How much compute each tenant has used, for the scheduler's fairness. Start-time fair queueing: a tenant that comes back
// from idleness starts where the least served of the active ones is, so that it can neither save up nor starve others.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/scheduler.h"

namespace deepinfer::engine {

class Tenants {
  public:
    explicit Tenants(std::map<std::string, double> weights) : weights_(std::move(weights)) {}

    int32_t enter(const std::string& name);  // one more request of the tenant; its index
    void retain(int32_t tenant) { ++active_[static_cast<size_t>(tenant)]; }
    void leave(int32_t tenant);  // one fewer
    std::span<const TenantView> views() const { return views_; }
    void set_used(std::span<const double> used);

  private:
    static constexpr size_t most_idle = 256;  // idle tenants that are remembered

    std::map<std::string, double> weights_;
    std::map<std::string, int32_t> index_;
    std::vector<std::string> names_;
    std::vector<int32_t> active_;  // requests
    std::vector<TenantView> views_;
};

}  // namespace deepinfer::engine
