// The store that tests of the engine use is one.
#include "support/map_store.h"

#include "conformance.h"

namespace deepinfer::store {
namespace {

class MapStoreFixture {
  public:
    BlockStore& store() { return *store_; }
    std::unique_ptr<BlockStore> another() { return std::make_unique<MapStore>(contents_); }
    void reopen() { store_ = another(); }
    bool move_clock(std::chrono::seconds) { return false; }

  private:
    std::shared_ptr<MapStoreContents> contents_ = std::make_shared<MapStoreContents>();
    std::unique_ptr<BlockStore> store_ = another();
};
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, BlockStoreConformance, MapStoreFixture);

}  // namespace
}  // namespace deepinfer::store
