// What a person may want to know of a folder of blocks, and do to it: whatever models its blocks are of.
//
// Other processes may use the folder meanwhile. Threads: functions without state.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/retention.h"

namespace deepinfer::store {

struct SegmentInfo {
    std::filesystem::path path;
    std::string fingerprint;  // hexadecimal
    kv::Retention retention = kv::Retention::chat;
    uint64_t bytes = 0, blocks = 0, block_bytes = 0;
    double seconds = 0;     // that computing its blocks takes
    int64_t last_used = 0;  // seconds since 1970
    bool sealed = false;    // complete, with an index
    bool in_use = false;    // a process is writing it
    std::string problem;    // why it cannot be read; empty: it can
};

// All segments below the folder, by path. Error: not_found.
Result<std::vector<SegmentInfo>> list_segments(const std::filesystem::path& folder);

struct SegmentCheck {
    uint64_t intact = 0, damaged = 0;  // blocks
};
// Reads everything of a segment and compares all checksums. Error: of reading it.
Result<SegmentCheck> check_segment(const SegmentInfo& segment);

struct Deleted {
    uint64_t bytes = 0;
    uint64_t in_use_bytes = 0;  // that a process is writing: they stay
    Error failure;              // of the first file that could not be deleted; no message: there was none
};
// Deletes segments for which `which` says so, but those that a process is writing.
Deleted delete_segments(const std::vector<SegmentInfo>& segments,
                        const std::function<bool(const SegmentInfo&)>& which);

}  // namespace deepinfer::store
