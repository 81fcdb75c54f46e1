// Packed weights in a file: the next start maps them instead of packing, and processes that use the same file share
// one copy in memory.
//
// The file is built beside its place, as PATH.building, and renamed when it is complete and on its disk. Whoever
// builds holds a lock (flock) on it: others wait and then find the finished file, and when the builder dies the
// lock is gone, so that the next one takes the unfinished file over. A file in place is never written to, only
// replaced, and stays valid for those who have mapped it.
//
// Threads: objects are used by one thread at a time. Different threads and processes may use the same path.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "models/model.h"
#include "models/weight_file_header.h"

namespace deepinfer::models {

// Where a file keeps its pages, as far as memory accounts differ.
WeightPlace weight_place(int descriptor);

struct WeightFile {
    HugeBuffer memory;  // of the whole file, header first
    WeightPlace place = WeightPlace::disk_file;
    WeightFileHeader header;

    uint8_t* data() const { return memory.data() + weight_header_bytes; }
};

// Maps the file read-only. Nothing but its header is read. Errors: not_found if it has to be built (the message
// says why: it is missing, damaged, of something else), invalid_argument if what is there is no weight file
// and must not be replaced, io_error.
Result<WeightFile> open_weight_file(const std::filesystem::path& path, const WeightIdentity& wanted);

// Reads all packed weights and compares them with the checksum in the header; corrupt_data if they differ. Takes about as
// long as reading memory at half its speed, a noticeable part of a start, so it is done when asked for.
Status verify(const WeightFile& file, ThreadPool& pool);

// Whether the file starts as weight files do. False for files that cannot be read.
bool is_weight_file(const std::filesystem::path& path);
// Maps a weight file of any model. Errors: not_found, io_error; corrupt_data, which says what is wrong with the header.
Result<WeightFile> open_any_weight_file(const std::filesystem::path& path);

// Brings the pages into memory, as far as they are not, with huge pages where the file system has them.
Status read_in(const WeightFile& file, ThreadPool& pool, const Progress& progress);

// The right to build the file at a path, and the unfinished file. Destroyed before finish(), it leaves nothing.
class WeightFileBuilder {
  public:
    // Waits for others who build the same file, after telling `notice`; look for the file again afterwards.
    // Errors: io_error if the folder cannot be written to.
    static Result<WeightFileBuilder> start(const std::filesystem::path& path, const Notice& notice);
    WeightFileBuilder(WeightFileBuilder&& other) noexcept;
    WeightFileBuilder& operator=(WeightFileBuilder&&) = delete;
    ~WeightFileBuilder();

    WeightPlace place() const { return place_; }
    // Takes the room for the file, zero-filled: where data() can be written to, nothing is missing later. Error:
    // resource_exhausted, which says how much there is.
    Status reserve(const WeightIdentity& identity, ThreadPool& pool);
    uint8_t* data() const { return memory_.data() + weight_header_bytes; }
    // Computes the checksum, too.
    Result<WeightFile> finish(ThreadPool& pool);

  private:
    WeightFileBuilder(int descriptor, std::filesystem::path path, std::filesystem::path unfinished);
    Status take_pages(ThreadPool& pool);
    Error no_room(int error_number) const;

    int descriptor_;
    std::filesystem::path path_, unfinished_;
    WeightPlace place_;
    uint64_t page_bytes_;                 // of the file system
    std::optional<uint64_t> free_bytes_;  // before anything was taken
    WeightFileHeader header_;
    HugeBuffer memory_;
};

}  // namespace deepinfer::models
