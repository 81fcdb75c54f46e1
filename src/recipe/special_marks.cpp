#include "recipe/special_marks.h"

#include <algorithm>

#include "base/utf8.h"

namespace deepinfer::recipe {
namespace {

// Bytes of the UTF-8 character that begins with `lead`.
size_t character_size(char lead) {
    const auto byte = static_cast<unsigned char>(lead);
    return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

constexpr std::string_view white_space = " \t\r\n\v\f";

// Runs of spaces and line breaks are added tokens in some vocabularies; they control nothing and are left
// alone. So are single characters: there is no inside to mark.
bool is_guarded(const std::string& spelling) {
    return spelling.size() > character_size(spelling.empty() ? ' ' : spelling[0]) &&
           spelling.find_first_not_of(white_space) != std::string::npos &&
           spelling.find('\0') == std::string::npos;
}

}  // namespace

SpecialMarks::SpecialMarks(const std::vector<tokenizer::SpecialToken>& tokens) {
    uint32_t nodes = 1;
    for (const tokenizer::SpecialToken& token : tokens) {
        if (!is_guarded(token.text)) continue;
        uint32_t node = 0;
        for (const char c : token.text) {
            const auto [child, is_new] =
                children_.try_emplace(uint64_t{node} << 8 | static_cast<uint8_t>(c), nodes);
            if (is_new) ++nodes;
            node = child->second;
        }
        token_at_.try_emplace(node, token.id);
        begins_[static_cast<uint8_t>(token.text[0])] = true;
        for (size_t i = 1; i < token.text.size(); ++i) proper_suffixes_.insert(token.text.substr(i));
        longest_ = std::max(longest_, token.text.size());
        all_spellings_ += token.text + '\0';
    }
}

std::optional<std::string> SpecialMarks::choose_mark(const std::vector<std::string_view>& texts) {
    std::vector<uint32_t> noncharacters;
    for (uint32_t c = 0xFDD0; c <= 0xFDEF; ++c) noncharacters.push_back(c);
    for (uint32_t plane = 0; plane <= 16; ++plane) {
        noncharacters.push_back(plane << 16 | 0xFFFE);
        noncharacters.push_back(plane << 16 | 0xFFFF);
    }
    for (const uint32_t c : noncharacters) {
        std::string mark;
        append_code_point(mark, c);
        const bool used = std::any_of(texts.begin(), texts.end(),
                                      [&](std::string_view text) { return text.find(mark) != text.npos; });
        if (!used) return mark;
    }
    return std::nullopt;
}

SpecialMarks::Match SpecialMarks::match(std::string_view text) const {
    Match result;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto child = children_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[i]));
        if (child == children_.end()) return result;
        node = child->second;
        if (const auto token = token_at_.find(node); token != token_at_.end())
            result = {.size = i + 1, .token = token->second};
    }
    result.reaches_end = true;
    return result;
}

std::string SpecialMarks::mark_inside(std::string_view text, std::string_view mark) const {
    std::string out;
    out.reserve(text.size() + 16);
    for (size_t i = 0; i < text.size(); ++i) {
        if (begins_[static_cast<uint8_t>(text[i])] && match(text.substr(i)).size > 0) {
            const size_t first = character_size(text[i]);
            out += text.substr(i, first);
            out += mark;
            i += first - 1;
            continue;
        }
        out += text[i];
    }
    return out;
}

bool SpecialMarks::could_be_continued(std::string_view text) const {
    const size_t longest = std::min(text.size(), longest_);
    for (size_t size = 1; size <= longest; ++size) {
        const std::string_view tail = text.substr(text.size() - size);
        if (begins_[static_cast<uint8_t>(tail[0])] && match(tail).reaches_end) return true;
    }
    return !text.empty() && text.size() < longest_ && all_spellings_.find(text) != std::string::npos;
}

bool SpecialMarks::could_continue(std::string_view text) const {
    const size_t longest = std::min(text.size(), longest_);
    for (size_t size = 1; size <= longest; ++size) {
        if (proper_suffixes_.contains(std::string(text.substr(0, size)))) return true;
    }
    return false;
}

std::string SpecialMarks::mark(std::string_view text, std::string_view mark) const {
    // Templates trim messages, so white space at the ends does not keep the rest apart from the template's
    // text.
    const size_t begin = std::min(text.find_first_not_of(white_space), text.size());
    const size_t end = text.find_last_not_of(white_space) + 1;  // npos + 1 is 0
    if (begin >= end) return mark_inside(text, mark);
    const std::string_view core = text.substr(begin, end - begin);
    std::string out(text.substr(0, begin));
    if (could_continue(text) || could_continue(core)) out += mark;
    out += mark_inside(core, mark);
    if (could_be_continued(text) || could_be_continued(core)) out += mark;
    out += text.substr(end);
    return out;
}

std::vector<Piece> SpecialMarks::split(std::string_view rendered, std::string_view mark) const {
    std::vector<Piece> pieces;
    std::string plain;
    const auto flush = [&] {
        if (!plain.empty()) pieces.push_back({-1, std::move(plain)});
        plain.clear();
    };
    for (size_t i = 0; i < rendered.size();) {
        if (begins_[static_cast<uint8_t>(rendered[i])]) {
            if (const Match found = match(rendered.substr(i)); found.size > 0) {
                flush();
                pieces.push_back({found.token, std::string(rendered.substr(i, found.size))});
                i += found.size;
                continue;
            }
        }
        if (!mark.empty() && rendered.substr(i, mark.size()) == mark) {
            i += mark.size();
            continue;
        }
        plain += rendered[i++];
    }
    flush();
    return pieces;
}

}  // namespace deepinfer::recipe
