// What --cpu-info prints: the processor, what it offers, and which kernels are used and why.
#pragma once

#include <string>

#include "base/result.h"

namespace deepinfer::cli {

// Error: DEEPINFER_ISA names kernels that do not exist, or not for this processor.
Result<std::string> cpu_info();
std::string processor_name();  // as the processor calls itself; "unknown" if it does not

}  // namespace deepinfer::cli
