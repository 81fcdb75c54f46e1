#include "cli/stores.h"

#include <unistd.h>

#include <cstdlib>

#include "cli/cache_folder.h"
#include "run_command.h"
#include "store/file_store.h"
#include "support/folder.h"

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;
using deepinfer::testing::Folder;

store::BlockShape shape() {
    store::BlockShape shape;
    shape.sections = {1000};
    shape.block_bytes = 1000;
    return shape;
}

struct Opened {
    Result<engine::Stores> stores;
    std::string notice;
};
Opened open(const StoreOptions& options) {
    std::string notice;
    auto stores = open_stores(options, shape(), [&](const std::string& line) { notice += line; });
    return {std::move(stores), notice};
}

// Variables as given, while it lives.
class Environment {
  public:
    Environment(const std::string& cache, const std::string& home)
        : cache_(get("DEEPINFER_CACHE")), xdg_(get("XDG_CACHE_HOME")), home_(get("HOME")) {
        ::setenv("DEEPINFER_CACHE", cache.c_str(), 1);
        ::setenv("XDG_CACHE_HOME", "", 1);
        ::setenv("HOME", home.c_str(), 1);
    }
    ~Environment() { set("DEEPINFER_CACHE", cache_), set("XDG_CACHE_HOME", xdg_), set("HOME", home_); }

  private:
    static std::optional<std::string> get(const char* name) {
        const char* value = std::getenv(name);
        return value ? std::optional<std::string>(value) : std::nullopt;
    }
    static void set(const char* name, const std::optional<std::string>& value) {
        value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
    }
    const std::optional<std::string> cache_, xdg_, home_;
};

TEST(Stores, TheDiskStoreIsInTheCacheFolder) {
    const Folder folder;
    const Environment environment(folder.path, "");
    StoreOptions options;
    options.disk = true;
    const Opened opened = open(options);
    ASSERT_TRUE(opened.stores.ok()) << opened.stores.error().message;
    ASSERT_EQ(opened.stores->size(), 1u);
    EXPECT_EQ(opened.stores->front()->name(), "disk");
    EXPECT_TRUE(fs::is_directory(folder.path / "kv"));
    EXPECT_EQ(opened.notice, "");
}

// A server without a home, or with a read-only one, serves all the same.
TEST(Stores, AFolderThatNobodyNamedMayBeUnusable) {
    StoreOptions options;
    options.disk = true;
    {
        const Environment environment("", "");
        const Opened opened = open(options);
        ASSERT_TRUE(opened.stores.ok());
        EXPECT_TRUE(opened.stores->empty());
        EXPECT_NE(opened.notice.find("no home folder"), std::string::npos) << opened.notice;
    }
    const Environment environment("/proc/absent", "");
    const Opened opened = open(options);
    ASSERT_TRUE(opened.stores.ok());
    EXPECT_TRUE(opened.stores->empty());
    EXPECT_NE(opened.notice.find("/proc/absent"), std::string::npos) << opened.notice;
    options.folder = "/proc/absent";  // named: an error
    EXPECT_EQ(open(options).stores.error().code, ErrorCode::io_error);
}

// Known before a model is loaded, which may take a minute.
TEST(Stores, AFolderThatWasNamedIsCheckedFirst) {
    const Folder folder;
    const auto serve = [&](std::vector<std::string> more) {
        std::vector<std::string> arguments{"serve", "--model", folder.path / "absent.gguf", "--port", "0"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_command(add_serve_command, arguments);
    };
    for (const char* option : {"--cache-dir", "--shared-cache-dir"}) {
        StoreOptions options;
        options.disk = true;
        (option == std::string("--cache-dir") ? options.folder : options.shared_folder) = "/proc/absent";
        const Status status = check_stores(options);
        ASSERT_FALSE(status.ok());
        EXPECT_NE(status.error().message.find(std::string(option) + ": /proc/absent"), std::string::npos);
    }
    EXPECT_TRUE(check_stores({}).ok());
    StoreOptions limited;
    limited.tenant_gib = 1;
    EXPECT_EQ(check_stores(limited).error().code, ErrorCode::invalid_argument);
    limited.disk = true;
    EXPECT_TRUE(check_stores(limited).ok());
    // Options that would do nothing.
    for (const std::vector<std::string>& nonsense :
         {std::vector<std::string>{"--no-disk-cache", "--cache-dir", "x"},
          {"--no-disk-cache", "--cache-size", "1"},
          {"--shared-cache-size", "1"},
          {"--no-prefix-cache", "--cache-dir", "x"},
          {"--no-prefix-cache", "--cache-url", "redis://localhost"},
          {"--no-disk-cache", "--cache-retention", "agent"},
          {"--no-prefix-cache", "--share-prefix-cache"}}) {
        const Outcome outcome = serve(nonsense);
        EXPECT_EQ(outcome.code, 2) << nonsense[0];
        EXPECT_TRUE(outcome.err.find("excludes") != std::string::npos ||
                    outcome.err.find("requires") != std::string::npos)
            << outcome.err;
    }
}

TEST(Stores, TheSharedOneComesSecond) {
    const Folder folder;
    StoreOptions options;
    options.disk = true;
    options.folder = folder.path / "near";
    options.shared_folder = folder.path / "far";
    const Opened opened = open(options);
    ASSERT_TRUE(opened.stores.ok());
    ASSERT_EQ(opened.stores->size(), 2u);
    EXPECT_EQ((*opened.stores)[1]->name(), "shared");
}

TEST(Cache, SaysWhoWritesASegment) {
    const Folder folder;
    const auto list = [&] {
        return run_command(add_cache_command, {"cache", "ls", "--cache-dir", folder.path}).out;
    };
    store::FileStoreOptions options;
    options.folder = folder.path;
    options.shape = shape();
    auto store = store::open_file_store(options);
    ASSERT_TRUE(store.ok());
    const std::vector<uint8_t> bytes(1000);
    store::Put put;
    put.bytes = bytes;
    (*store)->put({&put, 1}, store::Clock::now() + std::chrono::seconds(10));
    ASSERT_EQ(put.outcome, store::Put::Outcome::stored);
    EXPECT_NE(list().find(" open\n"), std::string::npos) << list();
    const fs::path file = folder.files().at(0);
    fs::copy(file, file.parent_path() / "chat-left-0.segment");  // as if its writer had died
    EXPECT_NE(list().find(" left\n"), std::string::npos) << list();
    store->reset();
    EXPECT_NE(list().find(" sealed\n"), std::string::npos) << list();
    EXPECT_EQ(list().find(" open\n"), std::string::npos) << list();
}

TEST(Cache, AnEmptyOrMissingFolder) {
    const Folder folder;
    const auto cache = [&](const char* what, const fs::path& path) {
        return run_command(add_cache_command, {"cache", what, "--cache-dir", path.string()});
    };
    for (const char* what : {"ls", "stat", "verify", "gc", "clear"}) {
        EXPECT_EQ(cache(what, folder.path).code, 0) << what;
        const Outcome missing = cache(what, folder.path / "absent");
        EXPECT_EQ(missing.code, 1) << what;
        EXPECT_NE(missing.err.find("absent"), std::string::npos) << missing.err;
    }
    EXPECT_NE(cache("verify", folder.path).out.find("0 blocks intact, 0 damaged"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::cli
