// deepinfer bench: its options, and that its numbers belong together. Speeds themselves are no matter of a test.
#include <cmath>
#include <filesystem>
#include <sstream>

#include "base/json.h"
#include "cli/bench_options.h"
#include "cli/cpu_info.h"
#include "cli/load_model.h"
#include "run_command.h"

namespace deepinfer::cli {
namespace {

const std::string tiny = DEEPINFER_TEST_DATA "/oracle/gguf/llama-bf16.gguf";

BenchOptions parse(const std::vector<std::string>& arguments) {
    auto options = parse_bench_options(arguments);
    EXPECT_TRUE(options.ok()) << options.error().message;
    return options.ok() ? *options : BenchOptions();
}
std::string refusal(const std::vector<std::string>& arguments) {
    const auto options = parse_bench_options(arguments);
    EXPECT_FALSE(options.ok());
    return options.ok() ? "" : options.error().message;
}
using Ints = std::vector<int>;

TEST(BenchOptions, Lists) {
    const BenchOptions options =
        parse({"-m",  "a,b",  "-m",  "c",       "-p", "1,16-64*2,100-130+15", "-n",  "0",  "-n",
               "5-7", "-t",   "1,2", "-d",      "7",  "--n-depth=8",          "-ub", "32", "-b",
               "64",  "-npl", "1,4", "--batch", "8",  "--step-rows",          "2",   "-r", "3"});
    EXPECT_EQ(options.models, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(options.prompts, (Ints{1, 16, 32, 64, 100, 115, 130}));
    EXPECT_EQ(options.generations, (Ints{0, 5, 6, 7}));
    EXPECT_EQ(options.threads, (Ints{1, 2}));
    EXPECT_EQ(options.depths, (Ints{7, 8}));
    EXPECT_EQ(options.micro_batch_rows, Ints{32});
    EXPECT_EQ(options.batch_rows, Ints{64});
    EXPECT_EQ(options.sequences, (Ints{1, 4, 8}));
    EXPECT_EQ(options.step_rows, Ints{2});
    EXPECT_EQ(options.repetitions, 3);
}

TEST(BenchOptions, Defaults) {
    const BenchOptions options = parse({"-m", "a"});
    EXPECT_EQ(options.prompts, Ints{512});
    EXPECT_EQ(options.generations, Ints{128});
    EXPECT_EQ(options.depths, Ints{0});
    EXPECT_EQ(options.repetitions, 5);
    EXPECT_EQ(options.kv_types, std::vector<KvType>{KvType::f16});
    EXPECT_EQ(parse({"-m", "a", "--compute", "f32"}).kv_types, std::vector<KvType>{KvType::f32});
    EXPECT_EQ(parse({"-m", "a", "-ctk", "f32,f16", "-ctv", "f32,f16"}).kv_types,
              (std::vector<KvType>{KvType::f32, KvType::f16}));
    EXPECT_EQ(parse({"-m", "a", "-pg", "8,4", "-pg", "2,1"}).prompt_then_generation,
              (std::vector<std::pair<int, int>>{{8, 4}, {2, 1}}));
    for (const std::vector<std::string>& harmless : std::vector<std::vector<std::string>>{
             {"-ngl", "0"}, {"-fa", "1"}, {"-mmp", "0"}, {"--repack", "1"}, {"-embd", "0"}}) {
        std::vector<std::string> arguments = {"-m", "a"};
        arguments.insert(arguments.end(), harmless.begin(), harmless.end());
        parse(arguments);
    }
}

TEST(BenchOptions, WhatIsWrongIsNamed) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
        {{}, "-m is needed"},
        {{"-m"}, "-m needs a value"},
        {{"-p", "x"}, "-p: \"x\""},
        {{"-p", "1,,2"}, "-p: \"\""},
        {{"-p", "-1"}, "-p: \"-1\""},
        {{"-p", "1-"}, "range"},
        {{"-p", "5-1"}, "range"},
        {{"-p", "1-9*1"}, "range"},
        {{"-p", "0-9*2"}, "range"},
        {{"-p", "1-9+0"}, "range"},
        {{"-p", "1-1000000"}, "at most 1024"},
        {{"-p", "99999999999"}, "from 0 to"},
        {{"-t", "0"}, "-t"},
        {{"-r", "0"}, "-r"},
        {{"-pg", "1"}, "pair"},
        {{"-pg", "1,2,3"}, "pair"},
        {{"-o", "sql"}, "md, json, jsonl, csv"},
        {{"-ctk", "q4_0", "-ctv", "q4_0"}, "f32, f16, bf16, q8"},
        {{"-m", "a", "-ctk", "f32"}, "-ctk and -ctv"},
        {{"--compute", "int8"}, "serve or f32"},
        {{"-ngl", "99"}, "CPUs only"},
        {{"-fa", "0"}, "-fa \"0\" is not supported"},
        {{"--numa", "isolate"}, "--numa"},
        {{"-v"}, "-v is not supported"},
        {{"--nonsense"}, "--nonsense"},
        {{"model.gguf"}, "model.gguf"},
        {{"--bandwidth=1"}, "takes no value"},
    };
    for (const auto& [arguments, message] : cases)
        EXPECT_NE(refusal(arguments).find(message), std::string::npos)
            << message << " is not in " << refusal(arguments);
}

std::vector<boost::json::object> rows(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "-m", tiny, "-o", "json"});
    const Outcome outcome = run_command(add_bench_command, arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto parsed = parse_json(outcome.out, "output");
    EXPECT_TRUE(parsed.ok()) << outcome.out;
    std::vector<boost::json::object> objects;
    if (parsed.ok())
        for (const auto& row : parsed->as_array()) objects.push_back(row.as_object());
    return objects;
}

TEST(Bench, FieldsAsLlamaBenchHasThem) {
    const auto found =
        rows({"-p", "20,70", "-n", "3", "-pg", "5,2", "-d", "0,64", "-t", "2", "-r", "3", "-ub", "16"});
    ASSERT_EQ(found.size(), 8u);
    const std::vector<std::array<int, 3>> expected = {{20, 0, 0},  {70, 0, 0},  {0, 3, 0},  {5, 2, 0},
                                                      {20, 0, 64}, {70, 0, 64}, {0, 3, 64}, {5, 2, 64}};
    for (size_t i = 0; i < found.size(); ++i) {
        const auto& row = found[i];
        EXPECT_FALSE(row.at("build_commit").as_string().empty());
        EXPECT_EQ(row.at("n_prompt"), expected[i][0]) << i;
        EXPECT_EQ(row.at("n_gen"), expected[i][1]) << i;
        EXPECT_EQ(row.at("n_depth"), expected[i][2]) << i;
        EXPECT_EQ(row.at("n_threads"), 2);
        EXPECT_EQ(row.at("n_ubatch"), 16);
        EXPECT_EQ(row.at("model_filename"), boost::json::string(tiny));
        EXPECT_EQ(row.at("cpu_info"), boost::json::string(processor_name()));
        EXPECT_TRUE(row.at("model_type").as_string().starts_with("llama "));
        EXPECT_GT(row.at("model_size").to_number<int64_t>(), 0);
        EXPECT_GT(row.at("model_n_params").to_number<int64_t>(), 0);
        const auto& ns = row.at("samples_ns").as_array();
        const auto& ts = row.at("samples_ts").as_array();
        ASSERT_EQ(ns.size(), 3u);
        ASSERT_EQ(ts.size(), 3u);
        double mean = 0, mean_ts = 0, squares = 0;
        for (size_t s = 0; s < 3; ++s) {
            EXPECT_NEAR(ts[s].as_double(),
                        1e9 * (expected[i][0] + expected[i][1]) / ns[s].to_number<double>(),
                        1e-6 * ts[s].as_double());
            mean += ns[s].to_number<double>() / 3, mean_ts += ts[s].as_double() / 3;
        }
        for (size_t s = 0; s < 3; ++s) squares += std::pow(ts[s].as_double() - mean_ts, 2);
        EXPECT_NEAR(row.at("avg_ns").to_number<double>(), mean, 1);
        EXPECT_NEAR(row.at("avg_ts").as_double(), mean_ts, 1e-6 * mean_ts);
        EXPECT_NEAR(row.at("stddev_ts").as_double(), std::sqrt(squares / 2), 1e-6 * mean_ts);
        EXPECT_EQ(row.if_contains("read_gb_per_second"), nullptr);
    }
}

TEST(Bench, SpeedsAreOfAllSequencesAndRows) {
    const auto found = rows({"-p", "8", "-n", "4", "-npl", "3", "--step-rows", "1,2", "-r", "1"});
    ASSERT_EQ(found.size(), 3u);
    const int tokens[] = {3 * 8, 3 * 4, 3 * 4 * 2};
    for (size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(found[i].at("avg_ts").as_double(),
                    1e9 * tokens[i] / found[i].at("avg_ns").to_number<double>(),
                    1e-3 * found[i].at("avg_ts").as_double());
    EXPECT_EQ(found[2].at("n_sequences"), 3);
    EXPECT_EQ(found[2].at("n_step_rows"), 2);
}

TEST(Bench, BandwidthOfTheSameRun) {
    const auto found = rows({"-p", "8", "-n", "4", "-d", "64", "-r", "2", "--bandwidth"});
    ASSERT_EQ(found.size(), 2u);
    for (const auto& row : found) {
        EXPECT_GT(row.at("read_gb_per_second").as_double(), 0);
        EXPECT_EQ(row.at("samples_read_gb_per_second").as_array().size(), 2u);
    }
    EXPECT_EQ(found[0].if_contains("bandwidth_share"), nullptr) << "prefill is not bound by memory";
    EXPECT_GT(found[1].at("bandwidth_share").as_double(), 0);
}

TEST(Bench, BytesOfAStepAreWeightsAndTheKeysAndValuesBefore) {
    const auto found = rows({"-p", "0", "-n", "4", "-d", "0,64", "-npl", "1,3", "--step-rows", "1,2", "-r",
                             "1", "--no-warmup", "--bandwidth"});
    ASSERT_EQ(found.size(), 8u);
    const auto bytes = [&](size_t i) { return found[i].at("bytes_per_step").to_number<int64_t>(); };
    LoadOptions load;
    load.model = tiny;
    load.need_tokenizer = false;
    load.quiet = true;
    const auto model = load_model_only(load);
    ASSERT_TRUE(model.ok());
    const auto layout = model->model->kv_layout(KvType::f16);
    ASSERT_TRUE(layout.ok());
    const double token = static_cast<double>(layout->block_bytes) / kv::block_tokens;
    // A token sees itself and those before it, on the average of four steps 2.5 more than stand in front of all.
    const double weights = static_cast<double>(bytes(0)) - 2.5 * token;
    EXPECT_GT(weights, 0);
    EXPECT_LE(weights, found[0].at("weight_bytes").to_number<double>());
    for (size_t i = 0; i < found.size(); ++i) {
        const double sequences = i / 2 % 2 ? 3 : 1, depth = i / 4 ? 64 : 0, last = i % 2 ? 3.5 : 2.5;
        EXPECT_NEAR(static_cast<double>(bytes(i)), weights + sequences * (depth + last) * token, 1) << i;
    }
}

// The cells of a line of CSV, unquoted (RFC 4180; no line breaks).
std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> all(1);
    bool quoted = false;
    for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
            all.back() += line[++i];
        else if (line[i] == '"')
            quoted = !quoted;
        else if (line[i] == ',' && !quoted)
            all.emplace_back();
        else
            all.back() += line[i];
    }
    return all;
}

TEST(Bench, EveryRowOfCsvHasTheSameColumns) {
    const auto folder = std::filesystem::path(testing::TempDir()) / "bench \"quoted\"";
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(tiny, folder / "tiny.gguf", std::filesystem::copy_options::overwrite_existing);
    const std::string path = folder / "tiny.gguf";
    const Outcome outcome = run_command(add_bench_command, {"bench", "-m", path, "-p", "4", "-n", "2", "-r",
                                                            "1", "-o", "csv", "--bandwidth"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::istringstream text(outcome.out);
    std::vector<std::vector<std::string>> table;
    for (std::string line; std::getline(text, line);) table.push_back(cells(line));
    ASSERT_EQ(table.size(), 3u) << outcome.out;
    const auto column = [&](const char* name) {
        return static_cast<size_t>(std::find(table[0].begin(), table[0].end(), name) - table[0].begin());
    };
    for (const auto& row : table) ASSERT_EQ(row.size(), table[0].size()) << outcome.out;
    EXPECT_EQ(table[1][column("model_filename")], path);
    EXPECT_EQ(table[1][column("bandwidth_share")], "");
    EXPECT_NE(table[2][column("bandwidth_share")], "");
    std::filesystem::remove_all(folder);
}

TEST(Bench, EverythingIsCheckedBeforeAnythingIsMeasured) {
    for (const std::vector<std::string>& last : std::vector<std::vector<std::string>>{
             {"-m", "/absent.gguf"}, {"-p", "1,1000000"}, {"-d", "0,1000000"}}) {
        std::vector<std::string> arguments = {"bench", "-m", tiny, "-p", "4",    "-n",
                                              "0",     "-r", "1",  "-o", "jsonl"};
        arguments.insert(arguments.end(), last.begin(), last.end());
        const Outcome outcome = run_command(add_bench_command, arguments);
        EXPECT_EQ(outcome.code, 1);
        EXPECT_EQ(outcome.out, "") << last[0];
    }
}

TEST(Bench, OtherOutputs) {
    Outcome outcome =
        run_command(add_bench_command, {"bench", "-m", tiny, "-p", "4", "-n", "2", "-r", "1", "-d", "3"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(" pp4 @ d3 |"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find(" tg2 @ d3 |"), std::string::npos) << outcome.out;
    outcome =
        run_command(add_bench_command, {"bench", "-m", tiny, "-p", "4", "-n", "2", "-r", "1", "-o", "jsonl"});
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
    outcome =
        run_command(add_bench_command, {"bench", "-m", tiny, "-p", "4", "-n", "2", "-r", "1", "-o", "csv"});
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3) << outcome.out;
    EXPECT_TRUE(outcome.out.starts_with("build_version,build_commit,cpu_info,")) << outcome.out;
}

TEST(Bench, FailuresAreSaid) {
    Outcome outcome = run_command(add_bench_command, {"bench", "-m", tiny, "-ngl", "1"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("-ngl"), std::string::npos) << outcome.err;
    outcome = run_command(add_bench_command, {"bench", "-m", "/absent.gguf"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("/absent.gguf"), std::string::npos) << outcome.err;
    outcome = run_command(add_bench_command, {"bench", "-m", tiny, "-p", "1000000"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("context"), std::string::npos) << outcome.err;
    outcome = run_command(add_bench_command, {"bench", "-m", tiny, "-p", "0", "-n", "0"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("nothing to measure"), std::string::npos) << outcome.err;
    outcome = run_command(add_bench_command, {"bench", "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.out.find("--step-rows"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace deepinfer::cli
