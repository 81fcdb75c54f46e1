// Errors as the protocols show them: an HTTP status and a JSON body that the official SDKs turn into their
// exceptions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/result.h"

namespace deepinfer::api {

struct ApiError {
    int status = 400;
    std::string message;                         // what was wrong and what would be right, for a person
    std::string type = "invalid_request_error";  // as OpenAI names kinds of errors
    std::string param = {};                      // the field ("messages[2].content"); empty: null
    std::string code = {};                       // for programs ("context_length_exceeded"); empty: null
    int retry_after = 1;                         // seconds, told with 429 and 503
};

// {"error":{"message":…,"type":…,"param":…,"code":…}}
std::string to_json(const ApiError& error);

ApiError bad_request(std::string param, std::string message, std::string code = {});  // 400
ApiError context_length_exceeded(size_t prompt_tokens, size_t context_length);        // 400
ApiError model_not_found(const std::string& model, const std::string& served);        // 404
ApiError unauthorized(bool key_given);                                                // 401
ApiError too_many_requests(std::string message);                                      // 429
ApiError unavailable(std::string message);                                            // 503
ApiError internal_error(std::string message);                                         // 500
ApiError from_error(const Error& error);                                              // by its code

// A value, or the error to answer with.
template <class T>
class [[nodiscard]] Outcome {
  public:
    Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Outcome(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}
    explicit operator bool() const { return state_.index() == 0; }
    T& operator*() & { return *std::get_if<0>(&state_); }
    const T& operator*() const& { return *std::get_if<0>(&state_); }
    T* operator->() { return std::get_if<0>(&state_); }
    const T* operator->() const { return std::get_if<0>(&state_); }
    const ApiError& error() const { return *std::get_if<1>(&state_); }

  private:
    std::variant<T, ApiError> state_;
};

}  // namespace deepinfer::api
