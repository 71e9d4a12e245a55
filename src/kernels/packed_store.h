// PackedStore: where packed weights are found that were packed before, in another graph or another process. PackedRhs
// asks it before it packs and hands it what it has packed; the session's pack cache is one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "base/content_hash.h"
#include "parallel/executor.h"

namespace quern::kernels {

// Thread-safe. A store that fails is as good as an empty one: nothing here is an error.
class PackedStore {
 public:
  virtual ~PackedStore() = default;

  // Of the keys' hashes.
  virtual uint64_t seed() const = 0;
  // What was stored under the key, `bytes` of it, 64-byte aligned and alive as long as the pointer; null when there is
  // nothing, or nothing of that size and whole.
  virtual std::shared_ptr<const std::byte> Find(const ContentKey& key, size_t bytes) = 0;
  virtual void Put(const ContentKey& key, const std::shared_ptr<const std::byte>& packed, size_t bytes) = 0;
};

// What packing when a model is loaded uses.
struct Packing {
  Packing(Executor& e, PackedStore* s = nullptr, std::function<void()> d = {})
      : executor(e), store(s), drop_source(std::move(d)) {}
  // What was read of the source may leave memory.
  void DropSource() const {
    if (drop_source) drop_source();
  }

  Executor& executor;
  PackedStore* store;  // may be null
  // Called whenever about kDropBytes were read of one source: of a mapped file, the pages that were read then go.
  std::function<void()> drop_source;
  static constexpr size_t kDropBytes = size_t{32} << 20;
};

}  // namespace quern::kernels
