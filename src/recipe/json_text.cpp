#include "recipe/json_text.h"

#include <charconv>
#include <cmath>

namespace deepinfer::recipe {
namespace {

namespace json = boost::json;

class Writer {
  public:
    explicit Writer(const JsonStyle& style)
        : style_(style), comma_(style.spaced ? ", " : ","), colon_(style.spaced ? ": " : ":") {}

    void write(const json::value& value) {
        switch (value.kind()) {
            case json::kind::null:
                out += "null";
                break;
            case json::kind::bool_:
                out += value.get_bool() ? "true" : "false";
                break;
            case json::kind::int64:
                out += std::to_string(value.get_int64());
                break;
            case json::kind::uint64:
                out += std::to_string(value.get_uint64());
                break;
            case json::kind::double_:
                write(value.get_double());
                break;
            case json::kind::string:
                write_string(value.get_string());
                break;
            case json::kind::array:
                write(value.get_array());
                break;
            case json::kind::object:
                write(value.get_object());
                break;
        }
    }

    std::string out;

  private:
    void write(const json::array& items) {
        out += '[';
        bool first = true;
        for (const json::value& item : items) {
            if (!first) out += comma_;
            first = false;
            write(item);
        }
        out += ']';
    }

    void write(const json::object& members) {
        out += '{';
        bool first = true;
        for (const auto& member : members) {
            if (!first) out += comma_;
            first = false;
            write_string(member.key());
            out += colon_;
            write(member.value());
        }
        out += '}';
    }

    void write_string(std::string_view text) {
        out += '"';
        append_json_escaped(out, text);
        out += '"';
    }

    // Shortest digits that give the number back, placed by hand: to_chars chooses its form by length.
    void write(double number) {
        if (std::signbit(number)) out += '-';
        number = std::fabs(number);
        if (number == 0) {
            out += "0.0";
            return;
        }
        char text[40];
        const auto end = std::to_chars(text, text + sizeof text, number, std::chars_format::scientific).ptr;
        const std::string_view all(text, static_cast<size_t>(end - text));
        const size_t e = all.find('e');
        int exponent = 0;
        std::from_chars(all.data() + e + 1 + (all[e + 1] == '+'), all.data() + all.size(), exponent);
        std::string digits(all.substr(0, 1));
        if (e > 2) digits += all.substr(2, e - 2);

        const int lowest = style_.numbers == NumberStyle::python ? -4 : -5;
        if (exponent < lowest || exponent >= 16) {
            out += digits[0];
            if (digits.size() > 1) out.append(".").append(digits, 1);
            out += exponent < 0 ? "e-" : "e+";
            const std::string power = std::to_string(std::abs(exponent));
            if (style_.numbers == NumberStyle::python && power.size() < 2) out += '0';
            out += power;
        } else if (exponent < 0) {
            out += "0.";
            out.append(static_cast<size_t>(-exponent - 1), '0');
            out += digits;
        } else {
            const auto whole = static_cast<size_t>(exponent) + 1;
            if (digits.size() < whole) digits.append(whole - digits.size(), '0');
            out.append(digits, 0, whole).append(".");
            out += digits.size() > whole ? digits.substr(whole) : "0";
        }
    }

    const JsonStyle style_;
    const std::string_view comma_, colon_;
};

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
    static constexpr std::string_view escaped = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    static constexpr char digits[] = "0123456789abcdef";
    size_t plain = 0;  // where what needs no escape begins
    for (size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        out.append(text, plain, i - plain);
        plain = i + 1;
        if (const size_t at = escaped.find(text[i]); at != escaped.npos) {
            out += '\\';
            out += letters[at];
        } else {
            out += "\\u00";
            out += digits[c >> 4];
            out += digits[c & 15];
        }
    }
    out.append(text, plain);
}

std::string to_text(const json::value& value, const JsonStyle& style) {
    Writer writer(style);
    writer.write(value);
    return std::move(writer.out);
}

}  // namespace deepinfer::recipe
