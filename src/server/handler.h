// What each route does. Knows no socket: a head and a body in, an answer or a running Generation out.
//
// Threads: any number may call at once.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <variant>

#include "server/auth.h"
#include "server/generation.h"
#include "server/http_message.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace deepinfer::server {

using Reply = std::variant<HttpResponse, std::unique_ptr<Generation>>;

struct HandlerOptions {
    ApiKeys keys;
    std::optional<ApiKeys> metrics_key;  // an extra key that opens /metrics, and nothing else
    size_t max_backlog_tokens =
        8192;  // produced but not taken by a slow reader; beyond, the answer is given up
    engine::Retention retention = engine::Retention::chat;  // of requests that do not say
    double longest_timeout = 0;  // seconds until a request that is not done is given up; 0: as it asks itself
    std::string cors_origin;     // "*" or one origin that browsers may call from; empty: none
};

class Handler {
  public:
    explicit Handler(HandlerOptions options);

    // Everything that can be decided before the body is read: path, method, key, content type. An answer
    // means: do not read the body.
    std::optional<HttpResponse> check(const RequestHead& head) const;
    // Answers a request that check() let pass. Not on an I/O thread if it may take long.
    Reply handle(const RequestHead& head, const std::string& body, Wake wake);
    // Whether handle() parses, renders and tokenises, as for requests with a body, or writes megabytes. The others are answered
    // in microseconds, and must be while those wait for each other.
    static bool may_take_long(const RequestHead& head);
    // Headers for every answer.
    void add_common_headers(const RequestHead& head, HttpResponse& response) const;

    // The model to serve; before, inference gets 503.
    void set_model(std::shared_ptr<const ServedModel> model);
    // From now on /readyz says 503 and new inference is refused.
    void begin_drain() { draining_ = true; }
    bool draining() const { return draining_; }
    // Ends what still runs; its clients are told.
    void cancel_all();

    Metrics& metrics() { return metrics_; }
    std::string new_id(const char* prefix);  // "chatcmpl-" + 24 hexadecimal digits

  private:
    std::shared_ptr<const ServedModel> model() const;
    std::optional<std::string> tenant(const RequestHead& head) const;
    std::optional<HttpResponse> check_access(const RequestHead& head) const;
    Reply dispatch(const RequestHead& head, const std::string& body, Wake wake);
    std::optional<HttpResponse> check_ready(const ServedModel* model) const;
    Reply chat(const std::shared_ptr<const ServedModel>& model, const std::string& body, std::string tenant,
               Wake wake);
    Reply completions(const std::shared_ptr<const ServedModel>& model, const std::string& body,
                      std::string tenant, Wake wake);
    HttpResponse tokenize(const ServedModel& model, const std::string& body) const;
    HttpResponse detokenize(const ServedModel& model, const std::string& body) const;
    Reply start(const std::shared_ptr<const ServedModel>& model, GenerationRequest request, Wake wake);
    uint64_t random();

    HandlerOptions options_;
    Metrics metrics_;
    std::atomic<bool> draining_{false};
    mutable std::mutex model_mutex_;
    std::shared_ptr<const ServedModel> model_;
    std::mutex random_mutex_;
    std::mt19937_64 random_;
};

}  // namespace deepinfer::server
