#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <numeric>

#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// The code point if the text is exactly one valid one, else -1.
int64_t single_char(std::string_view text) {
    if (text.empty()) return -1;
    const Utf8Sequence first = classify_utf8(text);
    if (first.kind != Utf8Sequence::valid || first.length != text.size()) return -1;
    return decode_char(text.data()).code_point;
}

}  // namespace

void Vocabulary::exclude(TokenId id) {
    if (excluded.size() <= size_t(id)) excluded.resize(size_t(id) + 1);
    excluded[size_t(id)] = true;
}

Result<MergeRule> split_merge(std::string_view line, std::string_view where, size_t index) {
    // A token may itself be a space, so the separator is looked for from the second byte on.
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == line.size() || line.empty())
        return Error{ErrorCode::corrupt_data, std::string(where) + "[" + std::to_string(index) + "] is " +
                                                  quote(line) + "; expected two tokens with a space between"};
    return MergeRule{line.substr(0, space), line.substr(space + 1)};
}

int byte_token_value(std::string_view spelling) {
    if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
    const auto digit = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    const int high = digit(spelling[3]), low = digit(spelling[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void set_symbols(BpeModel& model, const Vocabulary& vocabulary, Spelling spelling) {
    model.vocabulary_size = int32_t(vocabulary.spellings.size());
    model.symbols_are_bytes = spelling == Spelling::byte_level;
    model.byte_token.fill(-1);
    if (spelling == Spelling::byte_level) {
        const ByteAlphabet alphabet;
        for (size_t byte = 0; byte < 256; ++byte) {
            const TokenId id = vocabulary.ids.find(alphabet.character(uint8_t(byte)));
            if (id >= 0 && !vocabulary.is_excluded(id)) model.byte_token[byte] = id;
        }
        return;
    }
    for (size_t i = 0; i < vocabulary.spellings.size(); ++i) {
        const TokenId id = TokenId(i);
        if (vocabulary.is_excluded(id)) continue;
        if (const int byte = byte_token_value(vocabulary.spellings[i]); byte >= 0)
            model.byte_token[size_t(byte)] = id;
        const int64_t character = single_char(vocabulary.spellings[i]);
        if (character >= 0 && vocabulary.ids.find(vocabulary.spellings[i]) == id)
            model.character_symbol.set(uint64_t(character), id);
    }
}

void set_words(BpeModel& model, const Vocabulary& vocabulary, Spelling spelling, const TokenStrings& bytes) {
    const ByteAlphabet alphabet;
    model.words.emplace(vocabulary.spellings.size());
    for (size_t i = 0; i < vocabulary.spellings.size(); ++i) {
        const std::string_view entry = vocabulary.spellings[i];
        if (entry.empty() || vocabulary.is_excluded(TokenId(i))) continue;
        if (spelling == Spelling::byte_level) {
            if (alphabet.bytes(entry)) model.words->insert(bytes[i], TokenId(i));
        } else {
            model.words->insert(entry, TokenId(i));
        }
    }
}

Status set_merges(BpeModel& model, const Vocabulary& vocabulary, std::span<const MergeRule> rules,
                  std::string_view where) {
    model.merges = FlatMap64<Merge>(rules.size());
    std::string joined;
    const ByteAlphabet alphabet;
    const bool in_bytes =
        model.symbols_are_bytes &&
        std::all_of(model.byte_token.begin(), model.byte_token.end(), [](TokenId t) { return t >= 0; });
    for (size_t i = 0; i < rules.size(); ++i) {
        joined.assign(rules[i].left).append(rules[i].right);
        const TokenId left = vocabulary.ids.find(rules[i].left);
        const TokenId right = vocabulary.ids.find(rules[i].right);
        const TokenId result = vocabulary.ids.find(joined);
        if (left < 0 || right < 0 || result < 0) {
            const std::string_view missing = left < 0 ? rules[i].left : right < 0 ? rules[i].right : joined;
            return Error{ErrorCode::corrupt_data, std::string(where) + "[" + std::to_string(i) +
                                                      "]: the token " + quote(missing) +
                                                      " is not in the vocabulary"};
        }
        if (vocabulary.is_excluded(result)) continue;
        model.merges.set(BpeModel::pair_key(left, right), {uint32_t(i), result});
        if (!in_bytes) continue;
        const std::string before = decoded_entry(rules[i].left, {.byte_alphabet = true}, alphabet);
        const std::string after = decoded_entry(rules[i].right, {.byte_alphabet = true}, alphabet);
        if (before.empty() || after.empty()) continue;
        model.borders.add_merge(before, after);
    }
    return {};
}

void set_score_merges(BpeModel& model, const Vocabulary& vocabulary, std::span<const double> scores,
                      const std::vector<bool>& mergeable) {
    std::vector<TokenId> order;
    for (size_t i = 0; i < vocabulary.spellings.size(); ++i) {
        if (mergeable[i]) order.push_back(TokenId(i));
    }
    std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
        return scores[size_t(a)] != scores[size_t(b)] ? scores[size_t(a)] > scores[size_t(b)] : a < b;
    });

    // Characters that are no token but part of one need a symbol to be merged from.
    for (const TokenId id : order) {
        const std::string_view entry = vocabulary.spellings[size_t(id)];
        if (valid_utf8_prefix(entry) != entry.size()) continue;
        for (size_t i = 0; i < entry.size();) {
            const DecodedChar c = decode_char(entry.data() + i);
            i += c.length;
            if (model.character_symbol.find(c.code_point)) continue;
            model.character_symbol.set(c.code_point,
                                       model.vocabulary_size + TokenId(model.stand_in_characters.size()));
            model.stand_in_characters.push_back(c.code_point);
        }
    }
    const auto symbol = [&](std::string_view text) -> TokenId {
        if (const int64_t character = single_char(text); character >= 0) {
            const TokenId* found = model.character_symbol.find(uint64_t(character));
            return found ? *found : -1;
        }
        const TokenId id = vocabulary.ids.find(text);
        return id >= 0 && mergeable[size_t(id)] ? id : -1;
    };

    uint32_t rank = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        const TokenId id = order[i];
        const std::string_view entry = vocabulary.spellings[size_t(id)];
        if (i > 0 && scores[size_t(id)] != scores[size_t(order[i - 1])]) ++rank;
        if (valid_utf8_prefix(entry) != entry.size() || vocabulary.ids.find(entry) != id) continue;
        for (size_t cut = 1; cut < entry.size(); ++cut) {
            if ((uint8_t(entry[cut]) & 0xC0) == 0x80) continue;
            const TokenId left = symbol(entry.substr(0, cut));
            const TokenId right = left < 0 ? -1 : symbol(entry.substr(cut));
            if (right >= 0) model.merges.set(BpeModel::pair_key(left, right), {rank, id});
        }
    }
}

std::string decoded_entry(std::string_view entry, const EntryDecoding& decoding,
                          const ByteAlphabet& alphabet) {
    if (decoding.byte_alphabet) {
        // Entries that are not written in the alphabet (most special tokens) stand for themselves.
        if (std::optional<std::string> bytes = alphabet.bytes(entry)) return std::move(*bytes);
        return std::string(entry);
    }
    if (decoding.byte_tokens) {
        if (const int byte = byte_token_value(entry); byte >= 0) return std::string(1, char(byte));
    }
    if (!decoding.metaspace) return std::string(entry);
    std::string out;
    for (size_t at = 0;;) {
        const size_t found = entry.find(kMetaspace, at);
        out.append(entry.substr(at, found - at));
        if (found == std::string_view::npos) return out;
        out += ' ';
        at = found + kMetaspace.size();
    }
}

}  // namespace deepinfer::tokenizer
