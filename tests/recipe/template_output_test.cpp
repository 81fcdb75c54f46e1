#include "recipe/template_output.h"

#include <gtest/gtest.h>

namespace deepinfer::recipe {
namespace {

using Kind = OutputEvent::Kind;
using Events = std::vector<std::pair<Kind, std::string>>;

constexpr OutputOptions with_tools{.parse_calls = true, .stops = {}};

TemplateSyntax syntax(CallSyntax calls, bool thinks = true) {
    TemplateSyntax made{.calls = calls};
    if (thinks) made.think_begin = "<think>", made.think_end = "</think>";
    return made;
}

Events parse(const OutputOptions& options, const TemplateSyntax& how,
             const std::vector<std::string_view>& pieces) {
    TemplateOutput parser(options, how);
    std::vector<OutputEvent> events;
    for (const std::string_view piece : pieces) parser.push(piece, ByteSource::text, events);
    parser.finish(events);
    Events joined;
    for (const OutputEvent& event : events) {
        const bool is_text = event.kind != Kind::call_begin && event.kind != Kind::call_end;
        if (is_text && !joined.empty() && joined.back().first == event.kind)
            joined.back().second += event.text;
        else
            joined.emplace_back(event.kind, event.text);
    }
    return joined;
}

// The same whole, in bytes and cut in two anywhere.
Events parse_all_ways(const OutputOptions& options, const TemplateSyntax& how, std::string_view text) {
    const Events whole = parse(options, how, {text});
    for (size_t i = 0; i <= text.size(); ++i)
        EXPECT_EQ(parse(options, how, {text.substr(0, i), text.substr(i)}), whole) << text << " at " << i;
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    EXPECT_EQ(parse(options, how, bytes), whole) << text;
    return whole;
}

TEST(TemplateOutput, ThinkingThenAnAnswerWithTaggedCalls) {
    const Events events = parse_all_ways(
        with_tools, syntax(CallSyntax::tagged),
        "<think>\nHm.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": "
        "{\"city\": \"Paris {}\", \"n\": [1, {\"a\": 2}]}}\n</tool_call>\n<tool_call>\n"
        "{\"arguments\": {}, \"name\": \"ping\"}\n</tool_call>");
    const Events expected = {
        {Kind::reasoning, "Hm."},     {Kind::content, "Let me look."},
        {Kind::call_begin, "get"},    {Kind::call_arguments, R"({"city": "Paris {}", "n": [1, {"a": 2}]})"},
        {Kind::call_end, ""},         {Kind::call_begin, "ping"},
        {Kind::call_arguments, "{}"}, {Kind::call_end, ""}};
    EXPECT_EQ(events, expected);
}

TEST(TemplateOutput, BareCalls) {
    const Events two =
        parse_all_ways(with_tools, syntax(CallSyntax::bare, false),
                       R"( {"name": "a", "parameters": {"x": 1}}; {"type": "function", "name": "b"})");
    const Events expected = {{Kind::call_begin, "a"},      {Kind::call_arguments, R"({"x": 1})"},
                             {Kind::call_end, ""},         {Kind::call_begin, "b"},
                             {Kind::call_arguments, "{}"}, {Kind::call_end, ""}};
    EXPECT_EQ(two, expected);
    EXPECT_EQ(parse_all_ways(with_tools, syntax(CallSyntax::bare, false), R"({"answer": 42})"),
              (Events{{Kind::content, R"({"answer": 42})"}}));
    EXPECT_EQ(parse_all_ways(with_tools, syntax(CallSyntax::bare, false), R"(See {"name": "a"})"),
              (Events{{Kind::content, R"(See {"name": "a"})"}}));
}

TEST(TemplateOutput, ArgumentsWrittenAsTextAreTheTextsJson) {
    EXPECT_EQ(parse_all_ways(with_tools, syntax(CallSyntax::tagged),
                             "<tool_call>{\"name\":\"a\",\"arguments\":\"{\\\"x\\\": 1}\"}</tool_call>"),
              (Events{{Kind::call_begin, "a"}, {Kind::call_arguments, R"({"x": 1})"}, {Kind::call_end, ""}}));
}

TEST(TemplateOutput, WhatIsNoCallIsText) {
    for (const char* text :
         {"<tool_call>\nnone\n</tool_call>", "<tool_call>{\"name\": 3}", "<tool_call>{\"x\": 1}",
          "a <tool_ca", "<tool_call>", "{\"name\": \"a\"}", "</think>", "say <think> here"}) {
        std::string said;
        for (const auto& [kind, part] : parse_all_ways(with_tools, syntax(CallSyntax::tagged), text)) {
            EXPECT_EQ(kind, Kind::content) << text;
            said += part;
        }
        EXPECT_EQ(said, std::string_view(text).substr(0, said.size())) << text;
        EXPECT_GE(said.size() + 13, std::string_view(text).size()) << text << ": " << said;
    }
}

TEST(TemplateOutput, WithoutToolsACallIsText) {
    const char* text = "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>";
    EXPECT_EQ(parse_all_ways({}, syntax(CallSyntax::tagged), text), (Events{{Kind::content, text}}));
}

TEST(TemplateOutput, ATruncatedCallHasUnfinishedArguments) {
    EXPECT_EQ(parse_all_ways(with_tools, syntax(CallSyntax::tagged),
                             "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": \"y"),
              (Events{{Kind::call_begin, "a"}, {Kind::call_arguments, "{\"x\": \"y"}}));
}

TEST(TemplateOutput, ThePromptMayHaveBegunTheThinkingOrTheCall) {
    EXPECT_EQ(parse_all_ways({.first = FirstStage::reasoning, .stops = {}}, syntax(CallSyntax::none),
                             "Hm.</think>\n\nYes."),
              (Events{{Kind::reasoning, "Hm."}, {Kind::content, "Yes."}}));
    EXPECT_EQ(
        parse_all_ways({.starts_in_calls = true, .parse_calls = true, .stops = {}},
                       syntax(CallSyntax::tagged), "{\"name\": \"a\", \"arguments\": {}}\n</tool_call>"),
        (Events{{Kind::call_begin, "a"}, {Kind::call_arguments, "{}"}, {Kind::call_end, ""}}));
}

TEST(TemplateOutput, StopStringsEndTheAnswerButNotTheThinking) {
    OutputOptions options = with_tools;
    options.stops = {"END"};
    EXPECT_EQ(parse_all_ways(options, syntax(CallSyntax::tagged), "<think>END</think>a END b"),
              (Events{{Kind::reasoning, "END"}, {Kind::content, "a "}}));
}

TEST(TemplateOutput, AnAnswerKeepsItsWhiteSpace) {
    EXPECT_EQ(parse_all_ways({}, syntax(CallSyntax::none, false), " \n France \n"),
              (Events{{Kind::content, " \n France \n"}}));
}

}  // namespace
}  // namespace deepinfer::recipe
