// Bytes <-> token ids: byte-level BPE and SentencePiece-style BPE, read from tokenizer.json or GGUF metadata.
//
// encode() gives the ids that Hugging Face `tokenizers` gives for the same file. Special (added) tokens are a
// matter of the caller: text from outside is encoded with Special::as_text, which can never produce a control
// token (other than <unk>); only text that a template produced is encoded with Special::parse.
//
// Some vocabularies keep runs of white space, and SentencePiece ones HTML tags, as added tokens. These are
// ordinary text to the model and are recognised under as_text, too, since the model has never seen such text
// written otherwise.
//
// Threads: immutable after construction; any number of threads may call.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace deepinfer::checkpoint {
class Checkpoint;
}

namespace deepinfer::tokenizer {

enum class Special {
    as_text,  // spellings of added tokens, but for white space and HTML tags, are encoded as ordinary text
    parse,    // spellings of added tokens become their ids
};

// A stretch of a prompt and what may be recognised in it.
struct TextPart {
    std::string_view text;
    Special special = Special::as_text;
};

struct SpecialToken {
    TokenId id = -1;
    std::string text;     // its spelling, UTF-8
    bool control = true;  // true: never printed ("<|im_end|>"); false: an added token that is ordinary text
};

class Tokenizer {
  public:
    static Result<std::unique_ptr<Tokenizer>> from_json_file(const std::filesystem::path& tokenizer_json);
    static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json);
    static Result<std::unique_ptr<Tokenizer>> from_checkpoint(
        const checkpoint::Checkpoint& model);  // GGUF metadata, or the
                                               // tokenizer.json beside safetensors
    virtual ~Tokenizer() = default;

    // Appends no BOS/EOS. Text may be any bytes; invalid UTF-8 is encoded as the reference does (byte
    // fallback or bytes).
    virtual std::vector<TokenId> encode(std::string_view text, Special special = Special::as_text) const = 0;
    // The parts are one text: words and merges cross their borders as if they were joined, but an added token
    // is recognised only where it lies wholly in (adjoining) parts with Special::parse. This is how a
    // rendered template that holds text from outside must be encoded. By default, encodes each part for
    // itself.
    virtual std::vector<TokenId> encode_parts(std::span<const TextPart> parts) const;
    // Raw bytes of one token; empty for control tokens unless `keep_special`. Ids outside the vocabulary give
    // nothing.
    virtual std::string token_bytes(TokenId id, bool keep_special = false) const = 0;
    // Whole-sequence decoding; invalid UTF-8 becomes U+FFFD, as the reference does.
    std::string decode(const std::vector<TokenId>& ids, bool keep_special = false) const;

    virtual int32_t vocabulary_size() const = 0;
    virtual std::optional<TokenId> bos() const = 0;
    virtual std::optional<TokenId> eos() const = 0;
    virtual const std::vector<TokenId>& end_of_generation()
        const = 0;                      // EOS, EOT, <|im_end|> …: what stops an answer
    virtual bool adds_bos() const = 0;  // raw completions prepend BOS
    // True if decoding drops the space that SentencePiece puts before the first word.
    virtual bool strips_leading_space() const = 0;
    virtual const std::vector<SpecialToken>& special_tokens() const = 0;
    virtual std::optional<TokenId> find_special(std::string_view text) const = 0;
    // The spelling of an added token; empty for tokens of the vocabulary proper.
    virtual std::string_view added_token_text(TokenId id) const = 0;
    virtual const std::string& chat_template() const = 0;  // from the checkpoint; empty if it has none
};

enum class StreamStart {
    new_text,        // the first token begins a text: the space that encoding put before it is dropped
    continues_text,  // the first token follows other tokens: its space belongs to the text
};

// Turns a stream of tokens into a stream of valid UTF-8: never emits half a code point. Bytes that can no
// longer become valid are emitted as U+FFFD at once; an incomplete tail is held back until completed or
// finish().
class StreamDecoder {
  public:
    explicit StreamDecoder(const Tokenizer& tokenizer, bool keep_special = false,
                           StreamStart start = StreamStart::new_text);
    std::string push(TokenId id);  // text that became certain with this token, perhaps empty
    std::string finish();          // what is left, once no token follows; incomplete bytes become U+FFFD

  private:
    const Tokenizer& tokenizer_;
    bool keep_special_;
    bool at_start_;
    std::string pending_;
};

}  // namespace deepinfer::tokenizer
