// Reads the objects `normalizer`, `pre_tokenizer` and `decoder` of a tokenizer.json. A kind that is not
// implemented is an Error of kind unsupported that names it.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace deepinfer::tokenizer {

Status read_normalizer(const boost::json::value& value, Normalizer& normalizer);

struct PreTokenizerTraits {
    bool byte_level = false;  // ends with ByteLevel: symbols are bytes
};
Result<PreTokenizerTraits> read_pre_tokenizer(const boost::json::value& value, PreTokenizer& pre_tokenizer);

struct DecoderTraits {
    EntryDecoding entries;
    bool strips_leading_space = false;
};
Result<DecoderTraits> read_decoder(const boost::json::value& value);

}  // namespace deepinfer::tokenizer
