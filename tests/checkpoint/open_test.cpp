// Checkpoint::open on files and folders: formats, config.json, shards.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "checkpoint/checkpoint.h"
#include "gguf_builder.h"

namespace deepinfer::checkpoint {
namespace {

namespace fs = std::filesystem;

// A safetensors file with one F32 tensor of one value.
std::string shard(const std::string& tensor, float value) {
    const std::string header = "{\"" + tensor + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    return encoded(uint64_t{header.size()}) + header + encoded(value);
}

class OpenTest : public testing::Test {
  protected:
    OpenTest() : folder_(fs::path(testing::TempDir()) / ("open_test." + std::to_string(::getpid()))) {
        fs::create_directories(folder_);
    }
    ~OpenTest() override { fs::remove_all(folder_); }

    fs::path write(const std::string& name, const std::string& text) {
        std::ofstream(folder_ / name, std::ios::binary) << text;
        return folder_ / name;
    }
    void write_index(const std::string& weight_map) {
        write("model.safetensors.index.json",
              R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
    }
    static float value(const Checkpoint& checkpoint, std::string_view name) {
        float result = NAN;
        if (const Tensor* tensor = checkpoint.find(name))
            std::memcpy(&result, tensor->data.data(), sizeof result);
        return result;
    }
    // The error of opening `path`, without the folder's own name.
    std::string error(const fs::path& path) {
        const auto opened = Checkpoint::open(path);
        if (opened) return "";
        std::string message = opened.error().message;
        for (size_t at; (at = message.find(folder_.string())) != std::string::npos;)
            message.replace(at, folder_.string().size(), "DIR");
        return message;
    }

    fs::path folder_;
};

TEST_F(OpenTest, GgufFileByContentOrName) {
    const std::string file = valid_gguf().build();
    const fs::path path = write("model", file);
    const auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ((*opened)->format(), FileFormat::gguf);
    EXPECT_EQ((*opened)->path(), path);
    EXPECT_EQ((*opened)->file_bytes(), file.size());
    const Tensor* a = (*opened)->find("a");
    ASSERT_NE(a, nullptr);
    const std::string before(reinterpret_cast<const char*>(a->data.data()), a->data.size());
    (*opened)->release_pages(a->data);
    EXPECT_EQ(std::memcmp(a->data.data(), before.data(), before.size()), 0);
    EXPECT_EQ(error(write("x.gguf", "text")),
              "DIR/x.gguf: a GGUF file starts with 24 bytes of header, but this one has only 4");
}

TEST_F(OpenTest, ConfigIsReadBesideSafetensors) {
    write("model.safetensors", shard("a", 2.5f));
    write("config.json", "{\"model_type\": \"llama\"}");
    for (const fs::path& path : {folder_, folder_ / "model.safetensors"}) {
        const auto opened = Checkpoint::open(path);
        ASSERT_TRUE(opened) << opened.error().message;
        EXPECT_EQ((*opened)->config_json(), "{\"model_type\": \"llama\"}");
        EXPECT_EQ(value(**opened, "a"), 2.5f);
    }
}

TEST_F(OpenTest, ConfigMayBeAbsent) {
    const auto opened = Checkpoint::open(write("weights.safetensors", shard("a", 1)));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_TRUE((*opened)->config_json().empty());
}

TEST_F(OpenTest, ShardsTogetherAreOneCheckpoint) {
    write("s-1.safetensors", shard("b", 1));
    write("s-2.safetensors", shard("a", 2));
    write_index(R"({"a":"s-2.safetensors","b":"s-1.safetensors"})");
    const auto opened = Checkpoint::open(folder_);
    ASSERT_TRUE(opened) << opened.error().message;
    ASSERT_EQ((*opened)->tensors().size(), 2u);
    EXPECT_EQ(value(**opened, "b"), 1);
    EXPECT_EQ(value(**opened, "a"), 2);
    EXPECT_EQ((*opened)->file_bytes(), shard("a", 2).size() * 2);
}

TEST_F(OpenTest, TheIndexDecidesWhichShardHoldsATensor) {
    write("s-1.safetensors", shard("a", 1));
    write("s-2.safetensors", shard("a", 2));
    write_index(R"({"a":"s-2.safetensors"})");
    const auto opened = Checkpoint::open(folder_);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ((*opened)->tensors().size(), 1u);
    EXPECT_EQ(value(**opened, "a"), 2);
}

TEST_F(OpenTest, WrongShardsAreNamed) {
    write("s-1.safetensors", shard("a", 1));
    write_index(R"({"a":"s-1.safetensors","b":"s-2.safetensors"})");
    EXPECT_EQ(error(folder_),
              "shard s-2.safetensors of DIR/model.safetensors.index.json: cannot open DIR/s-2.safetensors: "
              "No such file or directory");
    write_index(R"({"a":"s-1.safetensors","b":"s-1.safetensors"})");
    EXPECT_EQ(error(folder_),
              "DIR/s-1.safetensors: tensor \"b\" is not in this shard, although the index says so");
    write("s-2.safetensors", "short");
    write_index(R"({"a":"s-1.safetensors","b":"s-2.safetensors"})");
    EXPECT_EQ(error(folder_),
              "DIR/s-2.safetensors: a safetensors file starts with 8 bytes of header length, but this one "
              "has only 5");
}

TEST_F(OpenTest, ShardNamesCannotLeaveTheFolder) {
    fs::create_directories(folder_ / "model");
    write("outside.safetensors", shard("a", 1));
    for (const char* name :
         {"../outside.safetensors", "/etc/passwd", "..", ".", "", "x/../../outside.safetensors",
          "..\\\\outside.safetensors", "a\\u0000.safetensors"}) {
        SCOPED_TRACE(name);
        std::ofstream(folder_ / "model" / "model.safetensors.index.json")
            << R"({"weight_map":{"a":")" << name << "\"}}";
        EXPECT_NE(error(folder_ / "model").find("must be the plain name of a file beside the index"),
                  std::string::npos)
            << error(folder_ / "model");
    }
}

TEST_F(OpenTest, BrokenIndexIsNamed) {
    const fs::path index = write("model.safetensors.index.json", "{");
    EXPECT_NE(error(folder_).find("DIR/model.safetensors.index.json: not valid JSON"), std::string::npos);
    write("model.safetensors.index.json", "{}");
    EXPECT_EQ(error(folder_),
              "DIR/model.safetensors.index.json: it must be an object with a \"weight_map\" of tensor name "
              "-> file name");
    write_index("{}");
    EXPECT_EQ(error(folder_), "DIR/model.safetensors.index.json: \"weight_map\" lists no tensors");
    write_index(R"({"a":7})");
    EXPECT_EQ(error(folder_),
              "DIR/model.safetensors.index.json: \"weight_map\": the file of \"a\" must be a string");
    write_index(R"({"a":"x","a":"y"})");
    EXPECT_NE(error(folder_).find("the key \"a\" appears twice"), std::string::npos);
}

TEST_F(OpenTest, WhatIsNoModelIsRefused) {
    EXPECT_EQ(error(folder_ / "absent"), "cannot open DIR/absent: No such file or directory");
    EXPECT_EQ(Checkpoint::open(folder_ / "absent").error().code, ErrorCode::not_found);
    EXPECT_EQ(error(folder_),
              "DIR: the folder has neither model.safetensors nor model.safetensors.index.json (a GGUF file "
              "is given "
              "by its own path)");
    EXPECT_EQ(Checkpoint::open(folder_).error().code, ErrorCode::not_found);
    EXPECT_NE(error(write("weights.bin", "PK\3\4")).find("not a model: expected a GGUF file"),
              std::string::npos);
    EXPECT_NE(error(write("empty.gguf", "")).find("has only 0"), std::string::npos);
    EXPECT_NE(error(fs::path()), "");
    EXPECT_NE(error(folder_ / std::string(5000, 'x')), "") << "a name the system refuses";
}

// DEEPINFER_TEST_GGUF names a real model file.
TEST(RealFile, OpensWithoutReadingTheTensors) {
    const char* path = std::getenv("DEEPINFER_TEST_GGUF");
    if (!path) GTEST_SKIP() << "DEEPINFER_TEST_GGUF is not set";
    const auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_GT((*opened)->tensors().size(), 10u);
    EXPECT_TRUE((*opened)->metadata().string("general.architecture").value().has_value());
    uint64_t bytes = 0;
    for (const Tensor& tensor : (*opened)->tensors()) bytes += tensor.data.size();
    EXPECT_LE(bytes, (*opened)->file_bytes());
    EXPECT_GT(bytes, (*opened)->file_bytes() / 2);
}

}  // namespace
}  // namespace deepinfer::checkpoint
