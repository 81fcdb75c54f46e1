// Request bodies of the three protocols through the official codec: refused in words, or a prompt whose text is its pieces.
// The first byte chooses the protocol and the model.
#include <cstdint>
#include <cstdlib>

#include "api/official_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer;
    if (size < 1) return 0;
    static api::OfficialService service;
    service.models["m"] = data[0] & 4 ? api::Wording::deepseek_v4 : api::Wording::deepseek_v41;
    const auto protocol = static_cast<api::Protocol>(data[0] % 3);
    const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
    const auto read = api::read_official_request(service, protocol, body);
    if (!read) {
        if (read.error().message.empty() || read.error().status != 400) std::abort();
        return 0;
    }
    size_t end = 0, images = 0;
    const recipe::MarkedText& marked = read->prompt.marked;
    for (const recipe::Range& range : marked.special) {
        if (range.begin < end || range.end <= range.begin || range.end > marked.text.size()) std::abort();
        end = range.end;
        images += marked.text.substr(range.begin, range.end - range.begin) == service.marks.image;
    }
    if (images != read->prompt.images.size()) std::abort();
    return 0;
}
