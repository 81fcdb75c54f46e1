// Blocks in a folder, on a disk of this machine or on a file system that machines share.
//
//   <folder>/<fingerprint>/<class>-<writer>-<number>.segment          (segment.h)
//
// Who writes: every process appends to segments of its own, one per retention class, and holds a lock (flock) on each while
// it does. put() writes all its blocks, then makes them durable with one call for each segment (group commit), and only then
// are they found here; so what fails half-way is never seen. Others find a record when it is written: their reads compare its
// checksums. A segment that is full, or whose process ends, is sealed.
// Who reads: all segments of the folder that have the fingerprint. Those of other processes are found by looking at the
// folder, at most once a second, when a look-up comes up short, and not for longer than the look-up's deadline.
// Who cleans: everybody. At the start and now and then, segments whose class's time has passed since they were used last (the
// file's time of change, which hits renew) are deleted; when the folder has more bytes than the budget, those with the least
// worth: seconds of computing that their blocks save, per byte, divided by the time since each was used. Blocks of the
// victim that are worth more than the next victim are appended again, a fifth of it at most.
// Who repairs: whoever opens the folder takes over a segment that is not sealed and whose lock is free, since its writer is
// gone, and seals it behind its last whole record. On file systems without locks it only reads it.
//
// The folder may be deleted, in part or whole, by anybody at any time: what was in it is a miss, and it is made again.
//
// Failures of single calls end in misses or blocks that are not stored. A block that is damaged is forgotten; its bytes
// go with its segment.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "store/block_store.h"
#include "store/file_io.h"

namespace deepinfer::store {

struct FileStoreOptions {
    std::filesystem::path folder;
    BlockShape shape;
    uint64_t budget_bytes = uint64_t{16} << 30;  // of the folder, all models together
    // Of each tenant's blocks of this model that are found; 0: no limit of its own. The bytes of older ones are given back when
    // their segment goes.
    uint64_t tenant_bytes = 0;
    // Files get the mode that the umask leaves, else only their owner may read them. What other users write is found if they may
    // read it; they renew what they may write to.
    bool others_read = false;
    int64_t segment_bytes = int64_t{64} << 20;  // a segment is full then
    bool sync = true;  // wait until blocks are on the disk; else they survive the process only
    std::string name = "disk";
    std::function<int64_t()> now = nullptr;  // seconds since 1970; null: the clock
    std::shared_ptr<FileIo> io = nullptr;    // null: the operating system's
};

// Errors: io_error if the folder cannot be made or written to; unsupported for the shape.
Result<std::unique_ptr<BlockStore>> open_file_store(const FileStoreOptions& options);

}  // namespace deepinfer::store
