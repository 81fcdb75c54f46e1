// How quick the disk store is: writing so many bytes of blocks, opening the folder again, reading everything back, from the
// page cache and from the disk. Prints one line of JSON. bench/store_speed.py runs it beside fio.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cstring>
#include <iostream>

#include "base/file_descriptor.h"
#include "base/huge_buffer.h"
#include "store/file_store.h"

namespace deepinfer {
namespace {

using store::Clock;

constexpr size_t at_once = 16;  // blocks of a call, as the engine asks

struct Options {
    std::string folder;
    double gib = 1;
    uint32_t block_bytes =
        24 * 2 * 2 * 64 * 64 * 2;  // Qwen2.5 0.5B, F16: layers, K and V, heads, width, tokens
    bool sync = true;
};

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class Bench {
  public:
    explicit Bench(const Options& options)
        : options_(options),
          count_(static_cast<size_t>(options.gib * 1024 * 1024 * 1024 / options.block_bytes)),
          memory_(HugeBuffer::allocate(at_once * options.block_bytes).value()) {
        shape_.fingerprint.bytes.fill(7);
        shape_.sections.assign(24, options.block_bytes / 24);
        shape_.block_bytes = 24 * (options.block_bytes / 24);
        kv::extend_keys(kv::CacheScope{shape_.fingerprint, {}, {}, {}}.root(), tokens(), {}, keys_);
    }

    boost::json::object run() {
        boost::json::object line{{"block_bytes", shape_.block_bytes}, {"blocks", count_}};
        {
            const auto store = open();
            const auto begin = Clock::now();
            write(*store);
            line["write_bytes_per_second"] = per_second(begin);
            line["read_cached_bytes_per_second"] = read(*store);
        }
        forget_pages();
        const auto begin = Clock::now();
        const auto store = open();
        line["open_seconds"] = since(begin);
        line["found"] = store->find(keys_, Clock::now() + std::chrono::seconds(10));
        line["read_bytes_per_second"] = read(*store);
        return line;
    }

  private:
    double per_second(Clock::time_point begin) const {
        return static_cast<double>(count_) * shape_.block_bytes / since(begin);
    }
    std::vector<TokenId> tokens() {
        if (tokens_.empty())
            for (size_t i = 0; i < count_ * kv::block_tokens; ++i)
                tokens_.push_back(static_cast<TokenId>(i % 50'021));
        return tokens_;
    }
    std::span<const TokenId> tokens_of(size_t i) const {
        return std::span(tokens_).subspan(i * kv::block_tokens, kv::block_tokens);
    }
    std::span<uint8_t> buffer(size_t i) const {
        return {memory_.data() + i * shape_.block_bytes, shape_.block_bytes};
    }
    std::unique_ptr<store::BlockStore> open() const {
        store::FileStoreOptions file;
        file.folder = options_.folder;
        file.shape = shape_;
        file.budget_bytes = uint64_t{1} << 50;
        file.sync = options_.sync;
        return std::move(store::open_file_store(file).value());
    }
    void write(store::BlockStore& store) {
        for (size_t first = 0; first < count_; first += at_once) {
            std::vector<store::Put> items;
            for (size_t i = first; i < std::min(count_, first + at_once); ++i) {
                store::Put put;
                put.key = keys_[i];
                put.index = static_cast<int32_t>(i);
                std::ranges::copy(tokens_of(i), put.tokens.begin());
                put.seconds = 1;
                put.bytes = buffer(i - first);
                std::memcpy(buffer(i - first).data(), &i, sizeof i);  // no two are the same
                items.push_back(put);
            }
            store.put(items, Clock::now() + std::chrono::minutes(1));
            for (const store::Put& item : items)
                if (item.outcome != store::Put::Outcome::stored)
                    throw std::runtime_error("a block was not stored");
        }
    }
    double read(store::BlockStore& store) {
        const auto begin = Clock::now();
        for (size_t first = 0; first < count_; first += at_once) {
            std::vector<store::Get> items;
            for (size_t i = first; i < std::min(count_, first + at_once); ++i)
                items.push_back({keys_[i], tokens_of(i), buffer(i - first)});
            store.get(items, Clock::now() + std::chrono::minutes(1));
            for (const store::Get& item : items)
                if (item.outcome != store::Get::Outcome::ok) throw std::runtime_error("a block was not read");
        }
        return per_second(begin);
    }
    // So that what follows comes from the disk.
    void forget_pages() const {
        for (const auto& file : std::filesystem::recursive_directory_iterator(options_.folder)) {
            if (!file.is_regular_file()) continue;
            const FileDescriptor descriptor(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
            ::fdatasync(descriptor.get());
            ::posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
        }
    }

    const Options options_;
    const size_t count_;
    store::BlockShape shape_;
    std::vector<TokenId> tokens_;
    std::vector<kv::BlockKey> keys_;
    HugeBuffer memory_;  // as the engine's pool
};

}  // namespace
}  // namespace deepinfer

int main(int argc, char** argv) {
    CLI::App app("How quick the disk store is, in a folder of its own that should be empty");
    deepinfer::Options options;
    app.add_option("folder", options.folder)->required();
    app.add_option("--gib", options.gib, "blocks to write, all together")->check(CLI::PositiveNumber);
    app.add_option("--block-bytes", options.block_bytes)->check(CLI::Range(24u, 1u << 28));
    app.add_flag("!--no-sync", options.sync, "do not wait for the disk when writing");
    CLI11_PARSE(app, argc, argv);
    try {
        std::cout << boost::json::serialize(deepinfer::Bench(options).run()) << std::endl;
    } catch (const std::exception& error) {
        std::cerr << "store_speed: " << error.what() << '\n';
        return 1;
    }
}
