#include "base/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <random>
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

TEST(Json, NumbersAreTheNearestToTheirText) {
    const auto number = [](const std::string& text) { return *parse_json(text, "x.json"); };
    for (const double value :
         {123456789.123456789, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 0.1, 1e22, 1e23})
        for (const double sign : {1.0, -1.0}) {
            char text[64];
            std::snprintf(text, sizeof text, "%.17g", sign * value);
            if (std::string_view(text).find_first_of(".e") == std::string_view::npos) continue;
            EXPECT_EQ(number(text).as_double(), sign * value) << text;
        }
    std::mt19937_64 random(7);
    for (int i = 0; i < 20'000; ++i) {
        const auto value = std::bit_cast<double>(random());
        if (!std::isfinite(value)) continue;
        char text[64];
        std::snprintf(text, sizeof text, "%.16e", value);
        EXPECT_EQ(number("[" + std::string(text) + " ]").at(0).as_double(), value) << text;
    }
    EXPECT_TRUE(std::signbit(number("-0").as_double()));
    EXPECT_TRUE(std::signbit(number("[-0.0]").at(0).as_double()));
    EXPECT_EQ(number("1e-400").as_double(), 0);
    EXPECT_EQ(number("18446744073709551615").as_uint64(), UINT64_MAX);
    EXPECT_EQ(number("18446744073709551616").as_double(), 18446744073709551616.0);
    EXPECT_EQ(number("-9223372036854775808").as_int64(), INT64_MIN);
    EXPECT_EQ(number("-9223372036854775809").as_double(), -9223372036854775808.0);
    for (const char* text : {"1e400", "-1e400", "1e99999999999999999999"})
        EXPECT_NE(error_of(text), "") << text;
}

TEST(Json, RepeatedKeysKeepTheirFirstPlaceAndTheirLastValue) {
    EXPECT_EQ(boost::json::serialize(*parse_json(R"({"a":1,"b":2,"a":3})", "x.json")), R"({"a":3,"b":2})");
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
