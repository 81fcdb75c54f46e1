// Times steps of many shapes on a real model and writes what the cost model predicted for them; bench/step_times.py runs it
// and draws the result.
//
//   step_times --model MODEL [--rounds N] [--context N] [--seed N]  > steps.json
//
// Every shape is computed once in each round, in an order of that round's own. `profiled` is predicted from the profile that
// `serve` makes at its start; `learned` after the model has observed the shapes of even number as well, so that the odd ones
// test it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "cli/load_model.h"
#include "engine/cost_model.h"
#include "engine/step_timer.h"

namespace {

using namespace deepinfer;
using Shape = std::vector<engine::Chunk>;

std::vector<Shape> shapes(std::mt19937& random, int32_t context) {
    std::vector<Shape> found;
    for (int32_t rows : {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,  12,  13,  14,  16,  20,  24,
                         25, 28, 32, 40, 48, 49, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512})
        found.push_back({{rows, 0, 1}});
    for (int32_t rows : {1, 16, 128})
        for (int32_t position : {128, 512, 1024, 2048, 4096, 7600})
            if (position + rows <= context) found.push_back({{rows, position, 1}});
    for (size_t sequences : {2, 4, 8, 16})
        for (int32_t position : {0, 128, 512, 1024, 1900})
            if (position < context) found.emplace_back(sequences, engine::Chunk{1, position, 1});
    // Streams beside chunks of prompts, lengths and depths by their logarithms.
    const auto any = [&](double most) {
        return static_cast<int32_t>(std::exp(std::uniform_real_distribution<>(0, std::log(most))(random)));
    };
    for (int i = 0; i < 100; ++i) {
        Shape shape;
        const unsigned streams = i % 4 == 0 ? 0 : random() % 17;
        for (unsigned s = 0; s < streams; ++s) shape.push_back({1, any(context - 1), 1});
        const unsigned chunks = streams == 0 ? 1 + random() % 2 : random() % 3;
        for (unsigned c = 0; c < chunks; ++c) {
            const int32_t rows = any(c ? 128 : 384);
            shape.push_back(
                {rows, random() % 3 ? any(context - rows) : 0, static_cast<int32_t>(random() % 2)});
        }
        if (!shape.empty()) found.push_back(std::move(shape));
    }
    return found;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

int fail(const Error& error) {
    std::fprintf(stderr, "step_times: %s\n", error.message.c_str());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Times steps of many shapes and what is predicted for them");
    cli::LoadOptions options;
    options.need_tokenizer = false;
    options.quiet = true;
    int rounds = 5, context = 8192;
    unsigned seed = 1;
    cli::add_model_options(app, options);
    app.add_option("--rounds", rounds)->check(CLI::Range(1, 100));
    app.add_option("--context", context)->check(CLI::Range(1024, 1 << 20));
    app.add_option("--seed", seed);
    CLI11_PARSE(app, argc, argv);

    auto loaded = cli::load_model_only(options);
    if (!loaded) return fail(loaded.error());
    models::Model& model = *loaded->model;
    const KvType kv_type = KvType::f16;
    const int32_t deepest = std::min(context, model.info().context_length);
    auto made = engine::profiled_cost_model(model, kv_type, {});
    if (!made) return fail(made.error());
    engine::CostModel& costs = **made;
    auto timer = engine::StepTimer::create(model, kv_type, 4 * deepest);
    if (!timer) return fail(timer.error());

    std::mt19937 random(seed);
    std::vector<Shape> steps = shapes(random, deepest);
    std::erase_if(steps,
                  [&](const Shape& s) { return engine::StepTimer::blocks(s) > timer->total_blocks(); });
    std::vector<std::vector<double>> seconds(steps.size());
    std::vector<double> profiled;
    for (const Shape& s : steps) profiled.push_back(costs.seconds(s));
    std::vector<size_t> order(steps.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = 0; round < rounds; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (size_t i : order) {
            seconds[i].push_back(timer->run(steps[i]));
            if (i % 2 == 0) costs.observe(steps[i], seconds[i].back());
        }
    }
    std::printf("{\"model\":\"%s\",\"threads\":%d,\"steps\":[", loaded->name.c_str(),
                loaded->pool->threads());
    for (size_t i = 0; i < steps.size(); ++i) {
        const models::StepCost cost = model.cost(steps[i], kv_type);
        std::printf("%s\n{\"chunks\":[", i ? "," : "");
        for (size_t k = 0; k < steps[i].size(); ++k)
            std::printf("%s[%d,%d,%d]", k ? "," : "", steps[i][k].rows, steps[i][k].position,
                        steps[i][k].logit_rows);
        std::printf(
            "],\"rows\":%lld,\"sequences\":%lld,\"logit_rows\":%lld,\"product_ops\":%lld,"
            "\"attention_ops\":%lld,\"weight_bytes\":%lld,\"kv_bytes\":%lld,",
            static_cast<long long>(cost.rows), static_cast<long long>(cost.sequences),
            static_cast<long long>(cost.logit_rows), static_cast<long long>(cost.product_ops),
            static_cast<long long>(cost.attention_ops), static_cast<long long>(cost.weight_bytes),
            static_cast<long long>(cost.kv_bytes));
        std::printf("\"profiled\":%.6g,\"learned\":%.6g,\"taken\":%.6g,\"seconds\":[", profiled[i],
                    costs.seconds(steps[i]), median(seconds[i]));
        for (size_t k = 0; k < seconds[i].size(); ++k) std::printf("%s%.6g", k ? "," : "", seconds[i][k]);
        std::printf("]}");
    }
    std::printf("\n]}\n");
    return 0;
}
