#include "engine/tenants.h"

#include <algorithm>
#include <limits>

namespace deepinfer::engine {

int32_t Tenants::enter(const std::string& name) {
    auto found = index_.find(name);
    if (found == index_.end()) {
        const auto idle = std::find(active_.begin(), active_.end(), 0);
        size_t slot = views_.size();
        if (idle != active_.end() && views_.size() >= most_idle) {
            slot = static_cast<size_t>(idle - active_.begin());
            index_.erase(names_[slot]);
        } else {
            names_.emplace_back();
            active_.push_back(0);
            views_.emplace_back();
        }
        const auto weight = weights_.find(name);
        names_[slot] = name;
        views_[slot] = {0, weight == weights_.end() ? 1 : weight->second};
        found = index_.emplace(name, static_cast<int32_t>(slot)).first;
    }
    const auto i = static_cast<size_t>(found->second);
    if (active_[i]++ == 0) {
        double least = std::numeric_limits<double>::infinity();
        for (size_t k = 0; k < views_.size(); ++k)
            if (k != i && active_[k] > 0) least = std::min(least, views_[k].used);
        if (least < std::numeric_limits<double>::infinity()) views_[i].used = std::max(views_[i].used, least);
    }
    return found->second;
}

void Tenants::leave(int32_t tenant) { --active_[static_cast<size_t>(tenant)]; }

void Tenants::set_used(std::span<const double> used) {
    for (size_t i = 0; i < used.size(); ++i) views_[i].used = used[i];
}

}  // namespace deepinfer::engine
