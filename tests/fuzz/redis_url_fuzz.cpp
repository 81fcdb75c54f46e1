// Addresses of Redis servers. Run: redis_url_fuzz NEW_INPUTS tests/fuzz/corpus/redis_url
#include <cstdlib>

#include "store/redis_store.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer;
    const std::string url(reinterpret_cast<const char*>(data), size);
    const auto address = store::parse_redis_url(url);
    const auto require = [](bool condition) {
        if (!condition) std::abort();
    };
    if (!address) {
        require(!address.error().message.empty());
        return 0;
    }
    require(size <= store::most_url_bytes && url.find('\0') == std::string::npos);
    require(address->path.empty() != address->host.empty());
    require(address->port >= 1 && address->port <= 65'535 && address->database >= 0);
    for (const store::RedisNode& node : address->more_nodes)
        require(!node.host.empty() && node.port >= 1 && node.port <= 65'535 && address->path.empty());
    require(address->more_nodes.empty() || address->database == 0);
    return 0;
}
