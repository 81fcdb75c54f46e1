// deepinfer inspect: what a model file says about itself. Only headers are read, so it is instant for any
// size; but of files of packed weights (--weight-file), all is compared with the checksum.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/quote.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "models/weight_file.h"

namespace deepinfer::cli {
namespace {

namespace json = boost::json;
using checkpoint::Checkpoint;
using checkpoint::FileFormat;
using checkpoint::MetadataArray;
using checkpoint::MetadataValue;
using checkpoint::Tensor;

constexpr size_t kShownElements = 8;  // of an array; a vocabulary has hundreds of thousands

const char* format_name(FileFormat format) { return format == FileFormat::gguf ? "gguf" : "safetensors"; }

struct Total {
    uint64_t tensors = 0, values = 0, bytes = 0;

    void add(const Tensor& tensor) {
        ++tensors;
        values += static_cast<uint64_t>(tensor.values());
        bytes += tensor.data.size();
    }
};

std::map<std::string, Total> totals_by_type(const Checkpoint& checkpoint) {
    std::map<std::string, Total> totals;
    for (const Tensor& tensor : checkpoint.tensors()) totals[to_string(tensor.type)].add(tensor);
    return totals;
}

Total grand_total(const Checkpoint& checkpoint) {
    Total total;
    for (const Tensor& tensor : checkpoint.tensors()) total.add(tensor);
    return total;
}

// --- JSON ---

json::value to_json(bool value) { return value; }
json::value to_json(int64_t value) { return value; }
json::value to_json(uint64_t value) { return value; }
json::value to_json(double value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";  // JSON has no numbers for these
}
json::value to_json(std::string_view value) { return json::value(json::string(to_valid_utf8(value))); }

const char* element_name(const MetadataArray& array) {
    static constexpr const char* names[] = {"boolean", "integer", "number", "string"};
    return names[array.values.index()];
}

// {"type": "string", "count": 49152, "first": [...]}
json::value to_json(const std::shared_ptr<const MetadataArray>& array) {
    json::array first;
    std::visit(
        [&](const auto& values) {
            for (size_t i = 0; i < std::min(values.size(), kShownElements); ++i) {
                using Element = typename std::decay_t<decltype(values)>::value_type;
                first.push_back(to_json(static_cast<Element>(values[i])));
            }
        },
        array->values);
    return json::object{
        {"type", element_name(*array)}, {"count", array->size()}, {"first", std::move(first)}};
}

json::value to_json(const Total& total) {
    return json::object{{"tensors", total.tensors}, {"values", total.values}, {"bytes", total.bytes}};
}

Result<json::object> report(const Checkpoint& checkpoint) {
    json::object metadata, totals;
    for (const auto& [key, value] : checkpoint.metadata().values)
        metadata[to_valid_utf8(key)] = std::visit([](const auto& v) { return to_json(v); }, value);
    json::array tensors;
    for (const Tensor& tensor : checkpoint.tensors()) {
        tensors.push_back(json::object{{"name", to_json(std::string_view(tensor.name))},
                                       {"type", to_string(tensor.type)},
                                       {"shape", json::array(tensor.shape.begin(), tensor.shape.end())},
                                       {"bytes", tensor.data.size()}});
    }
    for (const auto& [type, total] : totals_by_type(checkpoint)) totals[type] = to_json(total);
    json::value config = nullptr;
    if (!checkpoint.config_json().empty()) {
        Result<json::value> parsed = parse_json(checkpoint.config_json(), "config.json");
        if (!parsed) return parsed.error();
        config = std::move(*parsed);
    }
    return json::object{{"path", to_json(std::string_view(checkpoint.path().string()))},
                        {"format", format_name(checkpoint.format())},
                        {"file_bytes", checkpoint.file_bytes()},
                        {"metadata", std::move(metadata)},
                        {"config", std::move(config)},
                        {"tensors", std::move(tensors)},
                        {"totals_by_type", std::move(totals)},
                        {"total", to_json(grand_total(checkpoint))}};
}

// --- Text ---

[[gnu::format(printf, 2, 3)]] void append(std::string& out, const char* format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    out.append(line, static_cast<size_t>(std::clamp(length, 0, static_cast<int>(sizeof line) - 1)));
}

std::string to_text(bool value) { return value ? "true" : "false"; }
std::string to_text(int64_t value) { return std::to_string(value); }
std::string to_text(uint64_t value) { return std::to_string(value); }
std::string to_text(double value) {
    std::string out;
    append(out, "%.7g", value);  // as many digits as the file's f32 has
    return out;
}
std::string to_text(std::string_view value) { return quote(value); }

std::string to_text(const std::shared_ptr<const MetadataArray>& array) {
    std::string out = "[";
    std::visit(
        [&](const auto& values) {
            for (size_t i = 0; i < std::min(values.size(), kShownElements); ++i) {
                using Element = typename std::decay_t<decltype(values)>::value_type;
                out += (i ? ", " : "") + to_text(static_cast<Element>(values[i]));
            }
        },
        array->values);
    if (array->size() > kShownElements) out += ", ...";
    return out + "] (" + std::to_string(array->size()) + " x " + element_name(*array) + ")";
}

// A name as it is where it is plain, in quotes where it could disturb the terminal.
std::string name_text(std::string_view name) {
    const std::string safe = quote(name, SIZE_MAX);
    return safe.size() == name.size() + 2 ? std::string(name) : safe;
}

void append_total(std::string& out, const char* name, const Total& total) {
    append(
        out, "  %-8s %6" PRIu64 " tensors %15" PRIu64 " values %15" PRIu64 " bytes  %5.2f bits a value\n",
        name, total.tensors, total.values, total.bytes,
        total.values == 0 ? 0.0 : 8.0 * static_cast<double>(total.bytes) / static_cast<double>(total.values));
}

std::string text_report(const Checkpoint& checkpoint) {
    std::string out = name_text(checkpoint.path().string());
    append(out, "\n  format %s, %" PRIu64 " bytes (%.1f MiB)\n", format_name(checkpoint.format()),
           checkpoint.file_bytes(), static_cast<double>(checkpoint.file_bytes()) / (1 << 20));
    if (checkpoint.format() == FileFormat::gguf) {
        append(out, "\nMetadata (%zu keys)\n", checkpoint.metadata().values.size());
        for (const auto& [key, value] : checkpoint.metadata().values)
            out += "  " + name_text(key) + " = " +
                   std::visit([](const auto& v) { return to_text(v); }, value) + "\n";
    } else if (!checkpoint.config_json().empty()) {
        append(out, "\nconfig.json: %zu bytes (--json shows it)\n", checkpoint.config_json().size());
    }
    append(out, "\nTensors (%zu)\n", checkpoint.tensors().size());
    size_t width = 0;
    for (const Tensor& tensor : checkpoint.tensors()) width = std::max(width, name_text(tensor.name).size());
    for (const Tensor& tensor : checkpoint.tensors()) {
        std::string name = name_text(tensor.name);
        name.resize(width, ' ');
        out += "  " + name;
        append(out, "  %-6s %-22s %13zu bytes\n", to_string(tensor.type), tensor.shape_string().c_str(),
               tensor.data.size());
    }
    out += "\nTotals by type\n";
    for (const auto& [type, total] : totals_by_type(checkpoint)) append_total(out, type.c_str(), total);
    append_total(out, "all", grand_total(checkpoint));
    return out;
}

Status print(const std::string& out) {
    if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout) != 0)
        return Error{ErrorCode::io_error, "standard output cannot be written"};
    return {};
}

// --- Weight files: all of it is read ---

Result<std::string> weight_file_report(const std::string& path, bool as_json) {
    auto file = models::open_any_weight_file(path);
    if (!file) return std::move(file).error();
    auto pool = ThreadPool::create(available_processors(), Topology::of_this_process(), false);
    if (!pool) return std::move(pool).error();
    if (Status whole = models::verify(*file, **pool); !whole)
        return Error{whole.error().code, "weight file: " + path + " is damaged: " + whole.error().message};
    const models::WeightIdentity& id = file->header.identity;
    if (as_json)
        return json::serialize(json::object{{"path", to_json(std::string_view(path))},
                                            {"format", "weight file"},
                                            {"file_bytes", file->header.file_bytes},
                                            {"pack_version", id.pack_version},
                                            {"matrices", id.matrices},
                                            {"data_bytes", id.data_bytes},
                                            {"checksum", "right"}}) +
               "\n";
    std::string out = name_text(path);
    append(out,
           "\n  packed weights, %" PRIu64 " bytes (%.1f MiB)\n  %" PRIu64 " matrices, %" PRIu64
           " bytes, layouts of version %" PRIu32 "\n  the checksum is right\n",
           file->header.file_bytes, static_cast<double>(file->header.file_bytes) / (1 << 20), id.matrices,
           id.data_bytes, id.pack_version);
    return out;
}

Status inspect(const std::string& path, bool as_json) {
    if (models::is_weight_file(path)) {
        const Result<std::string> out = weight_file_report(path, as_json);
        return out ? print(*out) : Status(out.error());
    }
    if (path.ends_with(".building") && std::filesystem::is_regular_file(path))
        return Error{ErrorCode::corrupt_data,
                     path + " is a weight file that is not finished: a start with --weight-file " +
                         path.substr(0, path.rfind('.')) +
                         " builds it, or removes it if nobody does any more"};
    const Result<std::unique_ptr<Checkpoint>> opened = Checkpoint::open(path);
    if (!opened) return opened.error();
    std::string out;
    if (as_json) {
        const Result<json::object> object = report(**opened);
        if (!object) return object.error();
        out = json::serialize(*object) + "\n";
    } else {
        out = text_report(**opened);
    }
    return print(out);
}

struct Options {
    std::string path;
    bool as_json = false;
};

}  // namespace

void add_inspect_command(CLI::App& app, ExitStatus& exit) {
    const auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("inspect", "Show metadata, tensors and sizes of a model without loading it");
    command->add_option("path", options->path, "GGUF file, safetensors file, model folder, or weight file")
        ->required();
    command->add_flag("--json", options->as_json, "Print one JSON object");
    command->callback([options, &exit] {
        const Status done = inspect(options->path, options->as_json);
        if (done) return;
        std::fprintf(stderr, "deepinfer: %s\n", done.error().message.c_str());
        exit.code = 1;
    });
}

}  // namespace deepinfer::cli
