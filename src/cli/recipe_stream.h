// One recorded stream of the official codec, compared with ours.
#pragma once

#include <string>

#include "api/official_codec.h"
#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {

struct PlayedAnswer {
    std::string response_id;
    std::string body;            // of the request
    std::string signature = {};  // of the thinking (Messages); empty: as the service makes it
};

// Plays the recorded output (texts, or tokens with log probabilities) into an answer to the recorded request.
class StreamPlayer {
  public:
    // `tokenizer` may be null: then only texts can be played.
    StreamPlayer(api::Protocol protocol, const PlayedAnswer& answer, const api::OfficialRequest& request,
                 const tokenizer::Tokenizer* tokenizer);
    ~StreamPlayer();

    // The events that a chunk brought: {"event", "data"} each, without "event" where the protocol has none.
    Result<boost::json::array> push(const boost::json::object& chunk);
    // Nothing follows: the last events.
    boost::json::array finish();
    boost::json::value whole() const;

  private:
    boost::json::array take();
    struct State;
    std::unique_ptr<State> state_;
};

// The first difference; empty if there is none.
std::string check_stream(const boost::json::object& vector, api::Protocol protocol,
                         const api::OfficialRequest& request, const tokenizer::Tokenizer* tokenizer);

}  // namespace deepinfer::cli
