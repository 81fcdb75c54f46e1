#include "store/block_store.h"

namespace deepinfer::store {

BlockShape block_shape(const kv::Layout& layout, const kv::BlockKey& fingerprint) {
    BlockShape shape{fingerprint, static_cast<uint32_t>(layout.block_bytes), {}};
    for (size_t i = 0; i < layout.layers.size(); ++i) {
        const size_t end = i + 1 < layout.layers.size() ? layout.layers[i + 1].k_offset : layout.block_bytes;
        shape.sections.push_back(static_cast<uint32_t>(end - layout.layers[i].k_offset));
    }
    return shape;
}

}  // namespace deepinfer::store
