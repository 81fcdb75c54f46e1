#include "tokenizer/unicode.h"

#include <cstring>
#include <map>

namespace deepinfer::tokenizer {
namespace {

constexpr uint32_t kRuns[] = {
#include "tokenizer/unicode_ranges.inc"
};

}  // namespace

const CharacterTable& CharacterTable::instance() {
    static const CharacterTable table;
    return table;
}

CharacterTable::CharacterTable() {
    std::string classes(kCodePoints, '\0');
    for (size_t i = 0; i < std::size(kRuns); ++i) {
        const uint32_t begin = kRuns[i] >> 8;
        const uint32_t end = i + 1 < std::size(kRuns) ? kRuns[i + 1] >> 8 : kCodePoints;
        std::memset(classes.data() + begin, int(kRuns[i] & 0xFF), end - begin);
    }
    std::map<std::string_view, uint16_t> seen;
    for (size_t block = 0; block < block_of_.size(); ++block) {
        const std::string_view content =
            std::string_view(classes).substr(block << kBlockBits, 1u << kBlockBits);
        const auto [entry, is_new] = seen.emplace(content, uint16_t(seen.size()));
        if (is_new) blocks_.insert(blocks_.end(), content.begin(), content.end());
        block_of_[block] = entry->second;
    }
}

size_t valid_utf8_prefix(std::string_view text) {
    size_t i = 0;
    while (i < text.size()) {
        uint64_t eight;
        if (i + 8 <= text.size() &&
            (std::memcpy(&eight, text.data() + i, 8), (eight & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        const Utf8Sequence next = classify_utf8(text.substr(i));
        if (next.kind != Utf8Sequence::valid) break;
        i += next.length;
    }
    return i;
}

void drain_utf8(std::string& pending, std::string& out, bool end) {
    std::string_view rest = pending;
    while (!rest.empty()) {
        const size_t valid = valid_utf8_prefix(rest);
        out.append(rest.substr(0, valid));
        rest.remove_prefix(valid);
        if (rest.empty()) break;
        const Utf8Sequence bad = classify_utf8(rest);
        if (bad.kind == Utf8Sequence::incomplete && !end) break;
        out.append(kReplacementCharacter);
        rest.remove_prefix(bad.length);
    }
    pending.erase(0, pending.size() - rest.size());
}

}  // namespace deepinfer::tokenizer
