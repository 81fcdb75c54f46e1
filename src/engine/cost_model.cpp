#include "engine/cost_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "engine/nnls.h"
#include "engine/step_timer.h"

namespace deepinfer::engine {

namespace {

double dot(const StepFeatures& a, const StepFeatures& b) {
    double sum = 0;
    for (size_t i = 0; i < step_features; ++i) sum += a[i] * b[i];
    return sum;
}

constexpr double never_an_outlier = 0.22;  // a step within a quarter of its prediction, as off() measures it

double off(const StepFeatures& scaled, const StepFeatures& c) {  // too long is as wrong as too short
    return std::abs(std::log(std::max(dot(scaled, c), 1e-12)));
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

StepFeatures fit_non_negative(std::span<const StepFeatures> a) {
    // Normal equations of columns scaled to unit length; without that the features differ by twelve orders of magnitude.
    StepFeatures scale{}, target{};
    std::array<StepFeatures, step_features> gram{};
    for (const StepFeatures& row : a)
        for (size_t j = 0; j < step_features; ++j) {
            target[j] += row[j];
            for (size_t k = 0; k <= j; ++k) gram[j][k] += row[j] * row[k];
        }
    for (size_t j = 0; j < step_features; ++j) scale[j] = gram[j][j] > 0 ? 1 / std::sqrt(gram[j][j]) : 0;
    constexpr double ridge = 1e-9;  // among equal minima, the one near 0
    for (size_t j = 0; j < step_features; ++j) {
        target[j] *= scale[j];
        for (size_t k = 0; k < j; ++k) gram[k][j] = gram[j][k] = gram[j][k] * scale[j] * scale[k];
        gram[j][j] = scale[j] > 0 ? 1 + ridge : 0;
    }
    StepFeatures c = nnls<step_features>(gram, target);
    for (size_t j = 0; j < step_features; ++j) c[j] *= scale[j];
    return c;
}

StepFeatures CostModel::features(std::span<const Chunk> step) const {
    const models::StepCost cost = model_.cost(step, kv_type_);
    return {1.0,
            static_cast<double>(cost.weight_bytes),
            static_cast<double>(cost.product_ops),
            static_cast<double>(cost.product_ops_beyond[0]),
            static_cast<double>(cost.product_ops_beyond[1]),
            static_cast<double>(cost.product_ops_beyond[2]),
            static_cast<double>(cost.attention_ops),
            static_cast<double>(cost.kv_bytes)};
}

StepFeatures CostModel::scaled(std::span<const Chunk> step, double seconds) const {
    StepFeatures result = features(step);
    for (double& f : result) f /= seconds;
    return result;
}

double CostModel::seconds(std::span<const Chunk> step) const {
    return step.empty() ? 0 : dot(features(step), coefficients_);
}

void CostModel::start_from(std::span<const StepMeasurement> profile) {
    profile_.clear();
    for (const StepMeasurement& m : profile) profile_.push_back(scaled(m.step, m.seconds));
    profiled_ = fit_non_negative(profile_);
    fit();
}

void CostModel::observe(std::span<const Chunk> step, double seconds) {
    if (step.empty() || !(seconds > 0) || !std::isfinite(seconds)) return;
    const StepFeatures now = scaled(step, seconds);
    observations_.push_back({now, std::abs(dot(now, coefficients_) - 1)});
    if (observations_.size() > window) observations_.pop_front();
    if (++since_fit_ >= refit_every || (profile_.empty() && observations_.size() < refit_every)) fit();
}

// How many times longer the remembered steps took than the profile says.
double CostModel::slowdown() const {
    if (observations_.size() < refit_every) return 1;
    std::vector<double> ratios;
    for (const Observation& o : observations_) ratios.push_back(1 / std::max(dot(o.scaled, profiled_), 1e-3));
    return median(std::move(ratios));
}

void CostModel::fit() {
    since_fit_ = 0;
    std::vector<StepFeatures> rows;
    for (const Observation& o : observations_) rows.push_back(o.scaled);
    // At the end: the profile is all that is known about steps of which none are remembered.
    const double slower = profile_.empty() ? 1 : slowdown();
    for (StepFeatures f : profile_) {
        for (double& v : f) v /= slower;
        rows.push_back(f);
    }
    if (rows.empty()) return;
    coefficients_ = fit_non_negative(rows);
    if (observations_.size() < 20) return;
    // Twice: what the first fit takes for outliers, it was itself drawn towards.
    const size_t steps = observations_.size();
    for (int pass = 0; pass < 2; ++pass) {
        std::vector<double> errors;
        for (size_t i = 0; i < steps; ++i) errors.push_back(off(rows[i], coefficients_));
        std::vector<double> sorted = errors;
        std::sort(sorted.begin(), sorted.end());
        const double limit = std::max({sorted[steps * 9 / 10 - 1], 3 * sorted[steps / 2], never_an_outlier});
        std::vector<StepFeatures> trusted(rows.begin() + static_cast<std::ptrdiff_t>(steps), rows.end());
        for (size_t i = 0; i < steps; ++i)
            if (errors[i] <= limit) trusted.push_back(rows[i]);
        coefficients_ = fit_non_negative(trusted);
    }
    // Squares of relative errors draw predictions towards the shortest times; half of the steps should be shorter.
    std::vector<double> ratios;
    for (size_t i = 0; i < steps; ++i) ratios.push_back(1 / std::max(dot(rows[i], coefficients_), 1e-3));
    const double typical = median(std::move(ratios));
    for (double& c : coefficients_) c *= typical;
}

double CostModel::error_quantile(double q) const {
    if (observations_.empty()) return 0;
    std::vector<double> errors;
    for (const Observation& o : observations_) errors.push_back(o.error);
    const auto at = errors.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(errors.size() - 1));
    std::nth_element(errors.begin(), at, errors.end());
    return *at;
}

namespace {

// Keys and values to read: many, but not so many that a large model has no room for them.
constexpr int32_t most_profile_tokens = 4 * 2112;
constexpr size_t most_profile_kv = size_t{256} << 20;  // bytes

// The shapes that tell most come first: a slow model has no time for all of them.
std::vector<std::vector<Chunk>> profile_shapes(int32_t context, int32_t tokens) {
    const int32_t deep = std::min(3072, tokens - kv::block_tokens),  // one sequence
        deep_streams = std::max(1, tokens / 4 - kv::block_tokens);   // four
    std::vector<std::vector<Chunk>> shapes;
    const auto add = [&](int sequences, int32_t rows, int32_t position, int32_t logit_rows = 1) {
        std::vector<Chunk> shape(static_cast<size_t>(sequences), Chunk{rows, position, logit_rows});
        if (position + rows <= context && StepTimer::blocks(shape) * kv::block_tokens <= tokens)
            shapes.push_back(std::move(shape));
    };
    add(1, 1, 0), add(1, 16, 0), add(1, 64, 0), add(4, 1, deep_streams), add(1, 16, deep), add(8, 1, 100);
    add(1, 1, 0, 0), add(1, 4, 0), add(1, 144, 0), add(1, 2, 0), add(1, 8, 0), add(1, 16, 0, 0),
        add(1, 32, 0);
    add(1, 32, 1024), add(16, 1, 100), add(4, 1, 100), add(1, 1, 1024), add(1, 6, 0), add(1, 12, 0);
    return shapes;
}

}  // namespace

Result<StepProfile> profile_steps(models::Model& model, KvType kv_type, double budget_seconds) {
    const auto layout = model.kv_layout(kv_type);
    if (!layout) return layout.error();
    const auto room = static_cast<int32_t>(
        std::min<size_t>(most_profile_tokens / kv::block_tokens, most_profile_kv / layout->block_bytes) *
        kv::block_tokens);
    const int32_t tokens = std::max(16 * kv::block_tokens, room);
    auto timer = StepTimer::create(model, kv_type, tokens);
    if (!timer) return std::move(timer).error();
    const std::vector<std::vector<Chunk>> shapes = profile_shapes(model.info().context_length, tokens);
    std::vector<std::vector<double>> taken(shapes.size());
    const auto begin = std::chrono::steady_clock::now();
    const auto in_time = [&](double share) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
               share * budget_seconds;
    };
    // Each shape's first time makes buffers grow; it does not count, unless the model is so slow that there is no second. Half of
    // the time at most is spent on them, so that those that tell most are measured when there is not time for all.
    constexpr int most_rounds = 6;
    constexpr double first_share = 0.5;
    for (int round = 0; round < most_rounds; ++round)
        for (size_t i = 0; i < shapes.size() && (in_time(1) || taken.front().empty()); ++i) {
            const double seconds = timer->run(shapes[i]);
            const bool slow = round == 0 && !in_time(first_share);
            if (round > 0 || slow) taken[i].push_back(seconds);
            if (slow) break;
        }
    StepProfile profile;
    std::vector<double> spreads;
    for (size_t i = 0; i < shapes.size(); ++i) {
        std::vector<double>& times = taken[i];
        std::sort(times.begin(), times.end());
        if (times.size() > 1) spreads.push_back(times.back() / times.front());
        if (times.size() > 2)
            times = std::vector<double>(times.begin() + 1, times.end() - 1);
        else if (times.size() == 2)
            times.pop_back();  // others only make it longer
        double sum = 0;
        for (double t : times) sum += t;
        if (!times.empty()) profile.steps.push_back({shapes[i], sum / static_cast<double>(times.size())});
    }
    constexpr double most_spread = 1.5;
    profile.steady = spreads.size() >= 4 && median(std::move(spreads)) < most_spread;
    return profile;
}

namespace {

// What the model is, as far as times depend on it: counts of two steps tell sizes, quantisation and kinds of attention.
std::string profile_key(const models::Model& model, KvType kv_type, const std::string& machine) {
    std::string key = model.info().architecture + "; " + to_string(kv_type);
    for (const Chunk& chunk : {Chunk{1, 0, 0}, Chunk{40, 3000, 1}}) {
        const models::StepCost c = model.cost({&chunk, 1}, kv_type);
        for (int64_t v : {c.product_ops, c.weight_bytes, c.attention_ops, c.kv_bytes})
            key += " " + std::to_string(v);
    }
    key += "; context " + std::to_string(model.info().context_length) + ", layouts " +
           std::to_string(kernels::pack_version) + "; " + machine;
    return key.substr(0, most_profile_key);
}

std::string file_name(const std::string& key) {  // FNV-1a; the file itself holds the whole key
    uint64_t hash = 0xcbf29ce484222325u;
    for (char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    char name[32];
    std::snprintf(name, sizeof name, "steps-%016llx.json", static_cast<unsigned long long>(hash));
    return name;
}

}  // namespace

Result<std::unique_ptr<CostModel>> profiled_cost_model(models::Model& model, KvType kv_type,
                                                       const ProfileOptions& options) {
    auto costs = std::make_unique<CostModel>(model, kv_type);
    const std::string key = profile_key(model, kv_type, options.machine);
    const std::filesystem::path path =
        options.folder.empty() ? std::filesystem::path() : options.folder / file_name(key);
    if (!path.empty()) {
        const auto kept = read_profile(path, key);
        if (kept) return costs->start_from(*kept), std::move(costs);
        if (kept.error().code != ErrorCode::not_found && options.notice)
            options.notice(kept.error().message + "; measuring again");
    }
    auto profile = profile_steps(model, kv_type, options.seconds);
    if (!profile) return std::move(profile).error();
    // From what a later start will read: JSON may cost a number its last bit.
    const auto as_read = parse_profile(format_profile(key, profile->steps), key);
    costs->start_from(as_read ? *as_read : profile->steps);
    if (!path.empty() && profile->steady)
        if (const Status written = write_profile(path, key, profile->steps); !written && options.notice)
            options.notice(written.error().message);
    return costs;
}

}  // namespace deepinfer::engine
