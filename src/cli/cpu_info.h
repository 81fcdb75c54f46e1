// What --cpu-info prints: the processor, what it offers, and which kernels are used and why.
#pragma once

#include <string>

namespace deepinfer::cli {

std::string cpu_info();

}  // namespace deepinfer::cli
