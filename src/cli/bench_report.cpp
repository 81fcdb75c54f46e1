#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/quote.h"
#include "cli/cpu_info.h"
#include "cli/kv_type.h"

namespace deepinfer::cli {

namespace {

template <class... T>
std::string format(const char* pattern, T... values) {
    char text[256];
    std::snprintf(text, sizeof text, pattern, values...);
    return text;
}

struct Spread {
    double mean = 0, deviation = 0, median = 0;  // deviation: of the sample, n - 1
};
Spread spread(std::vector<double> values) {
    Spread s;
    if (values.empty()) return s;
    const auto n = static_cast<double>(values.size());
    for (const double v : values) s.mean += v / n;
    for (const double v : values) s.deviation += (v - s.mean) * (v - s.mean);
    s.deviation = values.size() > 1 ? std::sqrt(s.deviation / (n - 1)) : 0;
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    s.median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    return s;
}

std::vector<double> speeds(const BenchResult& result) {
    std::vector<double> values;
    for (const int64_t ns : result.samples.nanoseconds)
        values.push_back(1e9 * static_cast<double>(result.test.tokens()) / static_cast<double>(ns));
    return values;
}

// The share of the memory's bandwidth that generation used: bytes it must read over bytes that could be read meanwhile.
double bandwidth_share(const BenchResult& result) {
    std::vector<double> shares;
    for (size_t i = 0; i < result.samples.read_gb_per_second.size(); ++i)
        shares.push_back(
            result.samples.bytes_per_step * result.test.generation /
            (static_cast<double>(result.samples.nanoseconds[i]) * result.samples.read_gb_per_second[i]));
    return spread(shares).median;
}

// In a table every row has the same columns; what has no value is null.
boost::json::object fields(const BenchResult& result, bool table) {
    const BenchTest& test = result.test;
    const std::string kv_type = to_string(test.kv_type);
    std::vector<double> ns(result.samples.nanoseconds.begin(), result.samples.nanoseconds.end());
    const std::vector<double> ts = speeds(result);
    const Spread times = spread(ns), rates = spread(ts);
    boost::json::object o;
    o["build_version"] = DEEPINFER_VERSION;
    o["build_commit"] = DEEPINFER_COMMIT;
    o["cpu_info"] = processor_name();
    o["backends"] = "CPU";
    o["isa"] = result.isa;
    o["model_filename"] = to_valid_utf8(result.model_filename);
    o["model_type"] = to_valid_utf8(result.model_type);
    o["model_size"] = result.model_size;
    o["model_n_params"] = result.model_n_params;
    o["weight_bytes"] = result.weight_bytes;
    o["n_batch"] = test.batch_rows;
    o["n_ubatch"] = test.micro_batch_rows;
    o["n_threads"] = result.threads;
    o["type_k"] = kv_type;
    o["type_v"] = kv_type;
    o["compute"] = result.compute == kernels::Compute::f32 ? "f32" : "serve";
    o["n_prompt"] = test.prompt;
    o["n_gen"] = test.generation;
    o["n_depth"] = test.depth;
    o["n_sequences"] = test.sequences;
    o["n_step_rows"] = test.step_rows;
    o["test_time"] = result.time;
    o["avg_ns"] = std::llround(times.mean);
    o["stddev_ns"] = std::llround(times.deviation);
    o["median_ns"] = std::llround(times.median);
    o["avg_ts"] = rates.mean;
    o["stddev_ts"] = rates.deviation;
    o["median_ts"] = rates.median;
    o["samples_ns"] =
        boost::json::array(result.samples.nanoseconds.begin(), result.samples.nanoseconds.end());
    o["samples_ts"] = boost::json::array(ts.begin(), ts.end());
    if (!result.samples.read_gb_per_second.empty()) {
        const auto& reads = result.samples.read_gb_per_second;
        o["read_gb_per_second"] = spread(reads).median;
        o["samples_read_gb_per_second"] = boost::json::array(reads.begin(), reads.end());
        if (test.generation > 0 && test.prompt == 0) {
            o["bytes_per_step"] = std::llround(result.samples.bytes_per_step);
            o["bandwidth_share"] = bandwidth_share(result);
        } else if (table) {
            o["bytes_per_step"] = nullptr;
            o["bandwidth_share"] = nullptr;
        }
    }
    return o;
}

std::string csv_cell(const boost::json::value& value) {
    if (value.is_null()) return "";
    if (value.is_string()) return std::string(value.as_string());
    return value.is_double() ? format("%.6f", value.as_double()) : boost::json::serialize(value);
}
// Lists are left out.
std::string csv_row(const boost::json::object& object, bool names) {
    std::string line;
    for (const auto& field : object) {
        if (field.value().is_array()) continue;
        if (!line.empty()) line += ',';
        if (names) {
            line += std::string(field.key());
            continue;
        }
        line += '"';
        for (const char c : csv_cell(field.value())) line += c == '"' ? "\"\"" : std::string(1, c);
        line += '"';
    }
    return line + "\n";
}

// "pp512", "tg128 @ d2048", "pp64+tg8", "tg32 x 4 sequences", "tg32 of 4 rows"
std::string test_name(const BenchTest& test) {
    std::string name;
    if (test.prompt > 0) name = "pp" + std::to_string(test.prompt);
    if (test.generation > 0) name += (name.empty() ? "tg" : "+tg") + std::to_string(test.generation);
    if (test.step_rows > 1 && test.generation > 0) name += " of " + std::to_string(test.step_rows) + " rows";
    if (test.sequences > 1) name += " x " + std::to_string(test.sequences) + " sequences";
    if (test.depth > 0) name += " @ d" + std::to_string(test.depth);
    return name;
}

}  // namespace

BenchReport::BenchReport(const BenchOptions& options)
    : output_(options.output),
      rows_column_(options.micro_batch_rows != std::vector<int>{512} ||
                   options.batch_rows != std::vector<int>{2048}),
      type_column_(options.kv_types != std::vector<KvType>{KvType::f16}),
      bandwidth_(options.bandwidth) {}

std::string BenchReport::begin() const {
    if (output_ == BenchOutput::json) return "[";
    if (output_ != BenchOutput::markdown) return "";
    std::string head = format("| %-30s | %10s | %10s | %-7s | %7s |", "model", "size", "params", "backend",
                              "threads"),
                line = "| ------------------------------ | ---------: | ---------: | ------- | ------: |";
    const auto column = [&](const char* name, size_t width) {
        head += format(" %*s |", static_cast<int>(width), name);
        line += " " + std::string(width - 1, '-') + ": |";
    };
    if (rows_column_) column("n_ubatch", 8);
    if (type_column_) column("type_kv", 7);
    column("test", 22);
    column("t/s", 18);
    if (bandwidth_) column("read GB/s", 9), column("of it", 6);
    return head + "\n" + line + "\n";
}

std::string BenchReport::markdown_row(const BenchResult& result) const {
    const Spread rates = spread(speeds(result));
    std::string line =
        format("| %-30s | %6.2f MiB | %8.2f M | %-7s | %7d |", result.model_type.substr(0, 60).c_str(),
               static_cast<double>(result.model_size) / 0x1p20,
               static_cast<double>(result.model_n_params) / 1e6, "CPU", result.threads);
    if (rows_column_)
        line += format(" %8d |", std::min(result.test.batch_rows, result.test.micro_batch_rows));
    if (type_column_) line += format(" %7s |", to_string(result.test.kv_type));
    line += format(" %22s | %9.2f ± %6.2f |", test_name(result.test).c_str(), rates.mean, rates.deviation);
    if (bandwidth_) {
        line += format(" %9.1f |", spread(result.samples.read_gb_per_second).median);
        const bool generation = result.test.generation > 0 && result.test.prompt == 0;
        line += generation ? format(" %4.0f %% |", 100 * bandwidth_share(result)) : format(" %6s |", "");
    }
    return line + "\n";
}

std::string BenchReport::row(const BenchResult& result) {
    const bool first = first_;
    first_ = false;
    switch (output_) {
        case BenchOutput::markdown:
            return markdown_row(result);
        case BenchOutput::json:
            return (first ? "\n" : ",\n") + boost::json::serialize(fields(result, false));
        case BenchOutput::jsonl:
            return boost::json::serialize(fields(result, false)) + "\n";
        case BenchOutput::csv:
            return (first ? csv_row(fields(result, true), true) : "") + csv_row(fields(result, true), false);
    }
    return "";
}

std::string BenchReport::end() const {
    if (output_ == BenchOutput::json) return "\n]\n";
    return output_ == BenchOutput::markdown ? "\nbuild: deepinfer " DEEPINFER_VERSION " (" DEEPINFER_COMMIT
                                              ")\n"
                                            : "";
}

}  // namespace deepinfer::cli
