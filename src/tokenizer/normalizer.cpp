#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0;;) {
        const size_t found = text.find(from, at);
        out.append(text.substr(at, found - at));
        if (found == std::string_view::npos) return out;
        out.append(to);
        at = found + from.size();
    }
}

std::string replace_matches(std::string_view text, const Pattern& from, std::string_view to,
                            MatchScratch& scratch) {
    std::vector<Piece> matches;
    from.find_all(text, scratch, matches);
    std::string out;
    size_t at = 0;
    for (const Piece& match : matches) {
        out.append(text.substr(at, match.begin - at));
        out.append(to);
        at = match.end;
    }
    out.append(text.substr(at));
    return out;
}

struct Range {
    uint32_t first;
    uint32_t last;
};

// The reference normalises by Unicode 9.0. Characters that have combining classes or decompositions (or begin
// a composition) only in later versions are, to it, unassigned: they stay as they are and nothing moves
// across them.
constexpr Range kLaterThanReference[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9},
    {0x105D2, 0x105D2}, {0x105DA, 0x105DA}, {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11385},
    {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
    {0x113C7, 0x113C8}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11935, 0x11935},
    {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x1611E, 0x1611E}, {0x16121, 0x16129}, {0x1612F, 0x1612F}, {0x16D63, 0x16D63},
    {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF},
    {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool is_later_than_reference(uint32_t code_point) {
    const auto after =
        std::upper_bound(std::begin(kLaterThanReference), std::end(kLaterThanReference), code_point,
                         [](uint32_t c, const Range& range) { return c < range.first; });
    return after != std::begin(kLaterThanReference) && code_point <= std::prev(after)->last;
}

// Nothing below U+0300 changes under NFC; nothing in ASCII changes under any form.
bool is_normal_already(std::string_view text, Normalizer::Form form) {
    const uint8_t first_that_may_change = form == Normalizer::Form::nfc ? 0xCC : 0x80;
    for (const char c : text) {
        if (uint8_t(c) >= first_that_may_change) return false;
    }
    return true;
}

// Appends the normal form of a text without later characters.
void append_normalized(std::string& out, std::string_view text, Normalizer::Form form) {
    int options = UTF8PROC_STABLE;
    const bool compatibility = form == Normalizer::Form::nfkc || form == Normalizer::Form::nfkd;
    const bool compose = form == Normalizer::Form::nfc || form == Normalizer::Form::nfkc;
    if (compatibility) options |= UTF8PROC_COMPAT;
    options |= compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), utf8proc_ssize_t(text.size()),
                     &mapped, utf8proc_option_t(options));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (length < 0) {  // valid UTF-8 fails only for want of memory
        out.append(text);
    } else {
        out.append(reinterpret_cast<const char*>(mapped), size_t(length));
    }
}

std::string normalize(std::string_view text, Normalizer::Form form) {
    if (is_normal_already(text, form)) return std::string(text);
    std::string out;
    out.reserve(text.size() + 16);
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
        const DecodedChar c = decode_char(text.data() + i);
        if (is_later_than_reference(c.code_point)) {
            if (begin != i) append_normalized(out, text.substr(begin, i - begin), form);
            out.append(text.substr(i, c.length));
            begin = i + c.length;
        }
        i += c.length;
    }
    if (begin != text.size()) append_normalized(out, text.substr(begin), form);
    return out;
}

struct Apply {
    std::string_view text;
    MatchScratch& scratch;
    std::string operator()(const Normalizer::Prepend& step) const {
        return text.empty() ? std::string() : step.text + std::string(text);
    }
    std::string operator()(const Normalizer::Replace& step) const {
        return replace_all(text, step.from, step.to);
    }
    std::string operator()(const Normalizer::ReplacePattern& step) const {
        return replace_matches(text, step.from, step.to, scratch);
    }
    std::string operator()(Normalizer::Form form) const { return normalize(text, form); }
};

}  // namespace

std::string Normalizer::apply(std::string_view text, MatchScratch& scratch) const {
    std::string current(text);
    for (const Step& step : steps_) current = std::visit(Apply{current, scratch}, step);
    return current;
}

}  // namespace deepinfer::tokenizer
