#include "engine/profile_file.h"

#include <fstream>
#include <optional>

#include "base/json.h"
#include "base/replace_file.h"

namespace deepinfer::engine {

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int64_t format_version = 1;

Error damaged(const std::string& why) { return {ErrorCode::corrupt_data, "step profile: " + why}; }

std::optional<int32_t> integer(const json::value& value, int32_t least, int32_t most) {
    const int64_t* number = value.if_int64();
    if (!number || *number < least || *number > most) return std::nullopt;
    return static_cast<int32_t>(*number);
}

std::optional<models::ChunkShape> read_chunk(const json::value& value) {
    const json::array* fields = value.if_array();
    if (!fields || fields->size() != 3) return std::nullopt;
    const auto rows = integer((*fields)[0], 1, most_profile_position),
               position = integer((*fields)[1], 0, most_profile_position),
               logit_rows = rows ? integer((*fields)[2], 0, *rows) : std::nullopt;
    if (!position || !logit_rows || *rows > most_profile_position - *position) return std::nullopt;
    return models::ChunkShape{*rows, *position, *logit_rows};
}

// The reason if it cannot be read.
Result<StepMeasurement> read_step(const json::value& value) {
    const json::object* fields = value.if_object();
    const json::value* seconds = fields ? fields->if_contains("seconds") : nullptr;
    const json::value* chunks = fields ? fields->if_contains("chunks") : nullptr;
    if (!seconds || !chunks || fields->size() != 2)
        return damaged("a step must have seconds and chunks, and nothing else");
    if (!seconds->is_double() || !(seconds->get_double() >= shortest_profile_step) ||
        !(seconds->get_double() <= longest_profile_step))
        return damaged("a step's seconds are no number, or out of range");
    if (!chunks->is_array() || chunks->get_array().empty() ||
        chunks->get_array().size() > most_profile_chunks)
        return damaged("a step must have 1 to " + std::to_string(most_profile_chunks) + " chunks");
    StepMeasurement step;
    step.seconds = seconds->get_double();
    for (const json::value& item : chunks->get_array()) {
        const auto chunk = read_chunk(item);
        if (!chunk) return damaged("a chunk is not [rows, position, logit rows], or out of range");
        step.step.push_back(*chunk);
    }
    return step;
}

}  // namespace

std::string format_profile(std::string_view key, const std::vector<StepMeasurement>& steps) {
    json::array list;
    for (const StepMeasurement& step : steps) {
        json::array chunks;
        for (const models::ChunkShape& c : step.step)
            chunks.push_back(json::array{c.rows, c.position, c.logit_rows});
        list.push_back(json::object{{"seconds", step.seconds}, {"chunks", std::move(chunks)}});
    }
    return json::serialize(
               json::object{{"step_profile", format_version}, {"of", key}, {"steps", std::move(list)}}) +
           "\n";
}

Result<std::vector<StepMeasurement>> parse_profile(std::string_view text, std::string_view key) {
    auto parsed = parse_json(text, "step profile",
                             {.max_bytes = most_profile_bytes, .max_depth = 6, .unique_keys = true});
    if (!parsed) return std::move(parsed).error();
    const json::object* top = parsed->if_object();
    const json::value* version = top ? top->if_contains("step_profile") : nullptr;
    const json::value* of = top ? top->if_contains("of") : nullptr;
    const json::value* list = top ? top->if_contains("steps") : nullptr;
    if (!version || !of || !list || top->size() != 3)
        return damaged("it must have step_profile, of and steps, and nothing else");
    if (!integer(*version, format_version, format_version)) return damaged("of another version");
    if (!of->is_string() || of->get_string().size() > most_profile_key ||
        std::string_view(of->get_string()) != key)
        return damaged("of another model or machine");
    if (!list->is_array() || list->get_array().empty() || list->get_array().size() > most_profile_steps)
        return damaged("it must have 1 to " + std::to_string(most_profile_steps) + " steps");
    std::vector<StepMeasurement> steps;
    for (const json::value& item : list->get_array()) {
        auto step = read_step(item);
        if (!step) return std::move(step).error();
        steps.push_back(std::move(*step));
    }
    return steps;
}

Result<std::vector<StepMeasurement>> read_profile(const fs::path& path, std::string_view key) {
    std::error_code error;
    if (!fs::is_regular_file(path, error))
        return Error{ErrorCode::not_found, "step profile: " + path.string() + " is not there"};
    std::ifstream file(path, std::ios::binary);
    std::string text(most_profile_bytes + 1, '\0');  // one more: then it is too long
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad() || (file.fail() && !file.eof()))
        return Error{ErrorCode::io_error, "step profile: cannot read " + path.string()};
    text.resize(static_cast<size_t>(file.gcount()));
    return parse_profile(text, key);
}

Status write_profile(const fs::path& path, std::string_view key, const std::vector<StepMeasurement>& steps) {
    if (replace_file(path, format_profile(key, steps))) return {};
    return Error{ErrorCode::io_error, "step profile: cannot write " + path.string()};
}

}  // namespace deepinfer::engine
