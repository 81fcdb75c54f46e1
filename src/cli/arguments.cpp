#include <algorithm>

#include "cli/commands.h"

namespace deepinfer::cli {

std::vector<std::string> readable_arguments(int count, const char* const* arguments) {
    std::vector<std::string> readable(arguments + std::min(count, 1), arguments + count);
    if (!readable.empty() && readable[0] != "bench") {
        std::replace(readable.begin(), readable.end(), std::string("-ctk"), std::string("--cache-type-k"));
        std::replace(readable.begin(), readable.end(), std::string("-ctv"), std::string("--cache-type-v"));
    }
    std::reverse(readable.begin(), readable.end());
    return readable;
}

}  // namespace deepinfer::cli
