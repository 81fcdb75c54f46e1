// Speed of the codec: texts -> token ids on one thread, and sampled tokens -> events of the three protocols. Prints one JSON
// object; bench/codec.py runs it beside others.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "api/answer_stream.h"
#include "base/json.h"
#include "recipe/deepseek_output.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace deepinfer;
namespace json = boost::json;

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr size_t streamed_tokens = 20'000;
constexpr const char* call_opening =
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"k\" string=\"true\">";

// Seconds for all tokens, `at_once` of them in a push, events taken as JSON texts after each.
double stream(const tokenizer::Tokenizer& tokenizer, const std::string& protocol, const std::string& kind,
              const std::vector<TokenId>& tokens, size_t at_once) {
    api::AnswerSetting setting;
    setting.header = {.id = "resp-1", .created = 0, .model = "m"};
    setting.thinks = kind == "reasoning";
    setting.first = setting.thinks ? recipe::FirstStage::reasoning : recipe::FirstStage::content;
    setting.call_ids = [](size_t index, bool) {
        return api::tool_call_id(index, false, "01234567890123456789");
    };
    const recipe::OutputOptions output{
        .first = setting.first, .parse_calls = kind == "arguments", .stops = {}};
    std::unique_ptr<api::AnswerEvents> events = protocol == "chat" ? api::chat_events(setting, {})
                                                : protocol == "responses"
                                                    ? api::responses_events(setting, {}, {})
                                                    : api::messages_events(setting, "");
    api::AnswerStream answer(std::move(events), std::make_unique<recipe::DeepSeekOutput>(output), &tokenizer,
                             {.thinks = setting.thinks});
    answer.ready(100, 0, std::nullopt);
    if (kind == "arguments")
        (void)answer.push_tokens(tokenizer.encode(call_opening, tokenizer::Special::parse), {});
    answer.take();
    std::vector<std::vector<TokenId>> pushes;
    for (size_t i = 0; i < tokens.size(); i += at_once)
        pushes.emplace_back(tokens.begin() + static_cast<ptrdiff_t>(i),
                            tokens.begin() + static_cast<ptrdiff_t>(std::min(i + at_once, tokens.size())));
    size_t bytes = 0;
    const Clock::time_point start = Clock::now();
    for (const std::vector<TokenId>& push : pushes) {
        (void)answer.push_tokens(push, {});
        for (const api::ServerEvent& event : answer.take()) bytes += event.data.size();
    }
    answer.finish();
    for (const api::ServerEvent& event : answer.take()) bytes += event.data.size();
    const double seconds = since(start);
    return bytes > tokens.size() ? seconds : -1;  // the texts are needed
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "codec_bench TOKENIZER.json TEXT...\n");
        return 2;
    }
    const auto tokenizer = tokenizer::Tokenizer::from_json_file(argv[1]);
    if (!tokenizer) {
        std::fprintf(stderr, "codec_bench: %s\n", tokenizer.error().message.c_str());
        return 1;
    }
    json::object encoding, streaming;
    std::vector<TokenId> tokens;
    for (int i = 2; i < argc; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        const Clock::time_point start = Clock::now();
        const std::vector<TokenId> ids = (*tokenizer)->encode(text);
        encoding[argv[i]] =
            json::object{{"seconds", since(start)}, {"bytes", text.size()}, {"tokens", ids.size()}};
        if (tokens.empty()) tokens = ids;
    }
    while (!tokens.empty() && tokens.size() < streamed_tokens) {
        const std::vector<TokenId> more = tokens;
        tokens.insert(tokens.end(), more.begin(), more.end());
    }
    tokens.resize(std::min(tokens.size(), streamed_tokens));
    for (const char* protocol : {"chat", "messages", "responses"})
        for (const char* kind : {"content", "reasoning", "arguments"})
            for (const size_t at_once : {size_t{1}, size_t{64}})
                streaming[std::string(protocol) + " " + kind + " " + std::to_string(at_once)] =
                    stream(**tokenizer, protocol, kind, tokens, at_once) / static_cast<double>(tokens.size());
    std::printf("%s\n", json::serialize(json::object{{"encode", encoding}, {"stream", streaming}}).c_str());
    return 0;
}
