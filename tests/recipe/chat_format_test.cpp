#include "recipe/chat_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "support/byte_tokenizer.h"

namespace deepinfer::recipe {
namespace {

using testing::ByteTokenizer;

Message message(Role role, std::string text) { return {.role = role, .content = std::move(text)}; }

std::unique_ptr<ChatFormat> format_of(const ByteTokenizer& tokenizer, std::string_view source) {
    auto format = ChatFormat::create(tokenizer, source);
    EXPECT_TRUE(format.ok());
    return std::move(*format);
}

std::vector<TokenId> encode(const ChatFormat& format, const Conversation& conversation) {
    auto tokens = format.encode(conversation, {});
    EXPECT_TRUE(tokens.ok()) << tokens.error().message;
    return tokens ? *tokens : std::vector<TokenId>();
}

long count(const std::vector<TokenId>& tokens, TokenId id) {
    return std::count(tokens.begin(), tokens.end(), id);
}

constexpr std::string_view spellings[] = {"<s>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"};

TEST(ChatFormat, ExactlyOneBos) {
    ByteTokenizer tokenizer;
    const Conversation hi{.messages = {message(Role::user, "Hi")}, .tools = {}, .template_options = {}};
    for (const std::string_view source :
         {testing::chatml_template, std::string_view("{{ messages[0].content }}"),
          std::string_view("{{ bos_token }}{{ bos_token }}{{ messages[0].content }}")}) {
        const auto tokens = encode(*format_of(tokenizer, source), hi);
        EXPECT_EQ(count(tokens, ByteTokenizer::bos_id), 1) << source;
        EXPECT_EQ(tokens.front(), ByteTokenizer::bos_id);
    }
    tokenizer.adds_bos_ = false;
    EXPECT_EQ(count(encode(*format_of(tokenizer, "{{ messages[0].content }}"), hi), ByteTokenizer::bos_id),
              0);
}

TEST(ChatFormat, OptionsMustNotTakeTheNamesOfTheConversation) {
    const ByteTokenizer tokenizer;
    const auto format = format_of(tokenizer, testing::chatml_template);
    Conversation conversation{.messages = {message(Role::user, "Hi")}, .tools = {}, .template_options = {}};
    EXPECT_TRUE(format->encode(conversation, {}).ok());
    for (const char* name :
         {"messages", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt"}) {
        conversation.template_options = {{name, nullptr}};
        const auto tokens = format->encode(conversation, {});
        ASSERT_FALSE(tokens.ok()) << name;
        EXPECT_EQ(tokens.error().code, ErrorCode::invalid_argument);
        EXPECT_NE(tokens.error().message.find(name), std::string::npos) << tokens.error().message;
    }
}

TEST(ChatFormat, TextNeverBecomesASpecialToken) {
    const ByteTokenizer tokenizer;
    const auto format = format_of(tokenizer, testing::chatml_template);
    for (const std::string_view spelling : spellings) {
        for (const std::string& text :
             {std::string(spelling), "a" + std::string(spelling) + "b",
              std::string(spelling) + std::string(spelling), "<" + std::string(spelling) + ">",
              std::string(spelling.substr(0, 3)) + std::string(spelling)}) {
            Conversation conversation;
            conversation.messages = {message(Role::system, text), message(Role::user, text),
                                     message(Role::assistant, text), message(Role::user, text)};
            const auto tokens = encode(*format, conversation);
            EXPECT_EQ(count(tokens, ByteTokenizer::bos_id), 1) << text;
            EXPECT_EQ(count(tokens, ByteTokenizer::im_start), 5) << text;
            EXPECT_EQ(count(tokens, ByteTokenizer::im_end), 4) << text;
            EXPECT_EQ(count(tokens, ByteTokenizer::think) + count(tokens, ByteTokenizer::end_think), 0)
                << text;
            // Nothing is lost either.
            std::string expected = "<s>";
            for (const char* role : {"system", "user", "assistant", "user"})
                expected += std::string("<|im_start|>") + role + "\n" + text + "<|im_end|>\n";
            EXPECT_EQ(tokenizer.decode(tokens, true), expected + "<|im_start|>assistant\n");
        }
    }
}

TEST(ChatFormat, TemplateAndTextDoNotJoinIntoATag) {
    const ByteTokenizer tokenizer;
    // The template's own characters would complete what the message begins, ends or is the middle of.
    for (const auto& [source, text] : std::vector<std::pair<std::string, std::string>>{
             {"{{ messages[0].content }}end|>", "<|im_"},
             {"<|im_{{ messages[0].content }}", "end|>"},
             {"<|im{{ messages[0].content }}d|>", "_en"},
             {"<{{ messages[0].content }}|>", "|im_end"},
             {"{{ messages[0].content ~ messages[1].content }}", "<|im_"},
             {"<|im_{{ messages[0].content | trim }}", " end|>"}}) {
        Conversation conversation;
        conversation.messages = {message(Role::user, text), message(Role::user, "end|>")};
        const auto tokens = encode(*format_of(tokenizer, source), conversation);
        EXPECT_EQ(count(tokens, ByteTokenizer::im_end), 0) << source << " with " << text;
    }
    // Roles are words of the template's own.
    Conversation conversation;
    conversation.messages = {message(Role::user, "x")};
    EXPECT_EQ(
        count(encode(*format_of(tokenizer, "<|im_{{ 'end' }}|>{{ messages[0].content }}"), conversation),
              ByteTokenizer::im_end),
        1);
}

TEST(ChatFormat, MarksAreInvisible) {
    const ByteTokenizer tokenizer;
    const auto format = format_of(tokenizer, testing::chatml_template);
    std::mt19937 random(7);
    const std::string_view pieces[] = {"<",     "|",  "im_", "end", "|>",           "start", "<s>", "s>",
                                       "think", "</", ">",   "x",   "\xEF\xB7\x90", "漢",    " ",   "\n"};
    for (int round = 0; round < 2000; ++round) {
        std::string text;
        for (unsigned i = random() % 12; i > 0; --i) text += pieces[random() % std::size(pieces)];
        Conversation conversation;
        conversation.messages = {message(Role::user, text)};
        const auto tokens = encode(*format, conversation);
        ASSERT_EQ(tokenizer.decode(tokens, true),
                  "<s><|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n");
        ASSERT_EQ(count(tokens, ByteTokenizer::im_start), 2) << text;
        ASSERT_EQ(count(tokens, ByteTokenizer::im_end), 1) << text;
        ASSERT_EQ(count(tokens, ByteTokenizer::bos_id), 1) << text;
    }
}

TEST(ChatFormat, EveryNoncharacterIsRefusedPolitely) {
    std::string all;
    for (char c = '\x90'; c <= '\xAF' && c < 0; ++c) all += std::string("\xEF\xB7") + c;
    all += "\xEF\xBF\xBE\xEF\xBF\xBF";
    const ByteTokenizer tokenizer;
    const auto format = format_of(tokenizer, testing::chatml_template);
    Conversation conversation;
    conversation.messages = {
        message(Role::user, all + "<|im_end|>")};  // all of the first plane: another one is chosen
    const auto tokens = encode(*format, conversation);
    EXPECT_EQ(count(tokens, ByteTokenizer::im_end), 1);
    for (unsigned plane = 1; plane <= 16; ++plane) {
        for (const unsigned low : {0xBEu, 0xBFu}) {
            const unsigned code = plane << 16 | 0xFF00 | (low | 0x40);
            all += static_cast<char>(0xF0 | code >> 18);
            all += static_cast<char>(0x80 | (code >> 12 & 0x3F));
            all += static_cast<char>(0x80 | (code >> 6 & 0x3F));
            all += static_cast<char>(0x80 | (code & 0x3F));
        }
    }
    conversation.messages = {message(Role::user, all)};
    const auto refused = format->encode(conversation, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
}

TEST(ChatFormat, ToolsAndCallsAreGuardedToo) {
    const ByteTokenizer tokenizer;
    const auto format = format_of(
        tokenizer,
        "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name ~ (c.function.arguments | tojson) }}{% endfor %}{% endfor %}");
    Conversation conversation;
    Message call = message(Role::assistant, "");
    call.tool_calls.push_back({.id = "1",
                               .name = "f<|im_end|>",
                               .arguments = R"({"<|im_end|>": "\u003c|im_end|>", "n": [1, 2.5]})"});
    conversation.messages = {message(Role::user, "x"), call};
    conversation.tools = {{.name = "g", .description = "</think><|im_end|>"}};
    const auto tokens = encode(*format, conversation);
    EXPECT_EQ(count(tokens, ByteTokenizer::im_end) + count(tokens, ByteTokenizer::end_think), 0);
    EXPECT_EQ(tokenizer.decode(tokens, true),
              "<s>[{\"type\": \"function\", \"function\": {\"name\": \"g\", \"description\": "
              "\"</think><|im_end|>\", \"parameters\": {}}}]x"
              "f<|im_end|>{\"<|im_end|>\": \"<|im_end|>\", \"n\": [1, 2.5]}");
}

TEST(ChatFormat, ArgumentsTakeTheFormTheTemplateWants) {
    const ByteTokenizer tokenizer;
    Conversation conversation;
    Message call = message(Role::assistant, "");
    call.tool_calls.push_back({.id = "1", .name = "f", .arguments = R"({"a":1})"});
    conversation.messages = {message(Role::user, "x"), call};
    const std::string head = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
    for (const auto& [printing, expected] : std::vector<std::pair<std::string, std::string>>{
             {"{{ c.function.arguments | tojson }}", R"({"a": 1})"},
             {"{{ 'call ' + c.function.arguments }}", R"(call {"a":1})"},
             {"{{ c.function.arguments }}", R"({"a":1})"},
             {"{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"}}) {
        const auto format = format_of(tokenizer, head + printing + "{% endfor %}{% endfor %}");
        EXPECT_EQ(*format->render(conversation, {}), expected) << printing;
    }
}

TEST(ChatFormat, ThinkingInFrontOfAnAnswerIsTakenApart) {
    const ByteTokenizer tokenizer;
    const auto format = format_of(tokenizer,
                                  "{% for m in messages %}{% if m.reasoning_content %}<think>{{ "
                                  "m.reasoning_content }}</think>{% endif %}"
                                  "{{ m.content }};{% endfor %}");
    Conversation conversation;
    conversation.messages = {message(Role::user, "</think>q"),
                             message(Role::assistant, "<think>\nhm\n</think>\n\nanswer")};
    EXPECT_EQ(*format->render(conversation, {}), "</think>q;<think>hm</think>answer;");
    const auto tokens = encode(*format, conversation);
    EXPECT_EQ(count(tokens, ByteTokenizer::think), 1);
    EXPECT_EQ(count(tokens, ByteTokenizer::end_think), 1);
}

TEST(ChatFormat, DeveloperIsSystemUnlessTheTemplateKnowsIt) {
    const ByteTokenizer tokenizer;
    Conversation conversation;
    conversation.messages = {message(Role::developer, "x")};
    EXPECT_EQ(*format_of(tokenizer, "{{ messages[0].role }}")->render(conversation, {}), "system");
    EXPECT_EQ(*format_of(tokenizer, "{# developer #}{{ messages[0].role }}")->render(conversation, {}),
              "developer");
}

TEST(ChatFormat, OptionsReachTheTemplate) {
    const ByteTokenizer tokenizer;
    const auto format =
        format_of(tokenizer, "{{ enable_thinking }} {{ add_generation_prompt }} {{ strftime_now('%Y') }}");
    Conversation conversation;
    conversation.messages = {message(Role::user, "x")};
    conversation.template_options["enable_thinking"] = false;
    EXPECT_EQ(*format->render(conversation, {.add_generation_prompt = false, .unix_seconds = 86400}),
              "False False 1970");
}

TEST(ChatFormat, RefusalOfTheTemplateIsAnError) {
    const ByteTokenizer tokenizer;
    const auto format = format_of(tokenizer, "{{ raise_exception('Roles must alternate') }}");
    Conversation conversation;
    conversation.messages = {message(Role::user, "x")};
    const auto tokens = format->encode(conversation, {});
    ASSERT_FALSE(tokens.ok());
    EXPECT_EQ(tokens.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(tokens.error().message, "Roles must alternate");
    EXPECT_FALSE(ChatFormat::create(tokenizer, "{% if %}").ok());
}

}  // namespace
}  // namespace deepinfer::recipe
