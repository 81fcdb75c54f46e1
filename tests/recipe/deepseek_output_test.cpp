#include "recipe/deepseek_output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"

namespace deepinfer::recipe {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using Kind = OutputEvent::Kind;

// Neighbouring events of one kind joined.
struct Answer {
    std::vector<std::pair<Kind, std::string>> events;
    std::optional<std::string> stop;
    bool operator==(const Answer&) const = default;
};

void add(Answer& answer, const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
        const bool is_text = event.kind != Kind::call_begin && event.kind != Kind::call_end;
        if (is_text && !answer.events.empty() && answer.events.back().first == event.kind)
            answer.events.back().second += event.text;
        else
            answer.events.emplace_back(event.kind, event.text);
    }
}

Answer parse(const OutputOptions& options, const std::vector<std::string_view>& pieces, bool finish = true) {
    DeepSeekOutput parser(options);
    Answer answer;
    std::vector<OutputEvent> events;
    for (const std::string_view piece : pieces) parser.push(piece, ByteSource::text, events);
    if (finish) parser.finish(events);
    add(answer, events);
    answer.stop = parser.stop();
    return answer;
}

constexpr OutputOptions thinking_with_tools{.first = FirstStage::reasoning, .parse_calls = true};
constexpr std::string_view example =
    "Weather.\n</think>Sure.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get\">\n"
    "<｜DSML｜ parameter name=\"my city\" string=\"true\">Pa\"r\n is</｜DSML｜ parameter>\n"
    "<｜DSML｜ parameter name=\"days\" string=\"false\">3</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"ping\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";

TEST(DeepSeekOutput, TakesAnAnswerApart) {
    const Answer answer = parse(thinking_with_tools, {example});
    const std::vector<std::pair<Kind, std::string>> expected = {
        {Kind::reasoning, "Weather."}, {Kind::content, "Sure."},
        {Kind::call_begin, "get"},     {Kind::call_arguments, R"({"my city": "Pa\"r\n is", "days": 3})"},
        {Kind::call_end, ""},          {Kind::call_begin, "ping"},
        {Kind::call_arguments, "{}"},  {Kind::call_end, ""}};
    EXPECT_EQ(answer.events, expected);
}

TEST(DeepSeekOutput, CutAnywhereTheResultIsTheSame) {
    const Answer whole = parse(thinking_with_tools, {example});
    for (size_t i = 0; i <= example.size(); ++i)
        EXPECT_EQ(parse(thinking_with_tools, {example.substr(0, i), example.substr(i)}), whole) << i;
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < example.size(); ++i) bytes.push_back(example.substr(i, 1));
    EXPECT_EQ(parse(thinking_with_tools, bytes), whole);
}

TEST(DeepSeekOutput, EndingAnywhereNoMarkupGetsIntoTheContent) {
    for (size_t i = 0; i <= example.size(); ++i) {
        const Answer answer = parse(thinking_with_tools, {example.substr(0, i)}, false);
        std::string content, arguments;
        for (const auto& [kind, text] : answer.events) {
            if (kind == Kind::content) content += text;
            if (kind == Kind::call_arguments) arguments += text;
        }
        EXPECT_EQ(std::string("Sure.").substr(0, content.size()), content) << i;
        EXPECT_EQ(arguments.find("｜DSML｜"), std::string::npos) << i;
    }
}

TEST(DeepSeekOutput, LookAlikesAreText) {
    for (const char* text : {"<|DSML| calls>", "<‖DSML‖ calls>", "<｜｜DSML｜｜ calls>x", "< ｜DSML｜ calls>",
                             "<｜DSML>", "</ think>", "<think>", "<｜User｜>"}) {
        const Answer answer = parse({.parse_calls = true}, {text, "."});
        ASSERT_EQ(answer.events.size(), 1u) << text;
        EXPECT_EQ(answer.events[0].second, std::string(text) + ".");
    }
    // A stray end of thinking goes without a word.
    EXPECT_EQ(parse({}, {"a</think>b"}).events[0].second, "ab");
}

TEST(DeepSeekOutput, MarkersSpelledOutWithPlainTokensAreText) {
    DeepSeekOutput parser(thinking_with_tools);
    std::vector<OutputEvent> events;
    parser.push("a</think>b", ByteSource::plain_token, events);
    parser.push("</think>", ByteSource::control_token, events);
    parser.push("<｜DSML｜ calls>", ByteSource::plain_token, events);
    parser.finish(events);
    Answer answer;
    add(answer, events);
    const std::vector<std::pair<Kind, std::string>> expected = {{Kind::reasoning, "a</think>b"},
                                                                {Kind::content, "<｜DSML｜ calls>"}};
    EXPECT_EQ(answer.events, expected);
}

TEST(DeepSeekOutput, BytesAreHeldOnlyWhileTheyMayBeAMarker) {
    DeepSeekOutput parser({.parse_calls = true, .stops = {"STOP"}});
    std::vector<OutputEvent> events;
    const auto after = [&](std::string_view piece) {
        events.clear();
        parser.push(piece, ByteSource::text, events);
        return events.empty() ? std::string() : events[0].text;
    };
    EXPECT_EQ(after("abc<"), "abc");
    EXPECT_EQ(after("b>"), "<b>");
    EXPECT_EQ(after("\n\n"), "");
    EXPECT_EQ(after("<｜DS"), "");
    EXPECT_EQ(after("x"), "\n\n<｜DSx");
    EXPECT_EQ(after("STO"), "");
    EXPECT_EQ(after("STOP!"), "STO");
    EXPECT_EQ(parser.stop(), "STOP");
    EXPECT_EQ(after("more"), "");
}

TEST(DeepSeekOutput, OfAnAnswerInJsonOnlyTheJsonCounts) {
    const OutputOptions options{.json_only = true, .stops = {"]"}};
    EXPECT_EQ(parse(options, {"Here: ```json\n{\"a\": 1}\n```\nDone]"}).events[0].second, " {\"a\": 1} ");
    const Answer stopped = parse(options, {"Sure [1,2] and more"});
    EXPECT_EQ(stopped.events[0].second, " [1,2");
    EXPECT_EQ(stopped.stop, "]");
}

// The recorded outputs, cut at every byte.
TEST(DeepSeekOutput, RecordedOutputsCutAnywhere) {
    size_t seen = 0;
    for (const auto& entry : fs::directory_iterator(DEEPINFER_TEST_DATA "/vectors/recipe/stream")) {
        std::ifstream stream(entry.path());
        const auto vector = parse_json(std::string{std::istreambuf_iterator<char>(stream), {}}, "vector");
        ASSERT_TRUE(vector.ok()) << entry.path();
        const json::value& text = vector->at("full_text");
        const json::object& recorded = vector->at("parsing_options").as_object();
        if (!text.is_string() || recorded.at("parse_json_output").as_bool()) continue;
        OutputOptions options{.starts_in_calls = recorded.at("starts_in_tool_calls").as_bool(),
                              .parse_calls = recorded.at("parse_tool_calls").as_bool()};
        if (!recorded.at("thinking_initial_stage").is_null()) options.first = FirstStage::reasoning;
        for (const json::value& stop : recorded.at("stop_sequences").as_array())
            options.stops.emplace_back(stop.as_string());
        const std::string_view whole_text = text.get_string();
        const Answer whole = parse(options, {whole_text});
        for (size_t i = 0; i <= whole_text.size(); ++i)
            ASSERT_EQ(parse(options, {whole_text.substr(0, i), whole_text.substr(i)}), whole)
                << entry.path() << " " << i;
        ++seen;
    }
    EXPECT_GT(seen, 100u);
}

}  // namespace
}  // namespace deepinfer::recipe
