#include "base/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <charconv>
#include <exception>
#include <new>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/quote.h"

namespace deepinfer {
namespace {

namespace json = boost::json;

struct NoSizeLimits {
    static constexpr size_t max_object_size = SIZE_MAX;
    static constexpr size_t max_array_size = SIZE_MAX;
    static constexpr size_t max_key_size = SIZE_MAX;
    static constexpr size_t max_string_size = SIZE_MAX;
};

// A Boost.JSON event handler that builds the value. Unlike the library's own it keeps numbers exact: a double is the one
// nearest to the text, and -0 is a double.
struct ValueBuilder : NoSizeLimits {
    json::value_stack stack;

    bool on_document_begin(json::error_code&) { return true; }
    bool on_document_end(json::error_code&) { return true; }
    bool on_object_begin(json::error_code&) { return true; }
    bool on_object_end(size_t n, json::error_code&) { return stack.push_object(n), true; }
    bool on_array_begin(json::error_code&) { return true; }
    bool on_array_end(size_t n, json::error_code&) { return stack.push_array(n), true; }
    bool on_key_part(json::string_view part, size_t, json::error_code&) {
        return stack.push_chars(part), true;
    }
    bool on_key(json::string_view part, size_t, json::error_code&) { return stack.push_key(part), true; }
    bool on_string_part(json::string_view part, size_t, json::error_code&) {
        return stack.push_chars(part), true;
    }
    bool on_string(json::string_view part, size_t, json::error_code&) {
        return stack.push_string(part), true;
    }
    bool on_number_part(json::string_view, json::error_code&) { return true; }
    bool on_int64(int64_t number, json::string_view text, json::error_code&) {
        if (number == 0 && text.starts_with('-'))
            stack.push_double(-0.0);
        else
            stack.push_int64(number);
        return true;
    }
    bool on_uint64(uint64_t number, json::string_view, json::error_code&) {
        return stack.push_uint64(number), true;
    }
    bool on_double(double rough, json::string_view text, json::error_code& error) {
        double exact = 0;
        const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), exact);
        if (status == std::errc::result_out_of_range) {
            if (rough > 1 || rough < -1) {
                error = json::make_error_code(json::error::exponent_overflow);
                return false;
            }
            exact = text.starts_with('-') ? -0.0 : 0.0;
        }
        stack.push_double(exact);
        return true;
    }
    bool on_bool(bool value, json::error_code&) { return stack.push_bool(value), true; }
    bool on_null(json::error_code&) { return stack.push_null(), true; }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }
};

// Looks for an object with a repeated key and stops at the first one.
struct RepeatedKeyFinder : NoSizeLimits {
    std::vector<std::unordered_set<std::string>> open_objects;
    std::string key;
    std::string repeated;
    bool found = false;

    bool on_object_begin(json::error_code&) { return open_objects.emplace_back(), true; }
    bool on_object_end(size_t, json::error_code&) { return open_objects.pop_back(), true; }
    bool on_key_part(json::string_view part, size_t, json::error_code&) {
        key.append(part.data(), part.size());
        return true;
    }
    bool on_key(json::string_view part, size_t, json::error_code& error) {
        key.append(part.data(), part.size());
        if (!open_objects.back().insert(key).second) {
            found = true;
            repeated = key;
            error = json::make_error_code(json::error::exception);  // only stops the parse; `found` says why
            return false;
        }
        key.clear();
        return true;
    }
    bool on_document_begin(json::error_code&) { return true; }
    bool on_document_end(json::error_code&) { return true; }
    bool on_array_begin(json::error_code&) { return true; }
    bool on_array_end(size_t, json::error_code&) { return true; }
    bool on_string_part(json::string_view, size_t, json::error_code&) { return true; }
    bool on_string(json::string_view, size_t, json::error_code&) { return true; }
    bool on_number_part(json::string_view, json::error_code&) { return true; }
    bool on_int64(int64_t, json::string_view, json::error_code&) { return true; }
    bool on_uint64(uint64_t, json::string_view, json::error_code&) { return true; }
    bool on_double(double, json::string_view, json::error_code&) { return true; }
    bool on_bool(bool, json::error_code&) { return true; }
    bool on_null(json::error_code&) { return true; }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }
};

Status check_unique_keys(std::string_view text, std::string_view what, const json::parse_options& options) {
    json::basic_parser<RepeatedKeyFinder> parser(options);
    json::error_code error;
    parser.write_some(false, text.data(), text.size(), error);
    if (!parser.handler().found) return {};
    return Error{ErrorCode::corrupt_data, std::string(what) + ": the key " +
                                              quote(parser.handler().repeated) +
                                              " appears twice in one object; keys must be unique"};
}

Result<json::value> parse(std::string_view text, std::string_view what, const JsonLimits& limits) {
    json::parse_options options;
    options.max_depth = limits.max_depth;
    json::basic_parser<ValueBuilder> parser(options);
    json::error_code error;
    const size_t parsed = parser.write_some(false, text.data(), text.size(), error);
    if (error == json::error::too_deep)
        return Error{ErrorCode::resource_exhausted, std::string(what) +
                                                        ": arrays and objects are nested deeper than " +
                                                        std::to_string(limits.max_depth) + " levels"};
    if (!error && parsed != text.size()) error = json::make_error_code(json::error::extra_data);
    if (error)
        return Error{ErrorCode::corrupt_data, std::string(what) + ": not valid JSON near byte " +
                                                  std::to_string(parsed) + " of " +
                                                  std::to_string(text.size()) + ": " + error.message()};
    if (limits.unique_keys) {
        if (Status unique = check_unique_keys(text, what, options); !unique) return unique.error();
    }
    return parser.handler().stack.release();
}

}  // namespace

Result<json::value> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
    if (text.size() > limits.max_bytes)
        return Error{ErrorCode::resource_exhausted, std::string(what) + ": " + std::to_string(text.size()) +
                                                        " bytes of JSON, more than the limit of " +
                                                        std::to_string(limits.max_bytes)};
    try {
        return parse(text, what, limits);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::resource_exhausted,
                     std::string(what) + ": not enough memory to parse the JSON"};
    } catch (const std::exception& error) {
        return Error{ErrorCode::corrupt_data, std::string(what) + ": not valid JSON: " + error.what()};
    }
}

}  // namespace deepinfer
