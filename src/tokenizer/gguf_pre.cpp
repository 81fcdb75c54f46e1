#include "tokenizer/gguf_pre.h"

#include <string>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace deepinfer::tokenizer {
namespace {

// The patterns of DeepSeek LLM (2023): letters of scripts that have case, and punctuation.
constexpr std::string_view kDeepseekLlmLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛ"
    "ὝὟ-\\x{1F7D}ᾀ-ᾴᾶ-ᾼ\\x{1FBE}ῂ-ῄῆ-ῌῐ-\\x{1FD3}ῖ-\\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\\x{2126}ℨ\\x{212A}-ℭℯ-ℴℹℼ"
    "-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
constexpr std::string_view kDeepseekLlmPunctuation = "\\s?[!-/:-~！-／：-～‘-‟　-。]+";

// Of GPT-4o (o200k).
constexpr std::string_view kO200kPattern =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'"
    "ve|'m|'ll|'d)?"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|"
    "'ve|'m|'ll|'d)?"
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct Recipe {
    std::vector<std::string_view> names;
    std::vector<std::string_view> patterns;  // applied in order, matches isolated
    bool nfc = false;
    bool ignore_merges = false;
    bool adds_bos = false;
    bool punctuation_first = false;  // runs of punctuation before all patterns
};

const std::vector<Recipe>& recipes() {
    static const std::vector<Recipe> all = {
        {.names = {"gpt-2", "phi-2", "olmo"}, .patterns = {kGpt2Pattern}},
        {.names = {"mpt", "gpt-neox"}, .patterns = {kGpt2Pattern}, .nfc = true},
        {.names = {"smollm", "starcoder", "refact", "codeshell"}, .patterns = {"\\p{N}", kGpt2Pattern}},
        {.names = {"command-r"}, .patterns = {"\\p{N}", kGpt2Pattern}, .nfc = true},
        {.names = {"llama3", "llama-v3", "llama-bpe"},
         .patterns = {kLlama3Pattern},
         .ignore_merges = true,
         .adds_bos = true},
        {.names = {"dbrx", "smaug-bpe"}, .patterns = {kLlama3Pattern}},
        {.names = {"qwen2"}, .patterns = {kQwen2Pattern}, .nfc = true},
        {.names = {"qwen35"}, .patterns = {kQwen35Pattern}},
        {.names = {"gpt-4o"}, .patterns = {kO200kPattern}},
        {.names = {"deepseek-r1-qwen"}, .patterns = {kQwen2Pattern}},
        {.names = {"deepseek-v3"}, .patterns = {"\\p{N}{1,3}", kDeepseekV3CjkPattern, kDeepseekV3Pattern}},
        {.names = {"deepseek-llm"},
         .patterns = {"[\r\n]", kDeepseekLlmLetters, kDeepseekLlmPunctuation, "\\s+$", kDeepseekLlmCjkPattern,
                      "\\p{N}"}},
        {.names = {"deepseek-coder"},
         .patterns = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kDeepseekLlmCjkPattern, "\\p{N}"}},
        {.names = {"falcon"}, .patterns = {kGpt2Pattern, "[0-9][0-9][0-9]"}, .punctuation_first = true},
    };
    return all;
}

}  // namespace

Result<GgufPreTokenizer> make_gguf_pre_tokenizer(std::string_view name) {
    for (const Recipe& recipe : recipes()) {
        bool named = false;
        for (const std::string_view known : recipe.names) named |= known == name;
        if (!named) continue;
        GgufPreTokenizer result;
        if (recipe.nfc) result.normalizer.add(Normalizer::Form::nfc);
        if (recipe.punctuation_first) result.pre_tokenizer.add_splitter(make_punctuation_splitter(SIZE_MAX));
        for (const std::string_view pattern : recipe.patterns) {
            const Status added = result.pre_tokenizer.add_split_pattern(pattern, SplitBehavior::isolated,
                                                                        false, "tokenizer.ggml.pre");
            if (!added) return added.error();
        }
        result.ignore_merges = recipe.ignore_merges;
        result.adds_bos = recipe.adds_bos;
        return result;
    }
    std::string known;
    for (const Recipe& recipe : recipes()) {
        for (const std::string_view one : recipe.names)
            known += (known.empty() ? "" : ", ") + std::string(one);
    }
    return Error{ErrorCode::unsupported,
                 "tokenizer.ggml.pre: " + quote(name) + " is not supported; known are " + known};
}

}  // namespace deepinfer::tokenizer
