#include "tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/quote.h"
#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

// White_Space, which is Oniguruma's \s; PCRE2 has U+180E besides.
constexpr std::string_view kSpaceSet =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
// Word characters: Alphabetic, M, Nd, Pc, and the superscripts and fractions of Latin-1, which Oniguruma
// includes.
constexpr std::string_view kWordSet =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{"
    "1f149}"
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";

// PCRE2 before 10.40 knows no "sc:", but takes a plain script name as the Script property.
constexpr const char* kScriptPrefix = PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40 ? "sc:" : "";

constexpr uint32_t kMatchLimit = 50'000'000;  // backtracking steps of one match
constexpr size_t kJitStackBytes = size_t{16} << 20;

std::string in_field(std::string_view where, std::string_view what, std::string_view expression) {
    return std::string(where) + ": " + std::string(what) + " in the pattern " + quote(expression);
}

class Translator {
  public:
    Translator(std::string_view expression, std::string_view where)
        : expression_(expression), where_(where) {}

    Result<std::string> run() {
        while (position_ < expression_.size()) {
            const char c = expression_[position_];
            Status done;
            if (c == '\\') {
                done = escape();
            } else if (in_set_) {
                done = set_char(c);
            } else if (c == '[') {
                open_set();
            } else if (c == '(') {
                done = group();
            } else {
                copy(1);
            }
            if (!done) return std::move(done).error();
        }
        return std::move(out_);
    }

  private:
    std::string_view rest() const { return expression_.substr(position_); }
    void copy(size_t bytes) { out_ += rest().substr(0, bytes), position_ += bytes; }
    Status refuse(std::string_view what) const {
        return Error{ErrorCode::unsupported,
                     in_field(where_, std::string(what) + " is not supported", expression_)};
    }

    void open_set() {
        in_set_ = true;
        copy(rest().starts_with("[^") ? 2 : 1);
        if (rest().starts_with("]")) out_ += "\\]", ++position_;
    }

    Status set_char(char c) {
        if (c == '[') return refuse("a set inside a set");
        if (rest().starts_with("&&")) return refuse("a set operation (&&)");
        if (c == ']') in_set_ = false;
        copy(1);
        return {};
    }

    // Only plain, lookaround, atomic, and i/x-flag groups mean the same in both dialects.
    Status group() {
        for (std::string_view ok :
             {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:", "(?-i)"}) {
            if (rest().starts_with(ok)) return copy(ok.size()), Status();
        }
        if (rest().starts_with("(?")) return refuse("the group " + std::string(rest().substr(0, 4)));
        if (rest().starts_with("(*")) return refuse("a verb (*...)");
        copy(1);
        return {};
    }

    Status escape() {
        if (rest().size() < 2)
            return Error{ErrorCode::corrupt_data, in_field(where_, "a trailing backslash", expression_)};
        const char c = rest()[1];
        const auto replace_by = [&](std::string_view set, bool negated) {
            if (in_set_) {
                out_ += set;
            } else {
                out_ += negated ? "[^" : "[";
                out_ += set;
                out_ += "]";
            }
            position_ += 2;
            return Status();
        };
        switch (c) {
            case 's':
                return replace_by(kSpaceSet, false);
            case 'w':
                return replace_by(kWordSet, false);
            case 'S':
            case 'W':
                if (in_set_) return refuse(std::string("\\") + c + " inside a set");
                return replace_by(c == 'S' ? kSpaceSet : kWordSet, true);
            case 'x':
            case 'd':
            case 'D':
            case 'n':
            case 'r':
            case 't':
            case 'f':
            case 'v':
            case 'a':
            case 'e':
            case 'A':
            case 'z':
            case 'Z':
            case 'b':
            case 'B':
                if (c == 'v') {  // Oniguruma: vertical tab; PCRE2: any vertical space
                    out_ += "\\x0b", position_ += 2;
                    return {};
                }
                copy(2);
                return {};
            case 'p':
            case 'P':
                return property();
            case 'u': {  // \uHHHH
                if (rest().size() < 6) return refuse("\\u without four hexadecimal digits");
                out_ += "\\x{" + std::string(rest().substr(2, 4)) + "}";
                position_ += 6;
                return {};
            }
            default:
                break;
        }
        if (std::isalnum(uint8_t(c))) return refuse(std::string("the escape \\") + c);
        copy(2);
        return {};
    }

    // A general category, or a script: by the Script property, where PCRE2 would take Script_Extensions.
    Status property() {
        if (rest().size() < 3 || rest()[2] != '{') return copy(std::min<size_t>(3, rest().size())), Status();
        const size_t end = rest().find('}');
        if (end == std::string_view::npos)
            return Error{ErrorCode::corrupt_data, in_field(where_, "a property without }", expression_)};
        const std::string_view name = rest().substr(3, end - 3);
        const bool is_category = name.size() <= 2 || name == "Any" || (name[0] == '^' && name.size() <= 3);
        if (is_category) return copy(end + 1), Status();
        if (name[0] == '^') return refuse("the property " + quote(name));
        out_ += std::string(rest().substr(0, 3)) + kScriptPrefix + std::string(name) + "}";
        position_ += end + 1;
        return {};
    }

    std::string_view expression_;
    std::string_view where_;
    std::string out_;
    size_t position_ = 0;
    bool in_set_ = false;
};

struct CodeDeleter {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};

}  // namespace

struct Pattern::Code {
    std::unique_ptr<pcre2_code, CodeDeleter> code;
};

struct MatchScratch::Impl {
    pcre2_match_data* data = nullptr;
    pcre2_match_context* context = nullptr;
    pcre2_jit_stack* stack = nullptr;
    ~Impl() {
        pcre2_match_data_free(data);
        pcre2_match_context_free(context);
        pcre2_jit_stack_free(stack);
    }
    bool prepare() {
        if (data) return true;
        data = pcre2_match_data_create(1, nullptr);
        context = pcre2_match_context_create(nullptr);
        stack = pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr);
        if (!data || !context || !stack) return false;
        pcre2_set_match_limit(context, kMatchLimit);
        pcre2_jit_stack_assign(context, nullptr, stack);
        return true;
    }
};

MatchScratch::MatchScratch() : impl_(std::make_unique<Impl>()) {}
MatchScratch::~MatchScratch() = default;

Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<std::string> translate_pattern(std::string_view expression, std::string_view where) {
    return Translator(expression, where).run();
}

Result<Pattern> Pattern::compile(std::string_view expression, std::string_view where) {
    if (expression.size() > kMaxPatternBytes)
        return Error{ErrorCode::resource_exhausted,
                     std::string(where) + ": a pattern of " + std::to_string(expression.size()) +
                         " bytes, more than the limit of " + std::to_string(kMaxPatternBytes)};
    if (valid_utf8_prefix(expression) != expression.size())
        return Error{ErrorCode::corrupt_data, std::string(where) + ": the pattern is not valid UTF-8"};
    Result<std::string> translated = translate_pattern(expression, where);
    if (!translated) return std::move(translated).error();
    int error = 0;
    size_t offset = 0;
    auto code = std::make_unique<Code>();
    code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                   &offset, nullptr));
    if (!code->code) {
        PCRE2_UCHAR message[256] = {};
        pcre2_get_error_message(error, message, sizeof message);
        return Error{ErrorCode::corrupt_data,
                     in_field(where, reinterpret_cast<const char*>(message), expression)};
    }
    pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);  // without JIT the interpreter takes over
    return Pattern(std::move(code));
}

void Pattern::find_all(std::string_view text, MatchScratch& scratch, std::vector<Piece>& matches) const {
    if (!scratch.impl_->prepare()) return;
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t from = 0;
    size_t last_end = SIZE_MAX;
    while (from <= text.size()) {
        const int found = pcre2_match(code_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                      scratch.impl_->data, scratch.impl_->context);
        if (found < 0) return;
        const size_t* range = pcre2_get_ovector_pointer(scratch.impl_->data);
        const Piece match{range[0], range[1]};
        if (match.begin > match.end) return;  // \K in a lookahead; refused by the translation
        if (match.size() == 0 && match.end == last_end) {
            // An empty match right behind another match does not count; look again one character on.
            if (match.end >= text.size()) return;
            from = match.end + decode_char(text.data() + match.end).length;
            continue;
        }
        matches.push_back(match);
        from = last_end = match.end;
    }
}

}  // namespace deepinfer::tokenizer
