// Options that several commands share: edge values are refused by name, before a model is loaded.
#include <cstdlib>

#include "cli/cpu_info.h"
#include "cli/load_model.h"
#include "run_command.h"

namespace deepinfer::cli {
namespace {

const std::string tiny = DEEPINFER_TEST_DATA "/oracle/gguf/llama-bf16.gguf";

// As main() does it.
Outcome serve(std::vector<const char*> options) {
    std::vector<const char*> arguments = {"deepinfer", "serve", "--model", "/absent.gguf", "--port", "0"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    auto readable = readable_arguments(static_cast<int>(arguments.size()), arguments.data());
    std::reverse(readable.begin(), readable.end());
    return run_command(add_serve_command, readable);
}

void expect_refused(const std::vector<const char*>& options, const std::string& message) {
    const Outcome outcome = serve(options);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << message << " is not in " << outcome.err;
}

TEST(Options, NumbersThatAreNone) {
    for (const char* name : {"--max-wait", "--request-timeout", "--step-ms", "--itl-ms"})
        for (const char* value : {"nan", "-nan", "inf", "-1", "1e9", "", "5s"})
            expect_refused({name, value}, name);
    EXPECT_EQ(
        run_command(add_generate_command, {"generate", "-m", tiny, "--prompt", "a", "--temperature", "nan"})
            .code,
        2);
}

TEST(Options, Ranges) {
    expect_refused({"--context", "1"}, "no room for an answer");
    expect_refused({"--context", "-1"}, "--context");
    expect_refused({"--threads", "100000"}, "--threads");
}

TEST(Options, KvTypes) {
    expect_refused({"--kv-type", "q4_0"}, "f32, f16, bf16, q8");
    expect_refused({"-ctk", "q4_0", "-ctv", "q4_0"}, "f32, f16, bf16, q8");
    expect_refused({"-ctk", "q8_0"}, "together with the same value");
    expect_refused({"-ctv", "f32"}, "together with the same value");
    expect_refused({"-ctk", "q8_0", "-ctv", "f16"}, "together with the same value");
    expect_refused({"-ctk", "f16", "-ctv", "f16", "--kv-type", "q8"}, "contradicts");
    for (const std::vector<const char*>& good :
         std::vector<std::vector<const char*>>{{"-ctk", "q8_0", "-ctv", "q8"},
                                               {"--kv-type", "q8_0"},
                                               {"--cache-type-k=bf16", "--cache-type-v=bf16"}}) {
        CLI::App app;
        LoadOptions options;
        add_engine_options(app, options);
        std::vector<const char*> arguments = {"deepinfer", "-m", "x"};
        arguments.insert(arguments.end(), good.begin(), good.end());
        app.parse(readable_arguments(static_cast<int>(arguments.size()), arguments.data()));
        EXPECT_EQ(options.kv_type, good[0] == std::string("--cache-type-k=bf16") ? KvType::bf16 : KvType::q8);
    }
    const std::vector<const char*> bench = {"deepinfer", "bench", "-ctk"};
    EXPECT_EQ(readable_arguments(3, bench.data()), (std::vector<std::string>{"-ctk", "bench"}));
}

TEST(Options, TheStartUpLineSaysHowKeysAndValuesAreStored) {
    testing::internal::CaptureStderr();
    LoadOptions options;
    options.model = tiny;
    options.kv_memory_mib = 1;
    options.kv_type = KvType::bf16;
    options.need_tokenizer = false;
    const auto loaded = load_model(options);
    const std::string text = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(loaded.ok());
    EXPECT_NE(text.find(" tokens, bf16, "), std::string::npos) << text;
}

TEST(Options, ATraceThatCannotBeWrittenIsRefusedBeforeTheModelIsLoaded) {
    const Outcome outcome = serve({"--trace", "/absent/folder/trace.json"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("--trace: cannot write /absent/folder/trace.json: No such"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.err.find("absent.gguf"), std::string::npos) << outcome.err;
}

TEST(CpuInfo, RefusesKernelsThatDoNotExist) {
    EXPECT_TRUE(cpu_info().ok());
    setenv("DEEPINFER_ISA", "sse9", 1);
    const auto info = cpu_info();
    unsetenv("DEEPINFER_ISA");
    ASSERT_FALSE(info.ok());
    EXPECT_NE(
        info.error().message.find("DEEPINFER_ISA: unknown instruction set 'sse9'; there are portable, avx2"),
        std::string::npos)
        << info.error().message;
}

}  // namespace
}  // namespace deepinfer::cli
