#include "tokenizer/scanners.h"

#include <algorithm>

namespace deepinfer::tokenizer {

const std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const std::string_view kLlama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const std::string_view kQwen2Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const std::string_view kQwen35Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
    "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const std::string_view kDeepseekV3Pattern =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
const std::string_view kDeepseekV3CjkPattern = "[一-龥぀-ゟ゠-ヿ]+";
const std::string_view kDeepseekLlmCjkPattern = "[一-龥ࠀ-一가-퟿]+";

namespace {

// A position in a text, with the class of the code point there. At the end the class is 0 and length 0.
struct Cursor {
    Cursor(const CharacterTable& character_table, const char* begin, const char* text_end)
        : table(&character_table), p(begin), end(text_end) {
        load();
    }
    void load() {
        if (p == end) {
            code_point = UINT32_MAX, length = 0, classes = 0;
            return;
        }
        const DecodedChar c = decode_char(p);
        code_point = c.code_point, length = c.length, classes = (*table)[c.code_point];
    }
    bool at_end() const { return p == end; }
    void next() { p += length, load(); }
    void skip_while(uint8_t any_of) {
        while (classes & any_of) next();
    }

    const CharacterTable* table;
    const char* p;
    const char* end;
    uint32_t code_point = 0;
    uint32_t length = 0;
    uint8_t classes = 0;
};

// Moves over the match of `'s|'t|'re|'ve|'m|'ll|'d`; false, unmoved, if there is none. The cursor is at an
// apostrophe.
bool skip_contraction(Cursor& cursor, bool ignore_case) {
    const char* p = cursor.p + 1;
    const auto letter = [&](size_t i) -> char {
        if (size_t(cursor.end - p) <= i) return 0;
        const char c = p[i];
        return ignore_case && c >= 'A' && c <= 'Z' ? char(c | 0x20) : c;
    };
    size_t length = 0;
    switch (letter(0)) {
        case 's':
        case 't':
        case 'm':
        case 'd':
            length = 1;
            break;
        case 'r':
        case 'v':
            length = letter(1) == 'e' ? 2 : 0;
            break;
        case 'l':
            length = letter(1) == 'l' ? 2 : 0;
            break;
        case '\xC5':  // U+017F, long s, is an s when case is ignored
            length = ignore_case && letter(1) == '\xBF' ? 2 : 0;
            break;
        default:
            break;
    }
    if (length == 0) return false;
    cursor.p = p + length;
    cursor.load();
    return true;
}

// Moves over `\s*[\r\n]+|\s+(?!\S)|\s+` (or without the first alternative); the cursor is at white space.
void skip_white_space(Cursor& cursor, bool newlines_first) {
    const char* after_newline = nullptr;
    const char* last = cursor.p;
    const char* begin = cursor.p;
    while (cursor.classes & kSpace) {
        last = cursor.p;
        const bool newline = cursor.classes & kNewline;
        cursor.next();
        if (newline) after_newline = cursor.p;
    }
    if (newlines_first && after_newline) {
        cursor.p = after_newline;
    } else if (!cursor.at_end() && last != begin) {
        cursor.p = last;  // the space before a word belongs to the word
    } else {
        return;
    }
    cursor.load();
}

// A scanner whose every position begins a match or lies in a gap; Derived::match moves the cursor over the
// match at its position, or returns false.
template <class Derived>
class Scanner : public Splitter {
  public:
    void split(std::string_view text, Piece range, MatchScratch&, std::vector<Piece>& pieces) const final {
        const char* base = text.data();
        Cursor cursor(CharacterTable::instance(), base + range.begin, base + range.end);
        size_t gap = range.begin;
        while (!cursor.at_end()) {
            const size_t begin = size_t(cursor.p - base);
            if (static_cast<const Derived*>(this)->match(cursor)) {
                if (gap != begin) pieces.push_back({gap, begin});
                gap = size_t(cursor.p - base);
                pieces.push_back({begin, gap});
            } else {
                cursor.next();
            }
        }
        if (gap != range.end) pieces.push_back({gap, range.end});
    }
};

class Gpt2Scanner : public Scanner<Gpt2Scanner> {
  public:
    bool match(Cursor& cursor) const {
        if (cursor.code_point == '\'' && skip_contraction(cursor, false)) return true;
        if (cursor.code_point == ' ') {
            Cursor ahead = cursor;
            ahead.next();
            if (!ahead.at_end() && !(ahead.classes & kSpace)) cursor.next();
        }
        if (cursor.classes & kLetter) {
            cursor.skip_while(kLetter);
        } else if (cursor.classes & kNumber) {
            cursor.skip_while(kNumber);
        } else if (cursor.classes & kSpace) {
            skip_white_space(cursor, false);
        } else {
            while (!cursor.at_end() && !(cursor.classes & (kSpace | kLetter | kNumber))) cursor.next();
        }
        return true;
    }
};

// The tiktoken cl100k family: Llama 3, Qwen.
class Cl100kScanner : public Scanner<Cl100kScanner> {
  public:
    Cl100kScanner(size_t max_digits, bool marks_are_letters)
        : max_digits_(max_digits), word_(marks_are_letters ? kLetter | kMark : kLetter) {}

    bool match(Cursor& cursor) const {
        if (cursor.code_point == '\'' && skip_contraction(cursor, true)) return true;
        if (cursor.classes & word_) {
            cursor.skip_while(word_);
            return true;
        }
        if (cursor.classes & kNumber) {
            for (size_t i = 0; i < max_digits_ && (cursor.classes & kNumber); ++i) cursor.next();
            return true;
        }
        Cursor ahead = cursor;
        ahead.next();
        if (!(cursor.classes & kNewline) && (ahead.classes & word_)) {
            cursor = ahead;
            cursor.skip_while(word_);
            return true;
        }
        const uint8_t not_other = uint8_t(kSpace | kNumber | word_);
        if (cursor.code_point == ' ' && !ahead.at_end() && !(ahead.classes & not_other)) cursor.next();
        if (cursor.classes & kSpace) {
            skip_white_space(cursor, true);
            return true;
        }
        while (!cursor.at_end() && !(cursor.classes & not_other)) cursor.next();
        cursor.skip_while(kNewline);
        return true;
    }

  private:
    size_t max_digits_;
    uint8_t word_;
};

// The last pattern of DeepSeek V3 and later.
class DeepseekV3Scanner : public Scanner<DeepseekV3Scanner> {
  public:
    bool match(Cursor& cursor) const {
        const auto is_ascii_letter = [](uint32_t c) {
            return c < 128 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        };
        Cursor ahead = cursor;
        ahead.next();
        if (cursor.code_point < 128 && (cursor.classes & (kPunctuation | kSymbol)) &&
            is_ascii_letter(ahead.code_point)) {
            while (is_ascii_letter(ahead.code_point)) ahead.next();
            cursor = ahead;
            return true;
        }
        if (cursor.classes & (kLetter | kMark)) {
            cursor.skip_while(kLetter | kMark);
            return true;
        }
        if (!(cursor.classes & (kNewline | kPunctuation | kSymbol)) && (ahead.classes & (kLetter | kMark))) {
            ahead.skip_while(kLetter | kMark);
            cursor = ahead;
            return true;
        }
        if (cursor.code_point == ' ' && (ahead.classes & (kPunctuation | kSymbol))) cursor.next();
        if (cursor.classes & (kPunctuation | kSymbol)) {
            cursor.skip_while(kPunctuation | kSymbol);
            cursor.skip_while(kNewline);
            return true;
        }
        if (cursor.classes & kSpace) {
            skip_white_space(cursor, true);
            return true;
        }
        return false;
    }
};

class RunScanner : public Scanner<RunScanner> {
  public:
    RunScanner(CodePointSet prefix, CodePointSet body, size_t max)
        : prefix_(std::move(prefix)), body_(std::move(body)), max_(max) {}

    bool match(Cursor& cursor) const {
        if (has(prefix_, cursor)) {
            Cursor ahead = cursor;
            ahead.next();
            if (has(body_, ahead)) {
                cursor.next();
                skip_body(cursor);
                return true;
            }
        }
        if (!has(body_, cursor)) return false;
        skip_body(cursor);
        return true;
    }

  private:
    static bool has(const CodePointSet& set, const Cursor& cursor) {
        return !cursor.at_end() && set.contains(cursor.code_point);
    }
    void skip_body(Cursor& cursor) const {
        for (size_t i = 0; i < max_ && has(body_, cursor); ++i) cursor.next();
    }
    CodePointSet prefix_;
    CodePointSet body_;
    size_t max_;
};

class TrailingSpaceSplitter : public Splitter {
  public:
    void split(std::string_view text, Piece range, MatchScratch&, std::vector<Piece>& pieces) const final {
        const char* base = text.data();
        Cursor cursor(CharacterTable::instance(), base + range.begin, base + range.end);
        size_t gap = range.begin;
        while (!cursor.at_end()) {
            if (!(cursor.classes & kSpace)) {
                cursor.next();
                continue;
            }
            // The match runs from the start of a run of white space to the last place in it that ends a line.
            const size_t begin = size_t(cursor.p - base);
            size_t end = begin;
            while (cursor.classes & kSpace) {
                if (cursor.code_point == '\n') end = size_t(cursor.p - base);
                cursor.next();
            }
            if (cursor.at_end()) end = range.end;
            if (end == begin) continue;
            if (gap != begin) pieces.push_back({gap, begin});
            pieces.push_back({begin, end});
            gap = end;
        }
        if (gap != range.end) pieces.push_back({gap, range.end});
    }
};

std::vector<std::pair<uint32_t, uint32_t>> deepseek_v3_cjk() { return {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}}; }
std::vector<std::pair<uint32_t, uint32_t>> deepseek_llm_cjk() { return {{0x0800, 0x9FA5}, {0xAC00, 0xD7FF}}; }

struct KnownPattern {
    std::string_view pattern;
    std::unique_ptr<Splitter> (*make)();
};

const KnownPattern kKnownPatterns[] = {
    {kGpt2Pattern, [] { return std::unique_ptr<Splitter>(new Gpt2Scanner); }},
    {kLlama3Pattern, [] { return std::unique_ptr<Splitter>(new Cl100kScanner(3, false)); }},
    {kQwen2Pattern, [] { return std::unique_ptr<Splitter>(new Cl100kScanner(1, false)); }},
    {kQwen35Pattern, [] { return std::unique_ptr<Splitter>(new Cl100kScanner(1, true)); }},
    {kDeepseekV3Pattern, [] { return std::unique_ptr<Splitter>(new DeepseekV3Scanner); }},
    {kDeepseekV3CjkPattern, [] { return make_run_splitter({}, CodePointSet(0, deepseek_v3_cjk())); }},
    {kDeepseekLlmCjkPattern, [] { return make_run_splitter({}, CodePointSet(0, deepseek_llm_cjk())); }},
    {"\\p{N}{1,3}", [] { return make_run_splitter({}, CodePointSet(kNumber), 3); }},
    {"\\p{N}", [] { return make_run_splitter({}, CodePointSet(kNumber), 1); }},
    {"\\p{N}+", [] { return make_run_splitter({}, CodePointSet(kNumber)); }},
    {"[\r\n]", [] { return make_run_splitter({}, CodePointSet(kNewline), 1); }},
    {"\\s?\\p{L}+", [] { return make_run_splitter(CodePointSet(kSpace), CodePointSet(kLetter)); }},
    {"\\s?\\p{P}+", [] { return make_run_splitter(CodePointSet(kSpace), CodePointSet(kPunctuation)); }},
    {"\\s+$", [] { return make_trailing_space_splitter(); }},
};

}  // namespace

CodePointSet::CodePointSet(uint8_t classes, std::vector<std::pair<uint32_t, uint32_t>> ranges)
    : classes_(classes), ranges_(std::move(ranges)) {
    std::sort(ranges_.begin(), ranges_.end());
    for (uint32_t c = 0; c < 128; ++c) ascii_[c] = slow_contains(c);
}

bool CodePointSet::slow_contains(uint32_t code_point) const {
    if (CharacterTable::instance()[code_point] & classes_) return true;
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), std::pair(code_point, UINT32_MAX));
    return after != ranges_.begin() && code_point <= std::prev(after)->second;
}

std::unique_ptr<Splitter> make_run_splitter(CodePointSet prefix, CodePointSet body, size_t max) {
    return std::make_unique<RunScanner>(std::move(prefix), std::move(body), max);
}

std::unique_ptr<Splitter> make_trailing_space_splitter() { return std::make_unique<TrailingSpaceSplitter>(); }

std::unique_ptr<Splitter> make_punctuation_splitter(size_t max) {
    std::vector<std::pair<uint32_t, uint32_t>> symbols;
    for (const char c : std::string_view("$+<=>^`|~")) symbols.emplace_back(uint8_t(c), uint8_t(c));
    return make_run_splitter({}, CodePointSet(kPunctuation, std::move(symbols)), max);
}

std::unique_ptr<Splitter> find_scanner(std::string_view pattern) {
    for (const KnownPattern& known : kKnownPatterns) {
        if (known.pattern == pattern) return known.make();
    }
    return nullptr;
}

std::vector<std::string> scanner_patterns() {
    std::vector<std::string> patterns;
    for (const KnownPattern& known : kKnownPatterns) patterns.emplace_back(known.pattern);
    return patterns;
}

}  // namespace deepinfer::tokenizer
