#include "api/error.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace deepinfer::api {

namespace json = boost::json;

std::string to_json(const ApiError& error) {
    const auto or_null = [](const std::string& text) {
        return text.empty() ? json::value(nullptr) : json::value(text);
    };
    const json::object body{{"message", error.message},
                            {"type", error.type},
                            {"param", or_null(error.param)},
                            {"code", or_null(error.code)}};
    return json::serialize(json::object{{"error", body}});
}

ApiError bad_request(std::string param, std::string message, std::string code) {
    return {.status = 400, .message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

ApiError context_length_exceeded(size_t prompt_tokens, size_t context_length) {
    return bad_request(
        "messages",
        "The prompt has " + std::to_string(prompt_tokens) + " tokens, but the context has " +
            std::to_string(context_length) +
            ", of which the answer needs at least one. Shorten the prompt, or start the server with a "
            "larger --context.",
        "context_length_exceeded");
}

ApiError model_not_found(const std::string& model, const std::string& served) {
    return {.status = 404,
            .message = "The model '" + model + "' does not exist. This server has '" + served + "'.",
            .param = "model",
            .code = "model_not_found"};
}

ApiError unauthorized(bool key_given) {
    return {
        .status = 401,
        .message = key_given
                       ? "Incorrect API key provided."
                       : "You didn't provide an API key. Send it in the header 'Authorization: Bearer KEY'.",
        .type = "authentication_error",
        .code = "invalid_api_key"};
}

ApiError too_many_requests(std::string message) {
    return {.status = 429,
            .message = std::move(message),
            .type = "rate_limit_error",
            .code = "rate_limit_exceeded"};
}

ApiError unavailable(std::string message) {
    return {.status = 503,
            .message = std::move(message),
            .type = "service_unavailable_error",
            .code = "unavailable"};
}

ApiError internal_error(std::string message) {
    return {.status = 500, .message = std::move(message), .type = "server_error", .code = "internal_error"};
}

ApiError from_error(const Error& error) {
    switch (error.code) {
        case ErrorCode::invalid_argument:
        case ErrorCode::unsupported:
        case ErrorCode::corrupt_data:
            return bad_request("", error.message);
        case ErrorCode::not_found:
            return {.status = 404, .message = error.message, .code = "not_found"};
        case ErrorCode::resource_exhausted: {
            ApiError result = too_many_requests(error.message);
            result.retry_after = static_cast<int>(std::clamp(std::ceil(error.retry_after), 1.0, 3600.0));
            return result;
        }
        case ErrorCode::cancelled:
            return unavailable(error.message);
        case ErrorCode::deadline_exceeded:
            return {.status = 504,
                    .message = error.message,
                    .type = "timeout_error",
                    .code = "deadline_exceeded"};
        case ErrorCode::io_error:
        case ErrorCode::internal:
            break;
    }
    return internal_error(error.message);
}

}  // namespace deepinfer::api
