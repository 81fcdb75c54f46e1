#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

constexpr size_t kShortWord = 40;   // symbols; above, the heap is faster than scanning
constexpr size_t kShortPiece = 12;  // bytes of a piece of a long word, at least: cutting has its cost, too

}  // namespace

BpeEncoder::BpeEncoder(const BpeModel& model) : model_(model), cache_(kCacheEntries) {}

void BpeEncoder::encode(std::string_view word, std::vector<TokenId>& ids) {
    if (word.empty()) return;
    if (word.size() > kCachedWordBytes) return encode_uncached(word, ids);
    CacheEntry& entry = cache_[hash_bytes(word) & (kCacheEntries - 1)];
    if (entry.bytes == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0) {
        ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
        return;
    }
    const size_t before = ids.size();
    encode_uncached(word, ids);
    const size_t count = ids.size() - before;
    if (count > kCachedIds) return;
    entry.bytes = uint8_t(word.size());
    entry.count = uint8_t(count);
    std::memcpy(entry.word, word.data(), word.size());
    std::copy(ids.begin() + ptrdiff_t(before), ids.end(), entry.ids);
}

void BpeEncoder::encode_raw_bytes(std::string_view bytes, std::vector<TokenId>& ids) {
    if (model_.symbols_are_bytes) return encode_uncached(bytes, ids);
    bool after_unknown = false;
    for (const char byte : bytes) {
        const TokenId token = model_.byte_token[uint8_t(byte)];
        if (model_.byte_fallback && token >= 0) {
            ids.push_back(token);
            after_unknown = false;
        } else if (model_.unknown && !(after_unknown && model_.fuse_unknown)) {
            ids.push_back(*model_.unknown);
            after_unknown = true;
        }
    }
}

void BpeEncoder::encode_uncached(std::string_view word, std::vector<TokenId>& ids) {
    if (model_.ignore_merges) {
        if (const TokenId whole = model_.words->find(word); whole >= 0) {
            ids.push_back(whole);
            return;
        }
    }
    // Long words in pieces, between which nothing can merge.
    size_t begin = 0;
    if (word.size() > kShortWord && !model_.borders.empty()) {
        for (size_t at = kShortPiece; at < word.size(); ++at) {
            if (model_.borders.may_merge(word, at)) continue;
            encode_piece(word.substr(begin, at - begin), ids);
            begin = at;
            at += kShortPiece - 1;
        }
    }
    encode_piece(word.substr(begin), ids);
}

void BpeEncoder::encode_piece(std::string_view piece, std::vector<TokenId>& ids) {
    symbols_.clear();
    add_symbols(piece);
    if (symbols_.size() <= kShortWord) {
        merge_short();
    } else {
        merge_long();
    }
    emit(ids);
}

void BpeEncoder::add_symbols(std::string_view word) {
    if (model_.symbols_are_bytes) {
        for (const char byte : word) {
            if (const TokenId token = model_.byte_token[uint8_t(byte)]; token >= 0) symbols_.push_back(token);
        }
        return;
    }
    bool after_unknown = false;
    for (size_t i = 0; i < word.size();) {
        const DecodedChar c = decode_char(word.data() + i);
        const std::string_view bytes = word.substr(i, c.length);
        i += c.length;
        if (const TokenId* symbol = model_.character_symbol.find(c.code_point)) {
            symbols_.push_back(*symbol);
            after_unknown = false;
            continue;
        }
        if (model_.byte_fallback && std::all_of(bytes.begin(), bytes.end(),
                                                [&](char b) { return model_.byte_token[uint8_t(b)] >= 0; })) {
            for (const char byte : bytes) symbols_.push_back(model_.byte_token[uint8_t(byte)]);
            after_unknown = false;
            continue;
        }
        if (model_.unknown && !(after_unknown && model_.fuse_unknown)) symbols_.push_back(*model_.unknown);
        after_unknown = true;
    }
}

void BpeEncoder::merge_short() {
    const auto merge_of = [&](size_t i) {
        const Merge* merge = model_.merges.find(BpeModel::pair_key(symbols_[i], symbols_[i + 1]));
        return merge ? *merge : Merge{kNoMerge, -1};
    };
    size_t count = symbols_.size();
    if (count < 2) return;
    pairs_.resize(count - 1);
    for (size_t i = 0; i + 1 < count; ++i) pairs_[i] = merge_of(i);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; ++i) {
            if (pairs_[i].rank < pairs_[best].rank) best = i;
        }
        if (pairs_[best].rank == kNoMerge) break;
        symbols_[best] = pairs_[best].result;
        std::copy(symbols_.begin() + ptrdiff_t(best) + 2, symbols_.begin() + ptrdiff_t(count),
                  symbols_.begin() + ptrdiff_t(best) + 1);
        std::copy(pairs_.begin() + ptrdiff_t(best) + 1, pairs_.begin() + ptrdiff_t(count) - 1,
                  pairs_.begin() + ptrdiff_t(best));
        --count;
        if (best > 0) pairs_[best - 1] = merge_of(best - 1);
        if (best + 1 < count) pairs_[best] = merge_of(best);
    }
    symbols_.resize(count);
}

void BpeEncoder::set_pair(uint32_t position) {
    Node& node = nodes_[position];
    node.rank = kNoMerge;
    if (node.next == kNoMerge) return;
    const Merge* merge = model_.merges.find(BpeModel::pair_key(symbols_[position], symbols_[node.next]));
    if (!merge) return;
    node.rank = merge->rank;
    node.merged = merge->result;
    heap_.push_back(uint64_t(merge->rank) << 32 | position);
}

void BpeEncoder::merge_long() {
    // An entry of the heap is current if its node still has the entry's rank: a node is the start of one pair
    // only, and the same rank at the same place means the same pair, or one that is merged at this moment
    // just as well.
    const auto count = uint32_t(symbols_.size());
    nodes_.resize(count);
    heap_.clear();
    for (uint32_t i = 0; i < count; ++i) {
        nodes_[i] = {i == 0 ? kNoMerge : i - 1, i + 1 == count ? kNoMerge : i + 1, kNoMerge, -1};
    }
    for (uint32_t i = 0; i < count; ++i) set_pair(i);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const uint64_t entry = heap_.back();
        heap_.pop_back();
        const auto position = uint32_t(entry);
        Node& node = nodes_[position];
        if (node.rank != uint32_t(entry >> 32)) continue;
        Node& right = nodes_[node.next];
        symbols_[position] = node.merged;
        right.rank = kNoMerge;
        node.next = right.next;
        if (node.next != kNoMerge) nodes_[node.next].previous = position;
        for (const uint32_t changed : {position, node.previous}) {
            if (changed == kNoMerge) continue;
            const size_t before = heap_.size();
            set_pair(changed);
            if (heap_.size() != before) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        }
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != kNoMerge; i = nodes_[i].next) symbols_[kept++] = symbols_[i];
    symbols_.resize(kept);
}

void BpeEncoder::emit(std::vector<TokenId>& ids) const {
    for (const TokenId symbol : symbols_) {
        if (symbol < model_.vocabulary_size) {
            ids.push_back(symbol);
            continue;
        }
        std::string bytes;
        append_code_point(bytes, model_.stand_in_characters[size_t(symbol - model_.vocabulary_size)]);
        const bool fallback = model_.byte_fallback && std::all_of(bytes.begin(), bytes.end(), [&](char b) {
                                  return model_.byte_token[uint8_t(b)] >= 0;
                              });
        if (fallback) {
            for (const char byte : bytes) ids.push_back(model_.byte_token[uint8_t(byte)]);
        } else if (model_.unknown) {
            ids.push_back(*model_.unknown);
        }
    }
}

}  // namespace deepinfer::tokenizer
