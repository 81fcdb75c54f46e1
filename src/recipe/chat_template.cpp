#include "recipe/chat_template.h"

#include "deepinfer_rust.h"

namespace deepinfer::recipe {
namespace {

// A short template over a short conversation takes a few hundred steps. Per byte of input, eight bytes may be
// produced or looked at (one unit of fuel pays for 64).
constexpr uint64_t base_fuel = 2'000'000;
constexpr uint64_t input_bytes_per_fuel = 8;
// Milliseconds, on a busy machine some hundred times what a template needs.
constexpr uint32_t base_time = 5000, time_per_input_mib = 1000;
constexpr size_t base_output_bytes = size_t{4} << 20;
constexpr size_t output_bytes_per_input_byte = 4;

std::string take(DeepinferText text) {
    std::string copy(text.data, text.size);
    deepinfer_text_free(text);
    return copy;
}

}  // namespace

void ChatTemplate::Free::operator()(DeepinferTemplate* compiled) const { deepinfer_template_free(compiled); }

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
    ChatTemplate result;
    result.source_ = source;
    DeepinferText error{};
    result.compiled_.reset(deepinfer_template_compile(source.data(), source.size(), &error));
    if (!result.compiled_) return Error{ErrorCode::corrupt_data, "chat template: " + take(error)};
    return result;
}

Result<std::string> ChatTemplate::render(std::string_view context, int64_t unix_seconds) const {
    const uint64_t fuel = base_fuel + context.size() / input_bytes_per_fuel;
    const size_t max_output = base_output_bytes + context.size() * output_bytes_per_input_byte;
    DeepinferText text{};
    const uint32_t time = base_time + static_cast<uint32_t>(context.size() >> 20) * time_per_input_mib;
    const DeepinferRendered rendered = deepinfer_template_render(
        compiled_.get(), context.data(), context.size(), unix_seconds, fuel, max_output, time, &text);
    if (rendered == DEEPINFER_RENDERED) return take(text);
    return Error{
        rendered == DEEPINFER_RENDERING_TOO_SLOW ? ErrorCode::deadline_exceeded : ErrorCode::invalid_argument,
        take(text)};
}

}  // namespace deepinfer::recipe
