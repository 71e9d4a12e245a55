// SharedWeights: packed weights that several graphs of one session read, packed once: the branches of an If, a graph
// and its variants.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "graph/graph.h"
#include "kernels/packed_store.h"

namespace quern {

// Whether subgraphs read weights of the graph around them, so that keys by content are worth their time.
bool SharesWeights(const Graph& graph);

// Thread-safe. Holds what is in use; behind it may be another store, as one on disk.
class SharedWeights final : public kernels::PackedStore {
 public:
  explicit SharedWeights(std::shared_ptr<PackedStore> behind) : behind_(std::move(behind)) {}

  uint64_t seed() const override { return behind_ ? behind_->seed() : 0; }
  std::shared_ptr<const std::byte> Find(const ContentKey& key, size_t bytes) override;
  void Put(const ContentKey& key, const std::shared_ptr<const std::byte>& packed, size_t bytes) override;

 private:
  struct Held {
    std::weak_ptr<const std::byte> packed;
    size_t bytes = 0;
  };
  struct HashOf {
    size_t operator()(const ContentKey& key) const { return static_cast<size_t>(key.low); }
  };
  const std::shared_ptr<PackedStore> behind_;  // may be null
  std::mutex mutex_;
  std::unordered_map<ContentKey, Held, HashOf> held_;
};

}  // namespace quern
