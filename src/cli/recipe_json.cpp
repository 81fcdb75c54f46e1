#include "cli/recipe_json.h"

#include "recipe/text_stream.h"

namespace deepinfer::cli {

namespace json = boost::json;

namespace {

json::value or_null(const auto& value) { return value ? json::value(*value) : json::value(nullptr); }

}  // namespace

json::value ranges_json(const recipe::MarkedText& marked) {
    json::array ranges;
    for (const recipe::Range& range : marked.special)
        ranges.push_back(
            json::array{recipe::count_characters(std::string_view(marked.text).substr(0, range.begin)),
                        recipe::count_characters(std::string_view(marked.text).substr(0, range.end))});
    return ranges;
}

json::value images_json(const std::vector<recipe::Image>& images) {
    json::array list;
    for (const recipe::Image& image : images) {
        const bool is_data = !image.source.starts_with("http");
        list.push_back(json::object{{"kind", is_data ? "data_url" : "url"},
                                    {"detail", image.detail},
                                    {"path", image.path},
                                    {"data_url", is_data ? json::value(image.source) : json::value(nullptr)},
                                    {"url", is_data ? json::value(nullptr) : json::value(image.source)}});
    }
    return list;
}

json::value options_json(const api::OfficialOptions& options) {
    json::value constraint = nullptr;
    if (options.constraint)
        constraint = json::object{{"kind", to_string(options.constraint->kind)},
                                  {"schema", options.constraint->schema}};
    return json::object{{"max_tokens", or_null(options.max_tokens)},
                        {"temperature", options.temperature},
                        {"top_p", options.top_p},
                        {"logprobs", options.logprobs},
                        {"top_logprobs", or_null(options.top_logprobs)},
                        {"seed", or_null(options.seed)},
                        {"output_constraint", std::move(constraint)}};
}

json::value output_json(const recipe::OutputOptions& output) {
    const char* names[] = {nullptr, "ReasoningStart", "ReasoningContinuation", "ContentContinuation"};
    const char* first = names[static_cast<int>(output.first)];
    return json::object{{"parse_tool_calls", output.parse_calls},
                        {"starts_in_tool_calls", output.starts_in_calls},
                        {"parse_json_output", output.json_only},
                        {"thinking_initial_stage", first ? json::value(first) : json::value(nullptr)},
                        {"stop_sequences", json::array(output.stops.begin(), output.stops.end())}};
}

json::value conversation_json(const recipe::Conversation& conversation) {
    const char* choices[] = {"auto", "none", "required"};
    const char* formats[] = {"text", "json_object", "json_schema", "regex"};
    return json::object{
        {"thinking_mode", conversation.thinking.value_or(true)},
        {"tool_choice", choices[static_cast<int>(conversation.tool_choice)]},
        {"reasoning_effort",
         conversation.effort ? json::value(to_string(*conversation.effort)) : json::value(nullptr)},
        {"response_format", formats[static_cast<int>(conversation.format.kind)]}};
}

}  // namespace deepinfer::cli
