#include "api/official_options.h"

#include <algorithm>

namespace deepinfer::api {

namespace json = boost::json;

namespace {

std::optional<double> number_within(const Fields& request, const std::string& name, double least,
                                    double most) {
    const json::value* value = request.find(name);
    if (!value) return std::nullopt;
    if (!value->is_number())
        fail(name, in_quotes(name) + " must be a number, but is " + kind_name(*value) + ".", "invalid_type");
    const double number = value->to_number<double>();
    if (!(number >= least && number <= most))
        fail(name, in_quotes(name) + " is out of range.", "sampling_range");
    return number;
}

std::optional<int64_t> whole_number(const Fields& request, const std::string& name) {
    const json::value* value = request.find(name);
    if (!value) return std::nullopt;
    if (!value->is_int64() || value->get_int64() < 0)
        fail(name, in_quotes(name) + " must be a whole number from 0 on.", "invalid_type");
    return value->get_int64();
}

void check_chat_only(const Fields& request, OfficialOptions& options) {
    if (const auto n = whole_number(request, "n"); n && *n != 1)
        fail("n", "'n' must be 1.", "sampling_range");
    number_within(request, "presence_penalty", -2, 2);
    number_within(request, "frequency_penalty", -2, 2);
    options.logprobs = request.boolean("logprobs").value_or(false);
    options.seed = whole_number(request, "seed");
}

void check_max_tokens(Protocol protocol, const Fields& request, bool thinks, const ServiceRules& rules,
                      OfficialOptions& options) {
    const std::string name = protocol == Protocol::responses ? "max_output_tokens" : "max_tokens";
    options.max_tokens = whole_number(request, name);
    if (!options.max_tokens) return;
    const int64_t most = thinks ? rules.most_tokens_thinking : rules.most_tokens_not_thinking;
    if (protocol == Protocol::messages) *options.max_tokens = std::min(*options.max_tokens, most);
    if (*options.max_tokens < 1 || *options.max_tokens > most)
        fail(name,
             in_quotes(name) + " must be between 1 and " + std::to_string(most) + ", but is " +
                 std::to_string(*options.max_tokens) + ".",
             "sampling_range");
}

}  // namespace

const char* to_string(OutputConstraint::Kind kind) {
    switch (kind) {
        case OutputConstraint::Kind::tool_call:
            return "tool_call";
        case OutputConstraint::Kind::tool_call_required:
            return "tool_call_required";
        case OutputConstraint::Kind::json:
            return "json";
        case OutputConstraint::Kind::regex:
            return "regex";
    }
    return "";
}

std::optional<OutputConstraint> output_constraint(const recipe::Conversation& conversation) {
    using Kind = OutputConstraint::Kind;
    constexpr recipe::JsonStyle compact{.spaced = false};
    if (conversation.offers_tools()) {
        json::array tools;
        const auto or_null = [](const auto& value) {
            return value ? json::value(*value) : json::value(nullptr);
        };
        for (const recipe::Tool& tool : conversation.tools) {
            json::object listed{{"type", "function"},
                                {"function", json::object{{"name", tool.name},
                                                          {"description", or_null(tool.description)},
                                                          {"parameters", tool.parameters},
                                                          {"strict", or_null(tool.strict)}}}};
            if (tool.deferred) listed["defer_loading"] = true;
            tools.push_back(std::move(listed));
        }
        return OutputConstraint{conversation.tool_choice == recipe::ToolChoice::required
                                    ? Kind::tool_call_required
                                    : Kind::tool_call,
                                recipe::to_text(tools, compact)};
    }
    switch (conversation.format.kind) {
        case recipe::ResponseFormat::Kind::text:
            return std::nullopt;
        case recipe::ResponseFormat::Kind::json_object:
            return OutputConstraint{Kind::json, ""};
        case recipe::ResponseFormat::Kind::json_schema:
            return OutputConstraint{Kind::json, recipe::to_text(conversation.format.enforced, compact)};
        case recipe::ResponseFormat::Kind::regex:
            return OutputConstraint{Kind::regex, conversation.format.pattern};
    }
    return std::nullopt;
}

OfficialOptions official_options(Protocol protocol, const Fields& request,
                                 const ConversationRequest& converted, const ServiceRules& rules) {
    OfficialOptions options;
    const recipe::Conversation& conversation = converted.conversation;
    const bool thinks = conversation.thinking.value_or(true);
    if (protocol == Protocol::chat) check_chat_only(request, options);
    const auto temperature = number_within(request, "temperature", 0, 2);
    options.temperature = thinks ? 1 : temperature.value_or(1);
    const auto top_p = number_within(request, "top_p", 0, 1);
    if (top_p == 0.0) fail("top_p", "'top_p' must be above 0.", "sampling_range");
    if (rules.is_v41())
        options.top_p = thinks ? std::max(top_p.value_or(1), 0.95) : 1;
    else
        options.top_p = thinks ? (conversation.offers_tools() ? 0.95 : 1) : top_p.value_or(1);
    if (protocol != Protocol::messages) {
        options.top_logprobs = whole_number(request, "top_logprobs");
        if (options.top_logprobs > 20)
            fail("top_logprobs", "'top_logprobs' must be between 0 and 20.", "sampling_range");
        if (protocol == Protocol::responses) options.logprobs = options.top_logprobs.has_value();
        if (protocol == Protocol::chat && options.top_logprobs && !options.logprobs)
            fail("top_logprobs", "'top_logprobs' is only allowed with 'logprobs': true.", "sampling_range");
    }
    check_max_tokens(protocol, request, thinks, rules, options);
    options.constraint = output_constraint(conversation);
    return options;
}

int64_t official_max_tokens(const recipe::Conversation& conversation, int64_t prompt_tokens,
                            int64_t context_length) {
    int64_t usual = 8192;
    if (conversation.thinking.value_or(true))
        usual = conversation.effort == recipe::Effort::max ? 131'072 : 65'536;
    return std::max<int64_t>(1, std::min(usual, context_length - prompt_tokens));
}

}  // namespace deepinfer::api
