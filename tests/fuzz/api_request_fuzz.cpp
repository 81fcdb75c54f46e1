// Request bodies of every endpoint. The first byte chooses the endpoint, the rest is the body.
#include <cstdint>
#include <cstdlib>

#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/limits.h"
#include "base/json.h"

namespace {

using namespace deepinfer;

void require(bool condition) {
    if (!condition) std::abort();
}

void check_error(const api::ApiError& error) {
    require(error.status == 400);
    require(!error.message.empty() && error.message.size() < 4096);
    require(parse_json(api::to_json(error), "error").ok());
}

void check_options(const api::GenerationOptions& options) {
    const engine::SamplingParams& sampling = options.sampling;
    require(sampling.temperature >= 0 && sampling.temperature <= 2);
    require(sampling.top_p > 0 && sampling.top_p <= 1);
    require(sampling.min_p >= 0 && sampling.min_p <= 1);
    require(sampling.top_k >= 0);
    require(sampling.top_logprobs >= -1 && sampling.top_logprobs <= engine::max_top_logprobs);
    require(!options.max_tokens || *options.max_tokens >= 1);
    require(options.stop.size() <= api::limits::stop_strings);
    for (const std::string& stop : options.stop)
        require(!stop.empty() && stop.size() <= api::limits::stop_string_bytes);
    for (const TokenId id : sampling.stop_ids) require(id >= 0);
    require(options.stream || !options.include_usage);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
    switch (data[0] % 4) {
        case 0:
            if (const auto request = api::parse_chat_request(body)) {
                check_options(request->options);
                require(!request->conversation.messages.empty());
                for (const recipe::Message& message : request->conversation.messages)
                    require(message.content || !message.tool_calls.empty());
            } else {
                check_error(request.error());
            }
            break;
        case 1:
            if (const auto request = api::parse_completion_request(body)) {
                check_options(request->options);
                require(!request->prompts.empty() && request->prompts.size() <= api::limits::prompts);
                require(request->options.max_tokens.has_value());
            } else {
                check_error(request.error());
            }
            break;
        case 2:
            if (const auto request = api::parse_tokenize_request(body); !request)
                check_error(request.error());
            break;
        case 3:
            if (const auto request = api::parse_detokenize_request(body)) {
                for (const TokenId id : request->tokens) require(id >= 0);
            } else {
                check_error(request.error());
            }
            break;
    }
    return 0;
}
