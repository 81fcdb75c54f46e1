// Chat templates: any source must compile or be refused, and render or fail, within its bounds. Run:
// chat_template_fuzz NEW_INPUTS tests/fuzz/corpus/chat_template
#include <cstdlib>
#include <string_view>

#include "recipe/chat_template.h"
#include "tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer;
    constexpr std::string_view context = R"({"messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi \"there\"\n"}, {"role": "assistant", "content": null,
         "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]},
        {"role": "tool", "tool_call_id": "1", "content": "{}"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})";
    constexpr size_t max_output = 8 << 20;  // more than any render of this context may give
    const auto require = [](bool condition) {
        if (!condition) std::abort();
    };
    // Chained operators take time that grows with the square of their number, and sanitizers multiply it.
    if (size > 2048) return -1;
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const auto compiled = recipe::ChatTemplate::compile(source);
    if (!compiled) {
        require(!compiled.error().message.empty());
        return 0;
    }
    require(compiled->source() == source);
    const auto rendered = compiled->render(context, 1'700'000'000);
    if (rendered)
        require(rendered->size() <= max_output &&
                tokenizer::valid_utf8_prefix(*rendered) == rendered->size());
    else
        require(!rendered.error().message.empty());
    return 0;
}
