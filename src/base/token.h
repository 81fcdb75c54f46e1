// Token ids, as every layer from the tokenizer to the kernels sees them.
#pragma once

#include <cstdint>

namespace deepinfer {

using TokenId = int32_t;  // 0 <= id < vocabulary size; negative values are never valid tokens

}  // namespace deepinfer
