// PackCache: packed weights in a folder, for the next start and for other processes. A file per packed weight, named by
// its key (content, layout, version of the packers); it is mapped, not read, so processes share its memory. Files come
// there whole or not at all, and are checked when they are found: what is damaged is removed and packed again. Beyond
// the limit those that were used longest ago are removed; whoever has them mapped keeps them.
//
// The folder holds no secrets that the models do not, but whoever may write to it may change results.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "kernels/packed_store.h"

namespace quern {

class PackCache final : public kernels::PackedStore {
 public:
  static constexpr uint64_t kDefaultLimitBytes = uint64_t{8} << 30;

  // Makes the folder when it is missing (not its parents'). Errors name the folder. One that cannot be written to
  // serves what it has.
  static Result<std::shared_ptr<PackCache>> Open(const std::string& folder, uint64_t limit_bytes = kDefaultLimitBytes);

  uint64_t seed() const override { return seed_; }
  std::shared_ptr<const std::byte> Find(const ContentKey& key, size_t bytes) override;
  void Put(const ContentKey& key, const std::shared_ptr<const std::byte>& packed, size_t bytes) override {
    Put(key, {packed.get(), bytes});
  }
  void Put(const ContentKey& key, std::span<const std::byte> bytes);

  const std::string& folder() const { return folder_; }
  uint64_t limit_bytes() const { return limit_bytes_; }
  // Since it was opened.
  struct Counts {
    int64_t found = 0, stored = 0, damaged = 0, removed = 0;
    uint64_t found_bytes = 0, stored_bytes = 0;
  };
  Counts counts() const;
  // Ok if no page of what was found has gone since.
  Status CheckIntact() const;

 private:
  PackCache() = default;
  std::string PathOf(const ContentKey& key) const;
  Status ReadSeed();
  // Removes the oldest files until the rest is within the limit, and what broken writers left.
  void Trim();

  std::string folder_;
  uint64_t limit_bytes_ = 0, seed_ = 0;
  mutable std::mutex mutex_;
  Counts counts_;
  uint64_t total_bytes_ = 0;  // of the files, as far as this process knows
  bool writable_ = true;
  std::vector<std::shared_ptr<const MappedFile>> mapped_;
};

}  // namespace quern
