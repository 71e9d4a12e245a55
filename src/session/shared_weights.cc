#include "session/shared_weights.h"

namespace quern {

bool SharesWeights(const Graph& graph) {
  constexpr size_t kLarge = size_t{64} << 10;  // what PackedRhs asks a store for
  for (const Node* n = graph.first_node(); n; n = n->next()) {
    for (const GraphValue* v : n->captures()) {
      if (v->is_constant() && v->constant()->is_tensor() && v->constant()->tensor().bytes() >= kLarge) return true;
    }
    for (const auto& [attribute, subgraph] : n->subgraphs()) {
      if (SharesWeights(*subgraph)) return true;
    }
  }
  return false;
}

std::shared_ptr<const std::byte> SharedWeights::Find(const ContentKey& key, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(key);
    if (found != held_.end() && found->second.bytes == bytes) {
      if (std::shared_ptr<const std::byte> packed = found->second.packed.lock()) return packed;
    }
  }
  std::shared_ptr<const std::byte> packed = behind_ ? behind_->Find(key, bytes) : nullptr;
  if (!packed) return nullptr;
  const std::lock_guard lock(mutex_);
  held_[key] = {packed, bytes};
  return packed;
}

void SharedWeights::Put(const ContentKey& key, const std::shared_ptr<const std::byte>& packed, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    held_[key] = {packed, bytes};
  }
  if (behind_) behind_->Put(key, packed, bytes);
}

}  // namespace quern
