// Weights kept in files: the same answers as without, built once, and built again whenever they would be wrong.
#include "models/weight_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "models/model.h"

namespace deepinfer::models {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto serve = kernels::Compute::serve, f32 = kernels::Compute::f32;

struct Loaded {
    std::unique_ptr<checkpoint::Checkpoint> checkpoint;
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<Model> model;
    std::vector<std::string> notices;
    std::string error;
    ErrorCode code = ErrorCode::internal;

    std::vector<float> logits() const {
        const auto layout = model->kv_layout(KvType::f16);
        EXPECT_TRUE(layout.ok());
        auto blocks = kv::BlockPool::create(*layout, 4);
        EXPECT_TRUE(blocks.ok());
        const std::vector<kv::BlockId> table{blocks->allocate()};
        Batch batch;
        batch.tokens = {1, 17, 4, 99, 23, 42};
        batch.sequences = {{0, 6, 0, table}};
        batch.logit_rows = {0, 1, 2, 3, 4, 5};
        std::vector<float> values(6 * static_cast<size_t>(model->info().vocabulary));
        model->forward(batch, *blocks, values.data());
        return values;
    }
};

Loaded load(const fs::path& file, const fs::path& weight_file, kernels::Compute compute = serve,
            const Progress& progress = {}, const Notice& notice = {}, bool verify = false) {
    Loaded loaded;
    auto checkpoint = checkpoint::Checkpoint::open(file);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    loaded.checkpoint = std::move(*checkpoint);
    loaded.pool = std::make_unique<ThreadPool>(2);
    LoadOptions options;
    options.compute = compute;
    options.isa = kernels::supported_isas().back();
    options.weight_file = weight_file;
    options.verify_weight_file = verify;
    options.progress = progress;
    options.notice = [&](const std::string& line) {
        loaded.notices.push_back(line);
        if (notice) notice(line);
    };
    auto model = Model::load(*loaded.checkpoint, *loaded.pool, options);
    if (model)
        loaded.model = std::move(*model);
    else
        loaded.error = model.error().message, loaded.code = model.error().code;
    return loaded;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(0, std::memcmp(a.data(), b.data(), a.size() * sizeof(float)));
}

ino_t inode(const fs::path& path) {
    struct stat info = {};
    EXPECT_EQ(0, stat(path.c_str(), &info)) << path;
    return info.st_ino;
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The parameter is a folder of a file system: an ordinary one, tmpfs, hugetlbfs (where DEEPINFER_HUGETLBFS says that
// one is mounted, with 20 free pages).
class WeightFileTest : public testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        std::string base = GetParam();
        if (base == "hugetlbfs") {
            const char* mounted = std::getenv("DEEPINFER_HUGETLBFS");
            if (!mounted) GTEST_SKIP() << "DEEPINFER_HUGETLBFS names no folder on a hugetlbfs";
            base = mounted;
        } else if (base == "ordinary") {
            base = fs::temp_directory_path();
        }
        std::string name = base + "/weight_file_XXXXXX";
        if (!fs::is_directory(base) || !mkdtemp(name.data())) GTEST_SKIP() << base << " cannot be used";
        folder = name;
        std::string models_name = fs::temp_directory_path() / "weight_file_models_XXXXXX";
        ASSERT_NE(mkdtemp(models_name.data()), nullptr);
        models = models_name;
        llama = models / "llama.gguf";
        gemma = models / "gemma.gguf";
        const fs::path oracle = fs::path(DEEPINFER_TEST_DATA) / "oracle/gguf";
        fs::copy_file(oracle / "llama-bf16.gguf", llama);
        fs::copy_file(oracle / "gemma3-bf16.gguf", gemma);
        for (const fs::path& path : {folder, models}) fs::permissions(path, fs::perms{0755});
        weights = folder / "weights";
        unfinished = folder / "weights.building";
    }
    void TearDown() override {
        if (!folder.empty()) fs::remove_all(folder);
        if (!models.empty()) fs::remove_all(models);
    }

    // Loads and expects that the file is built for this reason, is right, and is only mapped after that.
    void expect_built(const fs::path& file, const std::string& why, kernels::Compute compute = serve) {
        const Loaded built = load(file, weights, compute);
        ASSERT_TRUE(built.model) << built.error;
        ASSERT_EQ(built.notices.size(), 1u) << why;
        EXPECT_TRUE(contains(built.notices[0], "building weight file " + weights.string()))
            << built.notices[0];
        EXPECT_TRUE(contains(built.notices[0], why)) << built.notices[0];
        expect_mapped(file, compute);
    }
    void expect_mapped(const fs::path& file, kernels::Compute compute = serve) {
        const ino_t before = inode(weights);
        const Loaded mapped = load(file, weights, compute), plain = load(file, "", compute);
        ASSERT_TRUE(mapped.model) << mapped.error;
        EXPECT_TRUE(mapped.notices.empty());
        EXPECT_EQ(inode(weights), before);
        EXPECT_FALSE(fs::exists(unfinished));
        EXPECT_NE(mapped.model->info().weight_place, WeightPlace::private_memory);
        EXPECT_EQ(plain.model->info().weight_place, WeightPlace::private_memory);
        EXPECT_EQ(mapped.model->info().weight_bytes, plain.model->info().weight_bytes);
        expect_same_bits(mapped.logits(), plain.logits());
    }
    // Changes bytes of the file as no program should, under the eyes of nobody.
    void overwrite(off_t at, const std::string& bytes) {
        std::string text = read(weights);
        text.replace(static_cast<size_t>(at), bytes.size(), bytes);
        fs::remove(weights);
        write(weights, text);
    }

    fs::path folder, models, llama, gemma, weights, unfinished;
};

TEST_P(WeightFileTest, IsBuiltOnceAndMappedAfterThat) {
    expect_built(llama, "there is none yet");
    expect_mapped(llama);
}

TEST_P(WeightFileTest, IsBuiltAgainForAnotherModelModeOrFile) {
    expect_built(llama, "there is none yet");
    expect_built(gemma, "another model");
    expect_built(gemma, "--compute", f32);
    expect_built(gemma, "--compute", serve);
    fs::last_write_time(gemma, fs::last_write_time(gemma) + 1us);
    expect_built(gemma, "have changed");
    fs::resize_file(gemma, fs::file_size(gemma) + 1);  // a GGUF file may have something behind its tensors
    expect_built(gemma, "have changed");
}

TEST_P(WeightFileTest, AMappedFileOutlivesItsReplacement) {
    const Loaded first = load(llama, weights);
    ASSERT_TRUE(first.model) << first.error;
    const std::vector<float> before = first.logits();
    expect_built(gemma, "another model");
    expect_same_bits(first.logits(), before);
}

TEST_P(WeightFileTest, SomethingElseIsNotOverwritten) {
    const auto refused = [&](const fs::path& path, const std::string& why) {
        const Loaded loaded = load(llama, path);
        ASSERT_FALSE(loaded.model);
        EXPECT_EQ(loaded.code, ErrorCode::invalid_argument);
        EXPECT_TRUE(contains(loaded.error, path.string()) && contains(loaded.error, why)) << loaded.error;
    };
    const std::string model = read(llama);
    refused(llama, "something else");
    EXPECT_EQ(read(llama), model);
    refused(folder, "not a regular file");
    ASSERT_EQ(0, mkfifo((models / "fifo").c_str(), 0600));
    refused(models / "fifo", "not a regular file");
    EXPECT_TRUE(contains(load(llama, folder / "missing/weights").error, "No such file")) << "the folder";
}

TEST_P(WeightFileTest, AReadOnlyFolderIsEnoughForAFileThatExists) {
    expect_built(llama, "there is none yet");
    fs::permissions(folder, fs::perms{0555});
    const bool root = geteuid() == 0;
    ASSERT_EQ(0, root ? seteuid(65534) : 0);  // root may write everywhere
    const Loaded mapped = load(llama, weights), unwritable = load(gemma, weights);
    ASSERT_EQ(0, root ? seteuid(0) : 0);
    fs::permissions(folder, fs::perms{0755});
    EXPECT_TRUE(mapped.model) << mapped.error;
    ASSERT_FALSE(unwritable.model);
    EXPECT_EQ(unwritable.code, ErrorCode::io_error);
    EXPECT_TRUE(contains(unwritable.error, "cannot create " + unfinished.string())) << unwritable.error;
    expect_mapped(llama);
}

TEST_P(WeightFileTest, TwoAtOnceBuildItOnce) {
    const std::vector<float> expected = load(llama, "").logits();
    for (int round = 0; round < 5; ++round) {
        fs::remove(weights);
        std::atomic<int> waiting{0};
        Loaded loaded[2];
        std::vector<std::thread> threads;
        for (Loaded& target : loaded)
            threads.emplace_back([&] {
                for (++waiting; waiting < 2;) std::this_thread::yield();
                target = load(llama, weights);
            });
        for (std::thread& thread : threads) thread.join();
        int built = 0;
        for (const Loaded& one : loaded) {
            ASSERT_TRUE(one.model) << one.error;
            expect_same_bits(one.logits(), expected);
            for (const std::string& line : one.notices) built += contains(line, "building");
        }
        EXPECT_EQ(built, 1);
        EXPECT_FALSE(fs::exists(unfinished));
    }
}

TEST_P(WeightFileTest, ABuilderThatDiesLeavesNothingThatCounts) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        load(llama, weights, serve, [](uint64_t done, uint64_t) {
            if (done > 0) kill(getpid(), SIGKILL);
        });
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    ASSERT_TRUE(WIFSIGNALED(status)) << "the builder should have died";
    EXPECT_FALSE(fs::exists(weights));
    EXPECT_TRUE(fs::exists(unfinished));
    expect_built(llama, "there is none yet");
}

TEST_P(WeightFileTest, AbandonedFilesAreRemovedAndLiveOnesAreNot) {
    expect_built(llama, "there is none yet");
    const int abandoned = open(unfinished.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_GE(abandoned, 0);
    ASSERT_EQ(0, flock(abandoned, LOCK_EX));
    EXPECT_TRUE(load(llama, weights).model);  // a file that is right needs no builder
    EXPECT_TRUE(fs::exists(unfinished));

    // Whoever wants to build waits, and goes on when the builder is gone.
    const Loaded waited = load(gemma, weights, serve, {}, [&](const std::string& line) {
        if (!contains(line, "waiting for another process")) return;
        EXPECT_EQ(inode(unfinished), [&] {
            struct stat info = {};
            fstat(abandoned, &info);
            return info.st_ino;
        }());
        close(abandoned);
    });
    ASSERT_TRUE(waited.model) << waited.error;
    ASSERT_EQ(waited.notices.size(), 2u);
    EXPECT_FALSE(fs::exists(unfinished));

    close(open(unfinished.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    expect_mapped(gemma);  // which checks that the unfinished file is gone
}

INSTANTIATE_TEST_SUITE_P(FileSystems, WeightFileTest, testing::Values("ordinary", "/dev/shm", "hugetlbfs"),
                         [](const auto& test) {
                             return test.param == "/dev/shm" ? std::string("shm") : std::string(test.param);
                         });

// Where files can be written to in the ordinary way.
class DamagedWeightFileTest : public WeightFileTest {};

TEST_P(DamagedWeightFileTest, IsBuiltAgain) {
    expect_built(llama, "there is none yet");
    const auto size = fs::file_size(weights);
    const auto truncated = [&](uintmax_t bytes, const std::string& why) {
        SCOPED_TRACE(bytes);
        fs::resize_file(weights, bytes);
        expect_built(llama, why);
    };
    truncated(size - 1, "bytes instead of");
    truncated(size + 1, "bytes instead of");
    truncated(4096, "bytes instead of");
    truncated(100, "inside its header");
    truncated(5, "inside its header");
    truncated(0, "inside its header");
    overwrite(8, "\x07");
    expect_built(llama, "version 7");
    for (const off_t at : {12, 16, 24, 32, 40, 50, 70, 80, 88, 95}) {
        SCOPED_TRACE(at);
        overwrite(at, "\x5a");
        expect_built(llama, "header is damaged");
    }
    fs::remove(weights);
    write(weights, "notes");
    const Loaded refused = load(llama, weights);
    EXPECT_FALSE(refused.model);
    EXPECT_EQ(read(weights), "notes");
}

TEST_P(DamagedWeightFileTest, ABitFlipInTheWeightsIsFound) {
    expect_built(llama, "there is none yet");
    ThreadPool pool(2);
    const auto sound = open_any_weight_file(weights);
    ASSERT_TRUE(sound.ok());
    EXPECT_TRUE(verify(*sound, pool).ok());
    EXPECT_TRUE(load(llama, weights, serve, {}, {}, true).notices.empty());
    const auto last = static_cast<off_t>(weight_header_bytes + sound->header.identity.data_bytes - 1);
    for (const off_t at : {off_t{weight_header_bytes}, last / 2, last}) {
        SCOPED_TRACE(at);
        overwrite(at, std::string(1, static_cast<char>(read(weights)[static_cast<size_t>(at)] ^ 1)));
        const auto damaged = open_any_weight_file(weights);
        ASSERT_TRUE(damaged.ok());
        EXPECT_EQ(verify(*damaged, pool).error().code, ErrorCode::corrupt_data);
        const Loaded built = load(llama, weights, serve, {}, {}, true);
        ASSERT_EQ(built.notices.size(), 1u);
        EXPECT_TRUE(contains(built.notices[0], "do not match their checksum")) << built.notices[0];
        expect_mapped(llama);
    }
}

TEST_P(DamagedWeightFileTest, AnyWeightFileCanBeLookedAt) {
    EXPECT_FALSE(is_weight_file(weights));
    EXPECT_EQ(open_any_weight_file(weights).error().code, ErrorCode::not_found);
    expect_built(llama, "there is none yet");
    EXPECT_TRUE(is_weight_file(weights));
    EXPECT_FALSE(is_weight_file(llama));
    EXPECT_FALSE(is_weight_file(folder));
    fs::resize_file(weights, 100);
    EXPECT_EQ(open_any_weight_file(weights).error().code, ErrorCode::corrupt_data);
}

TEST_P(DamagedWeightFileTest, NoRoomIsAnErrorThatLeavesNothing) {
    const auto before = signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {}, small = {};
    ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &limit));
    small = limit;
    small.rlim_cur = 64 << 10;
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &small));
    const Loaded loaded = load(llama, weights);
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &limit));
    signal(SIGXFSZ, before);
    ASSERT_FALSE(loaded.model);
    EXPECT_EQ(loaded.code, ErrorCode::resource_exhausted);
    EXPECT_TRUE(contains(loaded.error, "no room for weight file " + weights.string())) << loaded.error;
    EXPECT_TRUE(fs::is_empty(folder));
}

INSTANTIATE_TEST_SUITE_P(FileSystems, DamagedWeightFileTest, testing::Values("ordinary"),
                         [](const auto& test) { return std::string(test.param); });

TEST(WeightFile, NeedsACheckpointThatIsAFile) {
    const std::string bytes = read(fs::path(DEEPINFER_TEST_DATA) / "oracle/gguf/llama-bf16.gguf");
    auto checkpoint = checkpoint::Checkpoint::parse_gguf(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(checkpoint.ok());
    ThreadPool pool(1);
    LoadOptions options;
    options.weight_file = fs::temp_directory_path() / "never_written";
    const auto model = Model::load(**checkpoint, pool, options);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, ErrorCode::invalid_argument);
    EXPECT_FALSE(fs::exists(options.weight_file));
}

}  // namespace
}  // namespace deepinfer::models
