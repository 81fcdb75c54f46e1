#include "recipe/raw_prompt.h"

#include <gtest/gtest.h>

#include "support/byte_tokenizer.h"

namespace deepinfer::recipe {
namespace {

using testing::ByteTokenizer;
using tokenizer::Special;
using Ids = std::vector<TokenId>;

TEST(RawPrompt, HasOneBos) {
    const ByteTokenizer tokenizer;
    EXPECT_EQ(encode_raw_prompt(tokenizer, "a", {}), (Ids{ByteTokenizer::bos_id, 'a'}));
    EXPECT_EQ(encode_raw_prompt(tokenizer, "", {}), Ids{ByteTokenizer::bos_id});
    EXPECT_EQ(encode_raw_prompt(tokenizer, "<s>a", {.special = Special::parse}),
              (Ids{ByteTokenizer::bos_id, 'a'}));
    // As text it is no BOS, so one is put before it.
    EXPECT_EQ(encode_raw_prompt(tokenizer, "<s>", {}), (Ids{ByteTokenizer::bos_id, '<', 's', '>'}));
}

TEST(RawPrompt, HasNoBosWhereNoneIsWanted) {
    ByteTokenizer tokenizer;
    EXPECT_EQ(encode_raw_prompt(tokenizer, "a", {.add_bos = false}), Ids{'a'});
    EXPECT_EQ(encode_raw_prompt(tokenizer, "<s>a", {.add_bos = false, .special = Special::parse}),
              (Ids{ByteTokenizer::bos_id, 'a'}));
    tokenizer.adds_bos_ = false;
    EXPECT_EQ(encode_raw_prompt(tokenizer, "a", {}), Ids{'a'});
}

}  // namespace
}  // namespace deepinfer::recipe
