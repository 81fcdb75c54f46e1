#include "api/request_fields.h"

#include <algorithm>

namespace deepinfer::api {
namespace {

namespace json = boost::json;

bool is_false(const json::value& value) { return value.is_bool() && !value.get_bool(); }
bool is_empty(const json::value& value) {
    return (value.is_array() && value.get_array().empty()) ||
           (value.is_object() && value.get_object().empty()) ||
           (value.is_string() && value.get_string().empty());
}
bool is_word(const json::value& value, std::string_view word) {
    return value.is_string() && std::string_view(value.get_string()) == word;
}
bool is_none(const json::value& value) { return is_word(value, "none"); }
bool is_none_or_auto(const json::value& value) { return is_none(value) || is_word(value, "auto"); }
bool is_usual_tier(const json::value& value) { return is_word(value, "auto") || is_word(value, "default"); }
bool is_medium(const json::value& value) { return is_word(value, "medium"); }
bool is_text_format(const json::value& value) {
    const json::object* format = value.if_object();
    const json::value* type = format ? format->if_contains("type") : nullptr;
    return type && format->size() == 1 && is_word(*type, "text");
}
bool is_text_only(const json::value& value) {
    const json::array* modes = value.if_array();
    return modes && modes->size() == 1 && is_word(modes->front(), "text");
}
bool never(const json::value&) { return false; }
bool is_string(const json::value& value) { return value.is_string(); }
bool is_object(const json::value& value) { return value.is_object(); }
bool is_boolean(const json::value& value) { return value.is_bool(); }

constexpr unsigned both = Endpoint::chat | Endpoint::completions;
using enum FieldUse;

constexpr RequestField table[] = {
    {"model", both, implemented},
    {"messages", chat, implemented},
    {"prompt", completions, implemented},
    {"stream", both, implemented},
    {"stream_options", both, implemented},
    {"max_tokens", both, implemented},
    {"max_completion_tokens", chat, implemented},
    {"temperature", both, implemented},
    {"top_p", both, implemented},
    {"seed", both, implemented},
    {"stop", both, implemented},
    {"n", both, implemented},
    {"best_of", completions, implemented},
    {"frequency_penalty", both, implemented},
    {"presence_penalty", both, implemented},
    {"logit_bias", both, implemented},
    {"logprobs", both, implemented},
    {"top_logprobs", chat, implemented},
    {"echo", completions, implemented},
    // Beyond OpenAI, under the names that other servers use.
    {"top_k", both, implemented},
    {"min_p", both, implemented},
    {"typical_p", both, implemented},
    {"repetition_penalty", both, implemented},
    {"min_tokens", both, implemented},
    {"logprobs_mode", both, implemented},
    {"prompt_logprobs", both, implemented},
    {"ignore_eos", both, implemented},
    {"stop_token_ids", both, implemented},
    {"priority", both, implemented},
    {"timeout", both, implemented},
    {"cache_salt", both, implemented},
    {"prompt_cache_retention", both, implemented},
    {"add_special_tokens", completions, implemented},
    {"parse_special_tokens", completions, implemented},
    {"add_generation_prompt", chat, implemented},
    {"chat_template_kwargs", chat, implemented},
    {"tools", chat, implemented},  // taken with tool_choice "none" only, see chat_request.cpp
    {"tool_choice", chat, neutral_only, is_none_or_auto, "Calling tools is not implemented yet."},

    {"user", both, hint, is_string, "a string"},
    {"metadata", chat, hint, is_object, "an object"},
    {"prompt_cache_key", chat, hint, is_string, "a string"},
    {"prompt_cache_options", chat, hint, is_object, "an object"},
    {"safety_identifier", chat, hint, is_string, "a string"},
    {"prediction", chat, hint, is_object, "an object"},            // may speed an answer up, never changes it
    {"parallel_tool_calls", chat, hint, is_boolean, "a boolean"},  // there are no tool calls

    {"store", chat, neutral_only, is_false, "Answers are not stored."},
    {"service_tier", chat, neutral_only, is_usual_tier, "There is one tier: 'auto'."},
    {"response_format", chat, neutral_only, is_text_format,
     "Only {\"type\":\"text\"} is implemented so far."},
    {"modalities", chat, neutral_only, is_text_only, "Only [\"text\"] is possible."},
    {"functions", chat, neutral_only, is_empty, "Calling functions is not implemented yet."},
    {"function_call", chat, neutral_only, is_none, "Calling functions is not implemented yet."},
    {"reasoning_effort", chat, neutral_only, never,
     "Models with a thinking switch take it through chat_template_kwargs, e.g. {\"enable_thinking\":false}."},
    {"audio", chat, neutral_only, never, "Only text is possible."},
    {"verbosity", chat, neutral_only, is_medium, "Ask for a short or long answer in the messages."},
    {"web_search_options", chat, neutral_only, never, "There is no web search."},  // {} switches it on
    {"moderation", chat, neutral_only, never},
    {"suffix", completions, neutral_only, is_empty},
};

}  // namespace

std::span<const RequestField> request_fields() { return table; }

void check_fields(const Fields& fields, Endpoint endpoint) {
    for (const auto& member : fields.object()) {
        const std::string name(member.key());
        const RequestField* field =
            std::find_if(std::begin(table), std::end(table), [&](const RequestField& candidate) {
                return candidate.name == name && (candidate.endpoints & endpoint);
            });
        if (field == std::end(table))
            fail(name, "Unrecognized request argument: '" + name + "'.", "unknown_parameter");
        if (member.value().is_null() || field->use == FieldUse::implemented) continue;
        if (!field->accepts(member.value())) {
            if (field->use == FieldUse::hint)
                fail(name,
                     in_quotes(name) + " must be " + std::string(field->advice) + ", but is " +
                         kind_name(member.value()) + ".",
                     "invalid_type");
            std::string message = in_quotes(name) + " is not supported with this value.";
            if (!field->advice.empty()) message.append(" ").append(field->advice);
            fail(name, std::move(message), "unsupported_parameter");
        }
    }
}

}  // namespace deepinfer::api
