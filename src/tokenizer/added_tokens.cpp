#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

// Tags that SentencePiece vocabularies (Gemma) declare as user-defined symbols. <s> is left out: elsewhere it
// is BOS.
constexpr std::string_view kHtmlElements[] = {
    "a",   "b",   "blockquote", "body",  "caption", "code",  "div",    "em",    "footer", "h1",   "h2",
    "h3",  "h4",  "h5",         "h6",    "html",    "i",     "iframe", "img",   "li",     "span", "strong",
    "sub", "sup", "table",      "tbody", "td",      "tfoot", "th",     "thead", "tr",     "u",    "ul",
};

bool is_white_space(std::string_view content) {
    if (content.empty() || valid_utf8_prefix(content) != content.size()) return false;
    for (size_t i = 0; i < content.size();) {
        const DecodedChar c = decode_char(content.data() + i);
        const bool is_metaspace = c.code_point == 0x2581;
        if (!is_metaspace && !(CharacterTable::instance()[c.code_point] & kSpace)) return false;
        i += c.length;
    }
    return true;
}

}  // namespace

bool is_text_token(std::string_view content, bool sentencepiece_style) {
    if (is_white_space(content)) return true;
    if (!sentencepiece_style || !content.starts_with('<') || !content.ends_with('>')) return false;
    content.remove_prefix(content.starts_with("</") ? 2 : 1);
    content.remove_suffix(1);
    return std::find(std::begin(kHtmlElements), std::end(kHtmlElements), content) != std::end(kHtmlElements);
}

void AddedTokenMatcher::add(std::string_view spelling, uint32_t index) {
    if (spelling.empty()) return;
    starts_[uint8_t(spelling[0])] = true;
    uint32_t node = 0;
    for (const char c : spelling) {
        uint32_t next = child(node, uint8_t(c));
        if (next == kNone) {
            next = uint32_t(nodes_.size());
            nodes_.emplace_back();
            auto& children = nodes_[node].children;
            const std::pair<uint8_t, uint32_t> edge(uint8_t(c), next);
            children.insert(std::lower_bound(children.begin(), children.end(), edge), edge);
        }
        node = next;
    }
    if (nodes_[node].index == kNone) nodes_[node].index = index;
}

uint32_t AddedTokenMatcher::child(uint32_t node, uint8_t byte) const {
    const auto& children = nodes_[node].children;
    const auto found =
        std::lower_bound(children.begin(), children.end(), std::pair<uint8_t, uint32_t>(byte, 0));
    return found != children.end() && found->first == byte ? found->second : kNone;
}

}  // namespace deepinfer::tokenizer
