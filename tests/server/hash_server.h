// A server over the real engine, with a model that only hashes: what the scheduler does, seen by clients.
#pragma once

#include <functional>

#include "engine/local_engine.h"
#include "server/fixture.h"
#include "support/hash_model.h"

namespace deepinfer::testing {

// A millionth of a second for a row: next to nothing, but in proportion to what tenants use.
struct RowTimes final : engine::StepTimes {
    double seconds(std::span<const engine::Chunk> step) const override {
        double rows = 0;
        for (const engine::Chunk& chunk : step) rows += chunk.rows;
        return rows * 1e-6;
    }
    void observe(std::span<const engine::Chunk>, double) override {}
};

// A served HashModel; members go in reverse order.
struct HashServer {
    HashServer(int32_t blocks, engine::EngineOptions engine_options, std::chrono::microseconds per_step,
               server::HandlerOptions handler = {})
        : model(261, 4096, per_step), pool(1) {
        block_pool = std::make_unique<kv::BlockPool>(
            std::move(*kv::BlockPool::create(*model.kv_layout(KvType::f16), blocks)));
        for (kv::BlockId b = 0; b < blocks; ++b)  // so that memory does not grow by the first use of them
            std::memset(block_pool->data(b), 0, block_pool->layout().block_bytes);
        auto served = std::make_shared<server::ServedModel>();
        served->name = "hash";
        served->tokenizer = std::make_unique<ByteTokenizer>();
        served->engine =
            engine::make_local_engine(model, *block_pool, pool, engine_options, std::make_unique<RowTimes>())
                .value();
        engine = served->engine.get();
        server::ServerOptions options;
        options.port = 0;
        options.handler = std::move(handler);
        options.max_connections = 4096;
        server = std::move(*server::Server::start(options));
        server->set_model(std::move(served));
    }
    HashModel model;
    ThreadPool pool;
    std::unique_ptr<kv::BlockPool> block_pool;
    engine::Engine* engine = nullptr;
    std::unique_ptr<server::Server> server;
};

inline bool soon(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return condition();
}

}  // namespace deepinfer::testing
