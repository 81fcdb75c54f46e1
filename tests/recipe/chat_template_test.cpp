// Templates render byte for byte as Hugging Face transformers renders them. See make_template_vectors.py.
#include "recipe/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"

namespace deepinfer::recipe {
namespace {

namespace json = boost::json;

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

struct Tally {
    int equal = 0, cases = 0, templates = 0;
    int more_lenient = 0;  // rendered where jinja2 raises a type error
};

void check_template(const std::filesystem::path& vectors, bool strict, Tally& tally) {
    SCOPED_TRACE(vectors.filename().string());
    const auto compiled =
        ChatTemplate::compile(read_file(std::filesystem::path(vectors).replace_extension(".jinja")));
    const auto parsed = parse_json(read_file(vectors), "vectors", {.max_depth = 64});
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ++tally.templates;
    for (const json::value& test : parsed->at("cases").as_array()) {
        SCOPED_TRACE(std::string(test.at("name").as_string()));
        ++tally.cases;
        const json::value* expected = test.as_object().if_contains("expected");
        if (!compiled) {
            EXPECT_FALSE(expected) << compiled.error().message;
            tally.equal += !expected;
            continue;
        }
        const auto text = compiled->render(json::serialize(test.at("context")),
                                           parsed->at("unix_seconds").to_number<int64_t>());
        if (!expected) {
            if (strict) {
                EXPECT_FALSE(text.ok()) << *text;
            }
            ++(text.ok() ? tally.more_lenient : tally.equal);
            continue;
        }
        if (!text) {
            ADD_FAILURE() << text.error().message;
            continue;
        }
        const std::string wanted(expected->as_string());
        const size_t same = static_cast<size_t>(
            std::mismatch(text->begin(), text->end(), wanted.begin(), wanted.end()).first - text->begin());
        EXPECT_TRUE(*text == wanted) << "differ at byte " << same << ":\n  ours   " << text->substr(same, 80)
                                     << "\n  theirs " << wanted.substr(same, 80);
        tally.equal += *text == wanted;
    }
}

Tally check_folder(const std::filesystem::path& folder, bool strict) {
    Tally tally;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".json") check_template(entry.path(), strict, tally);
    return tally;
}

TEST(ChatTemplate, RendersAsTransformersDoes) {
    const Tally tally =
        check_folder(std::filesystem::path(DEEPINFER_TEST_DATA) / "vectors" / "templates", true);
    EXPECT_EQ(tally.templates, 3);
    EXPECT_EQ(tally.equal, tally.cases);
}

TEST(ChatTemplate, RendersFurtherTemplatesAsTransformersDoes) {
    const char* folder = std::getenv("DEEPINFER_TEMPLATE_VECTORS");
    if (!folder) GTEST_SKIP() << "DEEPINFER_TEMPLATE_VECTORS names no folder";
    const Tally tally = check_folder(folder, false);
    std::printf("%d templates, %d cases: %d equal, %d rendered where jinja2 fails\n", tally.templates,
                tally.cases, tally.equal, tally.more_lenient);
}

TEST(ChatTemplate, ErrorsAreValues) {
    const auto broken = ChatTemplate::compile("{% for x in %}");
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.error().code, ErrorCode::corrupt_data);
    const auto refusing = ChatTemplate::compile("{{ raise_exception('Only user messages, please') }}");
    ASSERT_TRUE(refusing.ok());
    EXPECT_EQ(refusing->render("{}", 0).error().message, "Only user messages, please");
    EXPECT_FALSE(refusing->render("not json", 0).ok());
    const auto endless = ChatTemplate::compile(
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
    ASSERT_TRUE(endless.ok());
    EXPECT_NE(endless->render("{}", 0).error().message.find("too many steps"), std::string::npos);
    const auto bloated = ChatTemplate::compile("{% for a in range(9000) %}{{ 'x' * 9000 }}{% endfor %}");
    ASSERT_TRUE(bloated.ok());
    EXPECT_NE(bloated->render("{}", 0).error().message.find("exceeds"), std::string::npos);
}

TEST(ChatTemplate, RenderingHasALimitOfTime) {
    std::string slices = "{{ messages";
    for (int i = 0; i < 14'000; ++i) slices += "[0:]";
    const auto hostile = ChatTemplate::compile(slices + " }}");
    ASSERT_TRUE(hostile.ok());
    for (const char* what : {"took longer than 5000 ms", "still busy"}) {
        const auto rendered = hostile->render(R"({"messages":[1,2]})", 0);
        ASSERT_FALSE(rendered.ok());
        EXPECT_EQ(rendered.error().code, ErrorCode::deadline_exceeded);
        EXPECT_NE(rendered.error().message.find(what), std::string::npos) << rendered.error().message;
    }
}

TEST(ChatTemplate, LargeInputsFitTheBudget) {
    const auto simple =
        ChatTemplate::compile("{% for m in messages %}{{ m.content | trim }}{{ m | tojson }}{% endfor %}");
    ASSERT_TRUE(simple.ok());
    json::array messages;
    for (int i = 0; i < 100; ++i) messages.push_back(json::object{{"content", std::string(100'000, 'x')}});
    const auto text = simple->render(json::serialize(json::object{{"messages", std::move(messages)}}), 0);
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_GT(text->size(), 20'000'000u);
}

}  // namespace
}  // namespace deepinfer::recipe
