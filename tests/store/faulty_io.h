// The operating system's calls, one of which fails, changes bytes, or ends the process.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <vector>

#include "store/file_io.h"

namespace deepinfer::store {

enum class Fault { none, error, no_space, invalid, half, flipped_bit, die_before, die_half, die_after };
constexpr std::array all_errors{Fault::error, Fault::no_space, Fault::invalid, Fault::half,
                                Fault::flipped_bit};
constexpr std::array all_deaths{Fault::die_before, Fault::die_half, Fault::die_after};

class FaultyIo final : public FileIo {
  public:
    // The fault happens at call number `at`, counted from 0; -1: never.
    void arm(Fault fault, int at) { fault_ = fault, at_ = at, calls_ = 0; }
    int calls() const { return calls_; }
    // Whether anything is in memory already.
    void set_cached(bool cached) { cached_ = cached; }
    int direct_reads() const { return direct_reads_; }

    int open(const char* path, int flags, mode_t mode) override {
        return around([&] { return FileIo::open(path, flags, mode); });
    }
    ssize_t preadv(int descriptor, const iovec* parts, int count, int64_t offset) override {
        const Fault fault = next();
        if (fails(fault)) return -1;
        const ssize_t done = FileIo::preadv(descriptor, parts, fault == Fault::half ? 1 : count, offset);
        if (fault == Fault::flipped_bit && done > 0) {
            // Somewhere in the last part that was filled.
            const iovec& part = parts[count - 1 > 0 ? count - 2 : 0];
            static_cast<uint8_t*>(part.iov_base)[part.iov_len / 2] ^= 4;
        }
        if (fault == Fault::die_half || fault == Fault::die_after) ::_exit(9);
        return done;
    }
    int in_memory(int descriptor, int64_t offset, int64_t bytes) override {
        return around([&] { return cached_ ? FileIo::in_memory(descriptor, offset, bytes) : 0; });
    }
    int set_direct(int descriptor, bool on) override {
        direct_reads_ += on;
        return around([&] { return FileIo::set_direct(descriptor, on); });
    }
    ssize_t pwritev(int descriptor, const iovec* parts, int count, int64_t offset) override {
        const Fault fault = next();
        if (fails(fault)) return -1;
        if (fault == Fault::half || fault == Fault::die_half) {
            const iovec part{parts[count / 2].iov_base, parts[count / 2].iov_len / 2};
            std::vector<iovec> some(parts, parts + count / 2);
            some.push_back(part);
            const ssize_t done =
                FileIo::pwritev(descriptor, some.data(), static_cast<int>(some.size()), offset);
            if (fault == Fault::die_half) ::_exit(9);
            return done;
        }
        if (fault == Fault::flipped_bit) {
            std::vector<uint8_t> copy(static_cast<const uint8_t*>(parts[0].iov_base),
                                      static_cast<const uint8_t*>(parts[0].iov_base) + parts[0].iov_len);
            copy[copy.size() / 3] ^= 16;
            std::vector<iovec> changed(parts, parts + count);
            changed[0].iov_base = copy.data();
            return FileIo::pwritev(descriptor, changed.data(), count, offset);
        }
        const ssize_t done = FileIo::pwritev(descriptor, parts, count, offset);
        if (fault == Fault::die_after) ::_exit(9);
        return done;
    }
    int fdatasync(int descriptor) override {
        return around([&] { return FileIo::fdatasync(descriptor); });
    }
    int sync_folder(const char* path) override {
        return around([&] { return FileIo::sync_folder(path); });
    }
    int unlink(const char* path) override {
        return around([&] { return FileIo::unlink(path); });
    }
    int truncate(int descriptor, int64_t bytes) override {
        return around([&] { return FileIo::truncate(descriptor, bytes); });
    }
    int set_used(int descriptor, int64_t seconds) override {
        return around([&] { return FileIo::set_used(descriptor, seconds); });
    }

  private:
    Fault next() { return calls_++ == at_ ? fault_.load() : Fault::none; }
    static bool fails(Fault fault) {
        if (fault == Fault::die_before) ::_exit(9);
        if (fault != Fault::error && fault != Fault::no_space && fault != Fault::invalid) return false;
        errno = fault == Fault::error ? EIO : fault == Fault::no_space ? ENOSPC : EINVAL;
        return true;
    }
    template <class Call>
    int around(Call call) {
        const Fault fault = next();
        if (fails(fault)) return -1;
        const int result = call();
        if (fault == Fault::die_half || fault == Fault::die_after) ::_exit(9);
        return result;
    }

    std::atomic<Fault> fault_{Fault::none};
    std::atomic<int> at_{-1}, calls_{0}, direct_reads_{0};
    std::atomic<bool> cached_{true};
};

}  // namespace deepinfer::store
