// An answer with thinking and tool calls in the words of one protocol: as a stream of events, and as one object at the end.
//
// The caller gives what the model's output was taken apart into; the order of calls is start, any number of add, end. No I/O,
// no clock, no randomness: ids and times are given.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/response.h"
#include "api/tools.h"
#include "recipe/output_options.h"
#include "recipe/output_parser.h"

namespace deepinfer::api {

struct AnswerHeader {
    std::string id;
    int64_t created = 0;  // Unix seconds
    std::string model;
};

struct AnswerUsage {
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;  // of the prompt
    int64_t completion_tokens = 0;
    std::optional<int64_t> reasoning_tokens;  // of the completion; nothing: it does not think
};

enum class AnswerReason { stop, stop_sequence, tool_calls, length, content_filter };

// One server-sent event. The name is empty where the protocol has none.
struct ServerEvent {
    std::string name;
    std::string data;  // JSON
};

class AnswerEvents {
  public:
    virtual ~AnswerEvents() = default;

    // `usage`: what is known of the prompt. `fingerprint`: of the system; nothing: unknown.
    virtual void start(const AnswerUsage& usage, const std::optional<std::string>& fingerprint) = 0;
    virtual void add(const recipe::OutputEvent& event, const std::vector<TokenLogprobs>& logprobs) = 0;
    // `stop`: the stop string that ended it.
    virtual void end(AnswerReason reason, const std::optional<std::string>& stop,
                     const AnswerUsage& usage) = 0;
    // After end(): the whole answer, as who did not ask for a stream gets it.
    virtual std::string whole() const = 0;
    // Chat Completions: the answer as one of several.
    virtual std::string choice(int32_t index) const { return (void)index, std::string(); }

    std::vector<ServerEvent> take() { return std::exchange(events_, {}); }

  protected:
    void send(std::string name, std::string data) { events_.push_back({std::move(name), std::move(data)}); }

  private:
    std::vector<ServerEvent> events_;
};

// Gives the id of the next tool call. `thought`: the model has thought before.
using CallIds = std::function<std::string(size_t index, bool thought)>;

struct AnswerSetting {
    AnswerHeader header;
    bool thinks = false;
    recipe::FirstStage first = recipe::FirstStage::content;
    bool logprobs = false;
    CallIds call_ids;
};

struct ChatStyle {
    // As the official DeepSeek service words chunks: usage in the last one, content and reasoning_content side by side. Else as
    // OpenAI does; usage has a chunk of its own, which is not of a choice.
    bool official = false;
    bool null_usage = false;  // chunks without usage carry it as null
    int32_t index = 0;        // of the choice
};
std::unique_ptr<AnswerEvents> chat_events(AnswerSetting setting, ChatStyle style);
// Messages. `signature`: of the thinking; empty: the answer's id.
std::unique_ptr<AnswerEvents> messages_events(AnswerSetting setting, std::string signature);
// Responses. `request`: what was asked, of which the answer repeats parts.
std::unique_ptr<AnswerEvents> responses_events(AnswerSetting setting, const boost::json::object& request,
                                               ToolOrigins origins);

// An id as the official service gives them: call_NN_, a mark if the model did not think, 20 letters and digits from `random`,
// and four digits that are a hash of the others. `random`: any 20 letters and digits.
std::string tool_call_id(size_t index, bool unthought, const std::string& random);
bool is_tool_call_id(const std::string& id);

}  // namespace deepinfer::api
