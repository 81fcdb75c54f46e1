// A tokenizer for tests: one token per byte, and a few added tokens.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace deepinfer::testing {

constexpr std::string_view chatml_template =
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + (message.content "
    "or '') }}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
    "%}";

class ByteTokenizer : public tokenizer::Tokenizer {
  public:
    static constexpr TokenId bos_id = 256, im_start = 257, im_end = 258, think = 259, end_think = 260;
    static constexpr int32_t size = 261;

    explicit ByteTokenizer(std::string chat_template = std::string(chatml_template))
        : specials_{{bos_id, "<s>"},
                    {im_start, "<|im_start|>"},
                    {im_end, "<|im_end|>"},
                    {think, "<think>", false},
                    {end_think, "</think>", false}},
          template_(std::move(chat_template)) {}

    std::vector<TokenId> encode(std::string_view text, tokenizer::Special special) const override {
        std::vector<TokenId> ids;
        for (size_t i = 0; i < text.size();) {
            const tokenizer::SpecialToken* found = nullptr;
            if (special == tokenizer::Special::parse)
                for (const auto& token : specials_)
                    if (text.substr(i).starts_with(token.text)) found = &token;
            ids.push_back(found ? found->id : static_cast<unsigned char>(text[i]));
            i += found ? found->text.size() : 1;
        }
        return ids;
    }
    std::string token_bytes(TokenId id, bool keep_special) const override {
        if (id >= 0 && id < 256) return std::string(1, static_cast<char>(id));
        for (const auto& token : specials_)
            if (token.id == id && (keep_special || !token.control)) return token.text;
        return {};
    }
    int32_t vocabulary_size() const override { return size; }
    std::optional<TokenId> bos() const override { return bos_id; }
    std::optional<TokenId> eos() const override { return im_end; }
    const std::vector<TokenId>& end_of_generation() const override { return ends_; }
    bool adds_bos() const override { return adds_bos_; }
    bool strips_leading_space() const override { return strips_leading_space_; }
    const std::vector<tokenizer::SpecialToken>& special_tokens() const override { return specials_; }
    std::optional<TokenId> find_special(std::string_view text) const override {
        for (const auto& token : specials_)
            if (token.text == text) return token.id;
        return std::nullopt;
    }
    std::string_view added_token_text(TokenId id) const override {
        for (const auto& token : specials_)
            if (token.id == id) return token.text;
        return {};
    }
    const std::string& chat_template() const override { return template_; }

    bool adds_bos_ = true;
    bool strips_leading_space_ = false;

  private:
    std::vector<tokenizer::SpecialToken> specials_;
    std::vector<TokenId> ends_{im_end};
    std::string template_;
};

}  // namespace deepinfer::testing
