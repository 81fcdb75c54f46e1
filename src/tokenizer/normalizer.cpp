#include "tokenizer/normalizer.h"

#include <utf8proc.h>

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

// Nothing below U+0300 changes under NFC; nothing in ASCII changes under any form.
bool is_normal_already(std::string_view text, Normalizer::Form form) {
    const uint8_t first_that_may_change = form == Normalizer::Form::nfc ? 0xCC : 0x80;
    for (const char c : text) {
        if (uint8_t(c) >= first_that_may_change) return false;
    }
    return true;
}

std::string normalize(std::string_view text, Normalizer::Form form) {
    if (is_normal_already(text, form)) return std::string(text);
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
    if (length < 0) return std::string(text);  // valid UTF-8 fails only for want of memory
    return std::string(reinterpret_cast<const char*>(mapped), size_t(length));
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
