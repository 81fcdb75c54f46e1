#include "api/generation_options.h"

#include <limits>

#include "api/fields.h"
#include "api/limits.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;

std::string one_stop_string(const json::value& value, const std::string& path) {
    std::string text = as_string(value, path);
    if (text.empty()) fail(path, quoted(path) + " must not be empty.", "invalid_value");
    if (text.size() > limits::stop_string_bytes)
        fail(path,
             quoted(path) + " has " + std::to_string(text.size()) + " bytes; a stop string has at most " +
                 std::to_string(limits::stop_string_bytes) + ".",
             "invalid_value");
    return text;
}

void check_count(size_t count, size_t limit, const std::string& path) {
    if (count > limit)
        fail(path,
             quoted(path) + " has " + std::to_string(count) + " elements; at most " + std::to_string(limit) +
                 " are allowed.",
             "invalid_value");
}

std::vector<std::string> parse_stop(const Fields& fields) {
    const json::value* value = fields.find("stop");
    if (!value) return {};
    if (value->is_string()) return {one_stop_string(*value, "stop")};
    if (!value->is_array())
        fail("stop",
             std::string("'stop' must be a string or an array of strings, but is ") + kind_name(*value) + ".",
             "invalid_type");
    const json::array& items = value->get_array();
    check_count(items.size(), limits::stop_strings, "stop");
    std::vector<std::string> stops;
    for (size_t i = 0; i < items.size(); ++i)
        stops.push_back(one_stop_string(items[i], "stop[" + std::to_string(i) + "]"));
    return stops;
}

bool parse_include_usage(const Fields& fields, bool stream) {
    const json::object* object = fields.object("stream_options");
    if (!object) return false;
    if (!stream)
        fail("stream_options", "'stream_options' is only allowed with 'stream': true.", "invalid_value");
    const Fields options(*object, "stream_options.");
    for (const auto& member : *object) {
        const std::string name(member.key());
        // include_obfuscation is OpenAI's padding against traffic analysis; not padding is always allowed.
        if (name != "include_usage" && name != "include_obfuscation")
            fail(options.path(name), "Unrecognized request argument: '" + options.path(name) + "'.",
                 "unknown_parameter");
    }
    (void)options.boolean("include_obfuscation");
    return options.boolean("include_usage").value_or(false);
}

}  // namespace

GenerationOptions parse_generation_options(const Fields& fields) {
    GenerationOptions result;
    engine::SamplingParams& sampling = result.sampling;
    sampling.temperature = static_cast<float>(fields.number("temperature", 0, 2).value_or(1));
    sampling.top_p = static_cast<float>(fields.number("top_p", 0, 1).value_or(1));
    if (sampling.top_p <= 0) fail("top_p", "'top_p' must be greater than 0 and at most 1.", "invalid_value");
    // -1 is how some clients say "off".
    const int64_t top_k = fields.integer("top_k", -1, limits::top_k).value_or(0);
    sampling.top_k = static_cast<int32_t>(top_k < 0 ? 0 : top_k);
    sampling.min_p = static_cast<float>(fields.number("min_p", 0, 1).value_or(0));
    sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
    if (const json::array* ids = fields.array("stop_token_ids")) {
        check_count(ids->size(), limits::stop_token_ids, "stop_token_ids");
        for (size_t i = 0; i < ids->size(); ++i)
            sampling.stop_ids.push_back(
                static_cast<TokenId>(as_integer((*ids)[i], "stop_token_ids[" + std::to_string(i) + "]", 0,
                                                std::numeric_limits<TokenId>::max())));
    }
    if (const auto seed =
            fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()))
        result.seed = static_cast<uint64_t>(*seed);
    result.stop = parse_stop(fields);
    result.stream = fields.boolean("stream").value_or(false);
    result.include_usage = parse_include_usage(fields, result.stream);
    return result;
}

}  // namespace deepinfer::api
