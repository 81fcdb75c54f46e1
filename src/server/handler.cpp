#include "server/handler.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "api/chat_request.h"
#include "recipe/raw_prompt.h"

namespace deepinfer::server {
namespace {

struct Route {
    std::string_view path;
    std::string_view method;
    bool needs_key;
    bool slow = false;  // Handler::may_take_long()
};

// HEAD goes wherever GET goes. /metrics has rules of its own.
constexpr Route routes[] = {
    {"/health", "GET", false},
    {"/livez", "GET", false},
    {"/readyz", "GET", false},
    {"/metrics", "GET", true},
    {"/debug/trace", "GET", true, true},
    {"/v1/models", "GET", true},
    {"/v1/models/", "GET", true},  // a prefix: the rest is the name
    {"/v1/chat/completions", "POST", true, true},
    {"/v1/completions", "POST", true, true},
    {"/tokenize", "POST", true, true},
    {"/detokenize", "POST", true, true},
};

const Route* find_route(std::string_view path) {
    for (const Route& route : routes) {
        const bool is_prefix = route.path.ends_with('/');
        if (is_prefix ? path.starts_with(route.path) && path.size() > route.path.size() : path == route.path)
            return &route;
    }
    return nullptr;
}

bool is_json(std::string_view content_type) {
    std::string type(content_type.substr(0, content_type.find(';')));
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
    const size_t last = type.find_last_not_of(" \t");
    type.resize(last == std::string::npos ? 0 : last + 1);
    return type.empty() || type == "application/json" || type.ends_with("+json");
}

std::string percent_decoded(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        unsigned value = 0;
        if (text[i] == '%' && i + 2 < text.size() && std::isxdigit(static_cast<unsigned char>(text[i + 1])) &&
            std::isxdigit(static_cast<unsigned char>(text[i + 2]))) {
            std::sscanf(std::string(text.substr(i + 1, 2)).c_str(), "%2x", &value);
            out += static_cast<char>(value);
            i += 2;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::string_view bearer(std::string_view authorization) {
    constexpr std::string_view scheme = "bearer ";
    if (authorization.size() <= scheme.size()) return {};
    for (size_t i = 0; i < scheme.size(); ++i)
        if (std::tolower(static_cast<unsigned char>(authorization[i])) != scheme[i]) return {};
    authorization.remove_prefix(scheme.size());
    return authorization.substr(std::min(authorization.find_first_not_of(' '), authorization.size()));
}

std::string_view key_of(const RequestHead& head) {
    const std::string_view key = bearer(head.authorization);
    return key.empty() ? std::string_view(head.api_key) : key;
}

// An empty name means: whatever there is.
std::optional<HttpResponse> check_model(const std::string& asked, const ServedModel& model) {
    if (asked.empty() || asked == model.name) return std::nullopt;
    return error_response(api::model_not_found(asked.substr(0, 256), model.name));
}

HttpResponse no_chat_template() {
    return error_response(api::bad_request(
        "messages",
        "This model has no chat template, so messages have no form in it. Use /v1/completions with a prompt.",
        "no_chat_template"));
}

std::vector<TokenId> encode_text(const ServedModel& model, const std::string& text, bool add_special,
                                 bool parse_special) {
    return recipe::encode_raw_prompt(
        *model.tokenizer, text,
        {.add_bos = add_special,
         .special = parse_special ? tokenizer::Special::parse : tokenizer::Special::as_text});
}

std::optional<HttpResponse> check_tokens(const std::vector<TokenId>& tokens, const ServedModel& model,
                                         const std::string& path) {
    const int32_t size = model.engine->vocabulary_size();
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] >= 0 && tokens[i] < size) continue;
        return error_response(
            api::bad_request(path,
                             path + "[" + std::to_string(i) + "] is " + std::to_string(tokens[i]) +
                                 "; the vocabulary has the ids 0 to " + std::to_string(size - 1) + ".",
                             "invalid_value"));
    }
    return std::nullopt;
}

}  // namespace

bool Handler::may_take_long(const RequestHead& head) {
    const Route* route = find_route(head.path);
    return route && route->slow;
}

Handler::Handler(HandlerOptions options) : options_(std::move(options)) {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    random_.seed(seed);
}

uint64_t Handler::random() {
    const std::lock_guard lock(random_mutex_);
    return random_();
}

std::string Handler::new_id(const char* prefix) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%016llx%08llx", static_cast<unsigned long long>(random()),
                  static_cast<unsigned long long>(random() & 0xFFFFFFFF));
    return std::string(prefix) + digits;
}

void Handler::cancel_all() {
    if (const auto served = model()) served->engine->cancel_all();
}

std::shared_ptr<const ServedModel> Handler::model() const {
    const std::lock_guard lock(model_mutex_);
    return model_;
}

void Handler::set_model(std::shared_ptr<const ServedModel> model) {
    const std::lock_guard lock(model_mutex_);
    model_ = std::move(model);
}

std::optional<std::string> Handler::tenant(const RequestHead& head) const {
    return options_.keys.tenant(key_of(head));
}

std::optional<HttpResponse> Handler::check_access(const RequestHead& head) const {
    const std::string_view key = key_of(head);
    if (head.path == "/metrics" && options_.metrics_key) {
        if (options_.metrics_key->tenant(key) || (options_.keys.required() && options_.keys.tenant(key)))
            return std::nullopt;
    } else if (options_.keys.tenant(key)) {
        return std::nullopt;
    }
    return error_response(api::unauthorized(!key.empty()));
}

std::optional<HttpResponse> Handler::check(const RequestHead& head) const {
    const Route* route = find_route(head.path);
    const std::string allowed = !route ? "" : route->method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    if (head.method == "OPTIONS" && (route || head.path == "*")) {
        HttpResponse response{.status = 204, .content_type = ""};
        response.headers.emplace_back("Allow", route ? allowed : "GET, HEAD, POST, OPTIONS");
        if (!options_.cors_origin.empty()) {
            response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
            response.headers.emplace_back("Access-Control-Allow-Headers",
                                          "Authorization, Content-Type, X-Api-Key");
            response.headers.emplace_back("Access-Control-Max-Age", "600");
        }
        return response;
    }
    // The key first: without one, paths tell nothing.
    if (!route || route->needs_key) {
        if (std::optional<HttpResponse> refused = check_access(head)) return refused;
    }
    if (!route)
        return error_response({.status = 404,
                               .message = "There is no " + head.path.substr(0, 256) + " here.",
                               .code = "unknown_url"});
    const bool fits = head.method == route->method || (head.method == "HEAD" && route->method == "GET");
    if (!fits) {
        HttpResponse response =
            error_response({.status = 405,
                            .message = head.path.substr(0, 256) + " takes " + std::string(route->method) +
                                       ", not " + head.method.substr(0, 32) + ".",
                            .code = "method_not_allowed"});
        response.headers.emplace_back("Allow", allowed);
        return response;
    }
    if (route->method == "POST") {
        if (!is_json(head.content_type))
            return error_response(
                {.status = 415,
                 .message = "The body must be JSON: send 'Content-Type: application/json', not '" +
                            head.content_type.substr(0, 128) + "'.",
                 .code = "unsupported_media_type"});
        if (!head.has_body)
            return error_response({.status = 411,
                                   .message = "The request needs a body, with Content-Length or chunked.",
                                   .code = "length_required"});
    }
    return std::nullopt;
}

void Handler::add_common_headers(const RequestHead& head, HttpResponse& response) const {
    if (options_.cors_origin.empty() || head.origin.empty()) return;
    if (options_.cors_origin != "*" && options_.cors_origin != head.origin) return;
    response.headers.emplace_back("Access-Control-Allow-Origin", options_.cors_origin);
    response.headers.emplace_back("Vary", "Origin");
}

std::optional<HttpResponse> Handler::check_ready(const ServedModel* model) const {
    if (draining_) return error_response(api::unavailable("The server is shutting down."));
    if (!model) return error_response(api::unavailable("The model is being loaded."));
    return std::nullopt;
}

Reply Handler::handle(const RequestHead& head, const std::string& body, Wake wake) {
    try {
        return dispatch(head, body, std::move(wake));
    } catch (const std::exception& error) {
        return error_response(api::internal_error(std::string("The server failed: ") + error.what()));
    }
}

Reply Handler::dispatch(const RequestHead& head, const std::string& body, Wake wake) {
    if (head.path == "/health" || head.path == "/livez") return HttpResponse{.body = R"({"status":"ok"})"};
    const std::shared_ptr<const ServedModel> served = model();
    if (head.path == "/metrics")
        return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                            .body = metrics_.print(served ? served->engine.get() : nullptr)};
    if (std::optional<HttpResponse> refused = check_ready(served.get())) return std::move(*refused);
    if (head.path == "/readyz") return HttpResponse{.body = R"({"status":"ok"})"};
    if (head.path == "/debug/trace") {
        if (!served->trace)
            return error_response(
                {.status = 404,
                 .message = "The engine's steps are not recorded: start the server with --trace.",
                 .code = "not_recorded"});
        return HttpResponse{.body = served->trace->json()};
    }
    const int32_t context = served->engine->context_length();
    if (head.path == "/v1/models")
        return HttpResponse{.body = api::models_body(served->name, served->created, context)};
    if (constexpr std::string_view models = "/v1/models/"; head.path.starts_with(models)) {
        const std::string name = percent_decoded(std::string_view(head.path).substr(models.size()));
        if (name != served->name)
            return error_response(api::model_not_found(name.substr(0, 256), served->name));
        return HttpResponse{.body = api::model_body(served->name, served->created, context)};
    }
    if (head.path == "/tokenize") return tokenize(*served, body);
    if (head.path == "/detokenize") return detokenize(*served, body);
    std::string who = tenant(head).value_or("");
    if (head.path == "/v1/completions") return completions(served, body, std::move(who), std::move(wake));
    return chat(served, body, std::move(who), std::move(wake));
}

Reply Handler::start(const std::shared_ptr<const ServedModel>& model, GenerationRequest request, Wake wake) {
    const bool is_chat = request.header.dialect == api::Dialect::chat;
    request.header.id = new_id(is_chat ? "chatcmpl-" : "cmpl-");
    request.header.created = std::time(nullptr);
    request.header.model = model->name;
    request.max_backlog_tokens = options_.max_backlog_tokens;
    if (!request.options.seed) request.options.seed = random();
    if (!request.options.retention) request.options.retention = options_.retention;
    if (const double longest = options_.longest_timeout; longest > 0)
        request.options.timeout = std::min(request.options.timeout.value_or(longest), longest);
    const engine::SamplingParams& sampling = request.options.sampling;
    if (auto refused = check_tokens(sampling.stop_ids, *model, "stop_token_ids")) return *refused;
    for (const engine::LogitBias& bias : sampling.logit_bias)
        if (bias.token >= model->engine->vocabulary_size())
            return error_response(api::bad_request("logit_bias",
                                                   "'logit_bias' has token " + std::to_string(bias.token) +
                                                       "; the vocabulary has the ids 0 to " +
                                                       std::to_string(model->engine->vocabulary_size() - 1) +
                                                       ".",
                                                   "invalid_value"));
    api::Outcome<std::unique_ptr<Generation>> started =
        Generation::start(model, std::move(request), metrics_, std::move(wake));
    if (!started) {
        api::ApiError error = started.error();
        if (error.code == "context_length_exceeded") error.param = is_chat ? "messages" : "prompt";
        return error_response(error);
    }
    return std::move(*started);
}

Reply Handler::chat(const std::shared_ptr<const ServedModel>& model, const std::string& body,
                    std::string tenant, Wake wake) {
    api::Outcome<api::ChatRequest> request = api::parse_chat_request(body);
    if (!request) return error_response(request.error());
    if (auto refused = check_model(request->model, *model)) return *refused;
    if (!model->chat_format) return no_chat_template();
    Result<std::vector<TokenId>> prompt = model->chat_format->encode(
        request->conversation,
        {.add_generation_prompt = request->add_generation_prompt, .unix_seconds = std::time(nullptr)});
    if (!prompt)
        return error_response(api::bad_request(
            "messages", "The model's chat template refuses these messages: " + prompt.error().message,
            "invalid_messages"));
    if (prompt->empty())
        return error_response(
            api::bad_request("messages", "These messages make an empty prompt.", "invalid_messages"));
    GenerationRequest generation;
    generation.header.dialect = api::Dialect::chat;
    generation.options = std::move(request->options);
    generation.tenant = std::move(tenant);
    generation.prompts.push_back(std::move(*prompt));
    return start(model, std::move(generation), std::move(wake));
}

Reply Handler::completions(const std::shared_ptr<const ServedModel>& model, const std::string& body,
                           std::string tenant, Wake wake) {
    api::Outcome<api::CompletionRequest> request = api::parse_completion_request(body);
    if (!request) return error_response(request.error());
    if (auto refused = check_model(request->model, *model)) return *refused;
    GenerationRequest generation;
    generation.header.dialect = api::Dialect::completions;
    generation.options = std::move(request->options);
    generation.tenant = std::move(tenant);
    generation.echoes_special = request->parse_special_tokens;
    for (const api::Prompt& prompt : request->prompts) {
        if (const auto* text = std::get_if<std::string>(&prompt)) {
            generation.prompts.push_back(
                encode_text(*model, *text, request->add_special_tokens, request->parse_special_tokens));
            if (request->echo) generation.echoes.push_back(*text);
        } else {
            const auto& tokens = std::get<std::vector<TokenId>>(prompt);
            if (auto refused = check_tokens(tokens, *model, "prompt")) return *refused;
            generation.prompts.push_back(tokens);
            if (request->echo) generation.echoes.push_back(model->tokenizer->decode(tokens));
        }
        if (generation.prompts.back().empty())
            return error_response(api::bad_request(
                "prompt", "The prompt has no tokens; the model needs at least one.", "invalid_value"));
    }
    return start(model, std::move(generation), std::move(wake));
}

HttpResponse Handler::tokenize(const ServedModel& model, const std::string& body) const {
    api::Outcome<api::TokenizeRequest> request = api::parse_tokenize_request(body);
    if (!request) return error_response(request.error());
    if (auto refused = check_model(request->model, model)) return *refused;
    std::vector<TokenId> tokens;
    if (const auto* text = std::get_if<std::string>(&request->input)) {
        tokens = encode_text(model, *text, request->add_special_tokens, request->parse_special_tokens);
    } else {
        if (!model.chat_format) return no_chat_template();
        Result<std::vector<TokenId>> prompt = model.chat_format->encode(
            std::get<recipe::Conversation>(request->input),
            {.add_generation_prompt = request->add_generation_prompt, .unix_seconds = std::time(nullptr)});
        if (!prompt) return error_response(api::from_error(prompt.error()));
        tokens = std::move(*prompt);
    }
    std::vector<std::string> texts;
    if (request->return_token_strings)
        for (const TokenId token : tokens) texts.push_back(model.tokenizer->token_bytes(token, true));
    return {.body = api::tokenize_body(tokens, request->return_token_strings ? &texts : nullptr,
                                       model.engine->context_length())};
}

HttpResponse Handler::detokenize(const ServedModel& model, const std::string& body) const {
    api::Outcome<api::DetokenizeRequest> request = api::parse_detokenize_request(body);
    if (!request) return error_response(request.error());
    if (auto refused = check_model(request->model, model)) return *refused;
    if (auto refused = check_tokens(request->tokens, model, "tokens")) return *refused;
    return {.body = api::detokenize_body(model.tokenizer->decode(request->tokens, true))};
}

}  // namespace deepinfer::server
