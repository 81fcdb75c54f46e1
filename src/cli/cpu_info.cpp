#include "cli/cpu_info.h"

#include <cstdlib>
#include <fstream>

#include "base/memory_info.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"

namespace deepinfer::cli {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line))
        if (line.starts_with("model name"))
            if (const size_t colon = line.find(": "); colon != std::string::npos)
                return line.substr(colon + 2);
    return "unknown";
}

namespace {

std::string huge_pages() {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string line;
    if (!std::getline(file, line)) return "not offered by this system: decoding is slower";
    if (line.find("[never]") != std::string::npos)
        return "switched off (transparent_hugepage/enabled): decoding is slower";
    return "used for weights and the KV cache";
}

}  // namespace

Result<std::string> cpu_info() {
    const char* forced = std::getenv("DEEPINFER_ISA");
    const auto chosen = kernels::choose_isa(forced ? forced : "");
    if (!chosen) return Error{chosen.error().code, "DEEPINFER_ISA: " + chosen.error().message};
    std::string text = "processor:    " + processor_name() + "\n";
    const int processors = Topology::of_this_process().processors(), threads = available_processors();
    text += "threads:      " + std::to_string(threads);
    if (threads < processors)
        text += " of " + std::to_string(processors) + " processors, by the quota of the control group";
    text += "\n";
    const auto memory = available_memory();
    text += "memory:       " + (memory ? format_bytes(*memory) + " available" : "unknown") + "\n";
    text += "huge pages:   " + huge_pages() + "\n";
    for (const kernels::Isa isa : kernels::all_isas)
        text += std::string("kernels:      ") + to_string(isa) +
                (kernels::supported(isa) ? "" : ", not on this processor") + "\n";
    text += std::string("chosen:       ") + to_string(*chosen);
    text +=
        forced && *forced ? ", because DEEPINFER_ISA asks for it\n" : ", the fastest this processor has\n";
    return text;
}

}  // namespace deepinfer::cli
