// Whatever a model writes: cut anywhere, the parser gives the same answer; and what it holds back comes out in the end. The
// first byte chooses the options, the second seeds the cuts.
#include <cstdint>
#include <cstdlib>
#include <random>

#include "recipe/deepseek_output.h"

namespace {

using deepinfer::recipe::OutputEvent;

std::string joined(const std::vector<OutputEvent>& events) {
    std::string all;
    OutputEvent::Kind last{};
    for (const OutputEvent& event : events) {
        const bool goes_on =
            !all.empty() && event.kind == last && event.kind != OutputEvent::Kind::call_begin;
        if (!goes_on) all += '\x01' + std::to_string(static_cast<int>(event.kind)) + '\x02';
        all += event.text;
        last = event.kind;
    }
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer::recipe;
    if (size < 2) return 0;
    OutputOptions options;
    options.first = static_cast<FirstStage>(data[0] & 3);
    options.parse_calls = data[0] & 4;
    options.starts_in_calls = options.parse_calls && (data[0] & 8);
    options.json_only = data[0] & 16;
    if (data[0] & 32) options.stops = {"\n\nHuman:", "aab", "</"};
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);

    std::vector<OutputEvent> whole;
    DeepSeekOutput one(options);
    one.push(text, ByteSource::text, whole);
    one.finish(whole);

    std::vector<OutputEvent> pieces;
    DeepSeekOutput many(options);
    std::mt19937 random(data[1]);
    for (size_t at = 0; at < text.size();) {
        const size_t next = std::min(text.size() - at, size_t{1} + random() % 7);
        many.push(text.substr(at, next), ByteSource::text, pieces);
        at += next;
    }
    many.finish(pieces);
    // Of an answer in JSON what is left out is shown as a blank for each piece.
    if (one.stop() != many.stop() || (!options.json_only && joined(whole) != joined(pieces))) std::abort();
    return 0;
}
