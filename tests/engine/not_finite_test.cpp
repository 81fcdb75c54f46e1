// A model whose keys or values are not finite for some tokens: who meets them gets an error, and nothing of theirs is kept.
#include <gtest/gtest.h>

#include "support/engine_bench.h"
#include "support/map_store.h"

namespace deepinfer::engine {
namespace {

using testing::EngineBench;
using testing::Record;

constexpr TokenId bad_token = 63;

Request prompt_of(int32_t tokens, TokenId token) {
    Request request;
    request.prompt.assign(static_cast<size_t>(tokens), token);
    request.sampling.max_tokens = 4;
    request.sampling.logit_bias = {{bad_token, -100}};
    request.sampling.top_logprobs = 0;
    return request;
}

TEST(NotFinite, EndsWithAnErrorBeforeAnythingIsKept) {
    for (const bool async : {true, false}) {
        auto contents = std::make_shared<store::MapStoreContents>();
        Stores stores;
        stores.push_back(std::make_unique<store::MapStore>(contents));
        EngineOptions options;
        options.async = async;
        options.limits.max_rows = 64;
        EngineBench bench(100, options, {}, nullptr, nullptr, std::move(stores));
        bench.model.report_not_finite(bad_token);
        Request bad = prompt_of(4 * kv::block_tokens, 5);
        bad.prompt[2 * kv::block_tokens + 10] = bad_token;  // in its third chunk
        bad.choices = 2;
        Request at_the_end = prompt_of(20, 6);
        at_the_end.prompt.back() = bad_token;
        at_the_end.choices = 3;  // they start in the step that is bad
        const Request good = prompt_of(3 * kv::block_tokens, 7);
        Record first(2), second(3), third(1);
        ASSERT_TRUE(bench.engine->submit(bad, first.listener()).ok());
        ASSERT_TRUE(bench.engine->submit(at_the_end, second.listener()).ok());
        ASSERT_TRUE(bench.engine->submit(good, third.listener()).ok());
        ASSERT_TRUE(first.wait() && second.wait() && third.wait());
        for (const auto* record : {&first, &second})
            for (const auto& end : record->ends) {
                EXPECT_EQ(end->reason, FinishReason::error);
                EXPECT_NE(end->error.message.find("finite"), std::string::npos) << end->error.message;
            }
        EXPECT_EQ(third.ends[0]->reason, FinishReason::length);
        EXPECT_TRUE(bench.quiet());
        Record again(2);
        ASSERT_TRUE(bench.engine->submit(bad, again.listener()).ok());
        ASSERT_TRUE(again.wait());
        EXPECT_LE(again.ends[0]->cached_tokens, 2 * kv::block_tokens);
        bench.engine.reset();
        EXPECT_EQ(contents->blocks.size(),
                  2u + 3u);  // what came before the bad token, and the good request's
    }
}

}  // namespace
}  // namespace deepinfer::engine
