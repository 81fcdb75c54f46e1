#include "api/generation_options.h"

#include <charconv>
#include <limits>

#include "api/fields.h"
#include "api/limits.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;

std::string one_stop_string(const json::value& value, const std::string& path) {
    std::string text = as_string(value, path);
    if (text.empty()) fail(path, in_quotes(path) + " must not be empty.", "invalid_value");
    if (text.size() > limits::stop_string_bytes)
        fail(path,
             in_quotes(path) + " has " + std::to_string(text.size()) + " bytes; a stop string has at most " +
                 std::to_string(limits::stop_string_bytes) + ".",
             "invalid_value");
    return text;
}

void check_count(size_t count, size_t limit, const std::string& path) {
    if (count > limit)
        fail(path,
             in_quotes(path) + " has " + std::to_string(count) + " elements; at most " +
                 std::to_string(limit) + " are allowed.",
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

// A share: above 0 and at most 1, which is the default.
float parse_share(const Fields& fields, const char* name) {
    const auto share = static_cast<float>(fields.number(name, 0, 1).value_or(1));
    if (share <= 0) fail(name, in_quotes(name) + " must be greater than 0 and at most 1.", "invalid_value");
    return share;
}

// {"token id": bias, ...}
std::vector<engine::LogitBias> parse_logit_bias(const Fields& fields) {
    const json::object* object = fields.object("logit_bias");
    if (!object) return {};
    check_count(object->size(), engine::max_logit_biases, "logit_bias");
    const Fields biases(*object, "logit_bias.");
    std::vector<engine::LogitBias> result;
    for (const auto& member : *object) {
        const std::string_view key(member.key().data(), member.key().size());
        TokenId token = -1;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
        // One spelling for a token, so that none can be there twice.
        if (error != std::errc() || std::to_string(token) != key || token < 0)
            fail("logit_bias",
                 "The keys of 'logit_bias' must be token ids, as in {\"50256\": -100}, but one is " +
                     in_quotes(key.substr(0, 64)) + ".",
                 "invalid_value");
        const auto most = static_cast<double>(engine::most_logit_bias);
        if (const auto bias = biases.number(key, -most, most))
            result.push_back({token, static_cast<float>(*bias)});
    }
    return result;
}

// OpenAI knows "in_memory" and "24h"; the classes of stores are ours.
std::optional<engine::Retention> parse_retention(const Fields& fields) {
    const auto name = fields.string("prompt_cache_retention");
    if (!name) return std::nullopt;
    if (*name == "in_memory" || *name == "in-memory") return engine::Retention::none;
    if (*name == "24h") return engine::Retention::agent;
    if (const auto retention = engine::parse_retention(*name)) return retention;
    fail("prompt_cache_retention",
         "'prompt_cache_retention' must be one of in_memory, 24h, none, agent, chat, but is " +
             in_quotes(name->substr(0, 64)) + ".",
         "invalid_value");
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
    sampling.top_p = parse_share(fields, "top_p");
    sampling.typical_p = parse_share(fields, "typical_p");
    // -1 is how some clients say "off".
    const int64_t top_k = fields.integer("top_k", -1, limits::top_k).value_or(0);
    sampling.top_k = static_cast<int32_t>(top_k < 0 ? 0 : top_k);
    sampling.min_p = static_cast<float>(fields.number("min_p", 0, 1).value_or(0));
    const auto number = [&](const char* name, float least, float most, float usual) {
        return static_cast<float>(
            fields.number(name, static_cast<double>(least), static_cast<double>(most)).value_or(usual));
    };
    sampling.frequency_penalty = number("frequency_penalty", -engine::most_penalty, engine::most_penalty, 0);
    sampling.presence_penalty = number("presence_penalty", -engine::most_penalty, engine::most_penalty, 0);
    sampling.repetition_penalty =
        number("repetition_penalty", engine::least_repetition_penalty, engine::most_repetition_penalty, 1);
    sampling.logit_bias = parse_logit_bias(fields);
    sampling.min_tokens =
        static_cast<int32_t>(fields.integer("min_tokens", 0, limits::max_tokens).value_or(0));
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
    result.n = result.best_of = static_cast<int32_t>(fields.integer("n", 1, engine::max_choices).value_or(1));
    if (const auto salt = fields.string("cache_salt")) {
        if (salt->size() > limits::cache_salt_bytes)
            fail("cache_salt",
                 "'cache_salt' has " + std::to_string(salt->size()) + " bytes; it may have at most " +
                     std::to_string(limits::cache_salt_bytes) + ".",
                 "invalid_value");
        result.cache_salt = *salt;
    }
    result.retention = parse_retention(fields);
    result.priority =
        static_cast<int32_t>(fields.integer("priority", -limits::priority, limits::priority).value_or(0));
    result.timeout = fields.number("timeout", limits::shortest_timeout, limits::longest_timeout);
    result.stop = parse_stop(fields);
    result.stream = fields.boolean("stream").value_or(false);
    result.include_usage = parse_include_usage(fields, result.stream);
    return result;
}

void parse_dependent_options(const Fields& fields, GenerationOptions& options) {
    engine::SamplingParams& sampling = options.sampling;
    if (options.max_tokens && sampling.min_tokens > *options.max_tokens)
        fail("min_tokens",
             "'min_tokens' is " + std::to_string(sampling.min_tokens) +
                 ", more than 'max_tokens', which is " + std::to_string(*options.max_tokens) + ".",
             "invalid_value");
    const auto prompt_logprobs = fields.integer("prompt_logprobs", 0, engine::max_top_logprobs);
    if (prompt_logprobs && options.stream)
        fail("prompt_logprobs", "'prompt_logprobs' is not allowed with 'stream': true.", "invalid_value");
    options.prompt_logprobs = static_cast<int32_t>(prompt_logprobs.value_or(-1));
    sampling.prompt_logprobs = options.prompt_logprobs;
    const std::optional<std::string> mode = fields.string("logprobs_mode");
    if (!mode) return;
    if (*mode != "raw_logprobs" && *mode != "processed_logprobs")
        fail("logprobs_mode", "'logprobs_mode' must be 'raw_logprobs' or 'processed_logprobs'.",
             "invalid_value");
    if (sampling.top_logprobs < 0)
        fail("logprobs_mode", "'logprobs_mode' is only allowed with 'logprobs'.", "invalid_value");
    if (*mode == "processed_logprobs") sampling.logprobs_mode = engine::LogprobsMode::processed;
}

}  // namespace deepinfer::api
