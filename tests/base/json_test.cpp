#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace deepinfer {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
    const Result<boost::json::value> parsed = parse_json(text, "x.json", limits);
    return parsed ? "" : parsed.error().message;
}

TEST(Json, ParsesOneValueWithWhiteSpaceAround) {
    const Result<boost::json::value> parsed =
        parse_json(" {\"a\": [1, 2.5, \"\xc3\xa9\", null]} \n", "x.json");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->at("a").at(0), 1);
    EXPECT_EQ(parsed->at("a").at(2), "\xc3\xa9");
}

TEST(Json, RefusesWhatIsNotStrictJson) {
    for (const char* text :
         {"", " ", "{", "[1,]", "{\"a\":1,}", "{'a':1}", "nul", "1 2", "{} x", "// c\n1", "NaN", "01",
          "\"\xff\"", "\"\xed\xa0\x80\"", "\"\t\"", "\"\\ud800\"", "[1", "\"abc"})
        EXPECT_NE(error_of(text), "") << text;
    EXPECT_EQ(error_of("[1 x]").substr(0, 45), "x.json: not valid JSON near byte 3 of 5: synt");
}

TEST(Json, LimitsSizeAndDepth) {
    EXPECT_EQ(error_of(std::string(40, '[') + std::string(40, ']')),
              "x.json: arrays and objects are nested deeper than 32 levels");
    EXPECT_EQ(error_of("[[1]]", {.max_depth = 2}), "");
    EXPECT_NE(error_of("[[[1]]]", {.max_depth = 2}), "");
    EXPECT_EQ(error_of("[1]", {.max_bytes = 2}), "x.json: 3 bytes of JSON, more than the limit of 2");
    EXPECT_EQ(parse_json("[1]", "x", {.max_bytes = 2}).error().code, ErrorCode::resource_exhausted);
}

TEST(Json, FindsRepeatedKeysWhenAsked) {
    const JsonLimits unique{.unique_keys = true};
    EXPECT_EQ(error_of("{\"a\":1,\"a\":2}"), "");
    EXPECT_EQ(error_of("{\"a\":1,\"b\":{\"a\":1},\"c\":[{\"a\":1},{\"a\":1}]}", unique), "");
    EXPECT_EQ(error_of("{\"a\":1,\"a\":2}", unique),
              "x.json: the key \"a\" appears twice in one object; keys must be unique");
    EXPECT_NE(error_of("[{\"a\":{\"k\":1,\"\\u006b\":2}}]", unique), "")
        << "escaped spelling of the same key";
}

}  // namespace
}  // namespace deepinfer
