#include "cli/sampling_options.h"

#include <charconv>

#include "cli/load_model.h"

namespace deepinfer::cli {

namespace {

// TOKEN:BIAS
engine::LogitBias parse_bias(const std::string& text) {
    engine::LogitBias result;
    const char* end = text.data() + text.size();
    const auto token = std::from_chars(text.data(), end, result.token);
    if (token.ec == std::errc() && token.ptr != end && *token.ptr == ':') {
        const auto bias = std::from_chars(token.ptr + 1, end, result.bias);
        if (bias.ec == std::errc() && bias.ptr == end) return result;
    }
    throw CLI::ValidationError("--logit-bias", "expected TOKEN:BIAS, as in 15:-100, not " + text);
}

}  // namespace

void add_sampling_options(CLI::App& command, engine::SamplingParams& sampling) {
    const auto number = [&](const char* name, float& value, float least, float most, const char* what) {
        command.add_option(name, value, what)
            ->check(real_number(static_cast<double>(least), static_cast<double>(most)))
            ->capture_default_str();
    };
    const auto count = [&](const char* name, int32_t& value, int32_t least, const char* what) {
        command.add_option(name, value, what)->check(CLI::Range(least, 1 << 24))->capture_default_str();
    };
    count("--max-tokens", sampling.max_tokens, 1, "tokens of an answer at most");
    count("--min-tokens", sampling.min_tokens, 0, "tokens of an answer at least");
    number("--temperature", sampling.temperature, 0, 100, "0 is greedy");
    count("--top-k", sampling.top_k, 0, "most likely tokens to choose from (0: all)");
    number("--top-p", sampling.top_p, 0, 1, "nucleus of this mass");
    number("--min-p", sampling.min_p, 0, 1, "share of the best token's probability to keep");
    number("--typical-p", sampling.typical_p, 0, 1, "mass of the most typical tokens to keep");
    number("--repetition-penalty", sampling.repetition_penalty, engine::least_repetition_penalty,
           engine::most_repetition_penalty,
           "divides positive logits of tokens in prompt and answer (1: off)");
    number("--frequency-penalty", sampling.frequency_penalty, -engine::most_penalty, engine::most_penalty,
           "taken off a token's logit for each time that the answer has it");
    number("--presence-penalty", sampling.presence_penalty, -engine::most_penalty, engine::most_penalty,
           "taken off the logits of tokens that the answer has");
    command
        .add_option_function<std::vector<std::string>>(
            "--logit-bias",
            [&sampling](const std::vector<std::string>& biases) {
                for (const std::string& bias : biases) sampling.logit_bias.push_back(parse_bias(bias));
            },
            "TOKEN:BIAS, -100 to 100, added to the logit of a token id; repeatable")
        ->allow_extra_args(false);
    command.add_option("--seed", sampling.seed, "same seed, same text")->check(unsigned_number());
}

}  // namespace deepinfer::cli
