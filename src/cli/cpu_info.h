// What --cpu-info prints: the processor, what it offers, and which kernels are used and why.
#pragma once

#include <string>

namespace deepinfer::cli {

std::string cpu_info();
std::string processor_name();  // as the processor calls itself; "unknown" if it does not

}  // namespace deepinfer::cli
