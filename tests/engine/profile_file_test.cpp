// Profiles on disk: read back as written, and measured again whenever they would be wrong.
#include "engine/profile_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "engine/cost_model.h"
#include "support/hash_model.h"

namespace deepinfer::engine {
namespace {

namespace fs = std::filesystem;

class ProfileFile : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::path(::testing::TempDir()) / ("profiles-" + std::to_string(::getpid()));
        fs::remove_all(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::vector<fs::path> files() const {
        std::vector<fs::path> found;
        for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
        return found;
    }
    fs::path folder_;
};

const std::vector<StepMeasurement> two_steps{{{{16, 0, 1}}, 0.0123456789012345},
                                             {{{1, 700, 1}, {48, 64, 0}}, 1.5}};

void expect_equal(const std::vector<StepMeasurement>& a, const std::vector<StepMeasurement>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].seconds, b[i].seconds);
        ASSERT_EQ(a[i].step.size(), b[i].step.size());
        for (size_t k = 0; k < a[i].step.size(); ++k) {
            EXPECT_EQ(a[i].step[k].rows, b[i].step[k].rows);
            EXPECT_EQ(a[i].step[k].position, b[i].step[k].position);
            EXPECT_EQ(a[i].step[k].logit_rows, b[i].step[k].logit_rows);
        }
    }
}

TEST_F(ProfileFile, IsReadAsItWasWritten) {
    const fs::path path = folder_ / "deep" / "down.json";
    EXPECT_EQ(read_profile(path, "k").error().code, ErrorCode::not_found);
    ASSERT_TRUE(write_profile(path, "k", two_steps).ok());
    auto read = read_profile(path, "k");
    ASSERT_TRUE(read.ok()) << read.error().message;
    expect_equal(*read, two_steps);
    EXPECT_EQ(read_profile(path, "another").error().code, ErrorCode::corrupt_data);
    ASSERT_TRUE(write_profile(path, "k", {two_steps[0]}).ok());
    EXPECT_EQ(read_profile(path, "k")->size(), 1u);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deep"), {}), 1) << "nothing else is left";
    EXPECT_EQ(write_profile("/proc/none/x.json", "k", two_steps).error().code, ErrorCode::io_error);
}

TEST_F(ProfileFile, WhatIsDamagedIsRefused) {
    const auto file = [](const std::string& steps) {
        return R"({"step_profile":1,"of":"k","steps":)" + steps + "}";
    };
    const auto with = [&](const std::string& seconds, const std::string& chunks) {
        return file(R"([{"seconds":)" + seconds + R"(,"chunks":)" + chunks + "}]");
    };
    ASSERT_TRUE(parse_profile(with("0.5", "[[1,0,1]]"), "k").ok());
    std::string many = "[", chunks = "[";
    for (size_t i = 0; i <= most_profile_steps; ++i)
        many += std::string(i ? "," : "") + R"({"seconds":0.5,"chunks":[[1,0,1]]})";
    for (size_t i = 0; i <= most_profile_chunks; ++i) chunks += i ? ",[1,0,1]" : "[1,0,1]";
    for (const std::string& text :
         {std::string(),
          std::string("{"),
          std::string("[]"),
          std::string("{}"),
          file("[]"),
          file("{}"),
          file(many + "]"),
          with("0.5", chunks + "]"),
          with("0.5", "[]"),
          with("0.5", "[[1,0]]"),
          with("0.5", "[[1,0,1,1]]"),
          with("0.5", "[[0,0,0]]"),
          with("0.5", "[[1,-1,1]]"),
          with("0.5", "[[1,0,2]]"),
          with("0.5", "[[1,0,-1]]"),
          with("0.5", "[[1.5,0,1]]"),
          with("0.5", "[[1073741824,1,0]]"),
          with("0.5", "[[4294967297,0,1]]"),
          with("0", "[[1,0,1]]"),
          with("0.0", "[[1,0,1]]"),
          with("-1.0", "[[1,0,1]]"),
          with("1e9", "[[1,0,1]]"),
          with("\"1\"", "[[1,0,1]]"),
          with("0.5", "[[1,0,1]]") + "x",
          std::string(R"({"step_profile":2,"of":"k","steps":[{"seconds":0.5,"chunks":[[1,0,1]]}]})"),
          std::string(R"({"step_profile":1,"of":"j","steps":[{"seconds":0.5,"chunks":[[1,0,1]]}]})"),
          std::string(
              R"({"step_profile":1,"of":"k","more":1,"steps":[{"seconds":0.5,"chunks":[[1,0,1]]}]})")})
        EXPECT_EQ(parse_profile(text, "k").error().code, ErrorCode::corrupt_data) << text.substr(0, 100);
    const std::string huge = with("0.5", "[[1,0,1]]") + std::string(most_profile_bytes, ' ');
    EXPECT_EQ(parse_profile(huge, "k").error().code, ErrorCode::resource_exhausted);
}

// Counts what it computes.
class Counted final : public models::Model {
  public:
    const models::ModelInfo& info() const override { return model_.info(); }
    Result<kv::Layout> kv_layout(KvType type) const override { return model_.kv_layout(type); }
    void forward(const models::Batch& batch, const kv::BlockPool& pool, float* logits) override {
        ++steps;
        model_.forward(batch, pool, logits);
    }
    explicit Counted(std::chrono::milliseconds step = std::chrono::milliseconds(3))
        : model_(64, 4096, step) {}
    int steps = 0;

  private:
    testing::HashModel model_;
};

// A slow model is profiled no longer than a quick one: by what tells most.
TEST_F(ProfileFile, TakesItsTimeOnly) {
    for (const int milliseconds : {30, 100, 400}) {
        Counted model{std::chrono::milliseconds(milliseconds)};
        const auto profile = profile_steps(model, KvType::f16, 0.2);
        ASSERT_TRUE(profile.ok());
        EXPECT_GE(profile->steps.size(), 1u);
        EXPECT_EQ(profile->steps[0].step.size(), 1u);
        EXPECT_EQ(profile->steps[0].step[0].rows, 1);
        EXPECT_LE(model.steps, 200 / milliseconds + 2);
    }
}

TEST_F(ProfileFile, IsUsedAgainForTheSameModelAndMachineOnly) {
    std::vector<std::string> notices;
    ProfileOptions options{
        .seconds = 2, .folder = folder_, .machine = "one", .notice = [&](const std::string& line) {
            notices.push_back(line);
        }};
    const auto profile = [&](bool measures) {
        Counted model;
        auto costs = profiled_cost_model(model, KvType::f16, options);
        EXPECT_TRUE(costs.ok());
        EXPECT_EQ(model.steps > 0, measures);
        return (*costs)->coefficients();
    };
    const StepFeatures first = profile(true);
    if (!fs::exists(folder_))
        GTEST_SKIP() << "the machine is too busy: steps of 3 ms did not take equally long";
    EXPECT_EQ(profile(false), first);
    EXPECT_TRUE(notices.empty());
    const fs::path path = files().at(0);
    options.machine = "two";
    profile(true);
    options.machine = "one";
    for (const char* damaged : {"", "{\"step_profile\":1", "something else\n"}) {
        std::ofstream(path) << damaged;
        profile(true);
        EXPECT_EQ(notices.size(), 1u);
        notices.clear();
    }
    profile(false);
}

}  // namespace
}  // namespace deepinfer::engine
