#include "base/content_hash.h"

#include <cstdio>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quern {

struct ContentHash::State {
  XXH3_state_t hash;
};

std::string ContentKey::Hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

ContentHash::ContentHash(uint64_t seed) : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->hash);
  XXH3_128bits_reset_withSeed(&state_->hash, seed);
}
ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash::~ContentHash() = default;

void ContentHash::AddBytes(const void* data, size_t bytes) { XXH3_128bits_update(&state_->hash, data, bytes); }

ContentKey ContentHash::Finish() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->hash);
  return {h.high64, h.low64};
}

ContentKey HashBytes(const void* data, size_t bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.high64, h.low64};
}

}  // namespace quern
