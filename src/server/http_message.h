// Requests and answers of HTTP as plain values: what the handlers see, so that only connection.cpp knows the
// library.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/error.h"

namespace deepinfer::server {

// The header of a request, before its body is read.
struct RequestHead {
    std::string method;  // "GET"
    std::string path;    // "/v1/models", without the query
    std::string authorization;
    std::string api_key;  // header x-api-key
    std::string content_type;
    std::string origin;
    bool has_body = false;
};

struct HttpResponse {
    int status = 200;
    std::string content_type = "application/json";
    std::string body = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
};

const char* reason_phrase(int status);

// With Retry-After where the error passes by itself.
HttpResponse error_response(const api::ApiError& error);

}  // namespace deepinfer::server
