// ContentHash: a 128-bit fingerprint of bytes (XXH3), for keys and checksums of caches. It finds accidents; against
// those who choose the bytes it helps only as long as they do not know the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace quern {

struct ContentKey {
  uint64_t high = 0, low = 0;

  std::string Hex() const;  // 32 digits
  friend bool operator==(const ContentKey&, const ContentKey&) = default;
};

class ContentHash {
 public:
  explicit ContentHash(uint64_t seed = 0);
  ContentHash(ContentHash&&) noexcept;
  ~ContentHash();

  void AddBytes(const void* data, size_t bytes);
  void AddNumber(uint64_t number) { AddBytes(&number, sizeof number); }
  // Its length too, so that what follows cannot be taken for a part of it.
  void AddText(std::string_view text) {
    AddNumber(text.size());
    AddBytes(text.data(), text.size());
  }
  ContentKey Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of bytes in one piece.
ContentKey HashBytes(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace quern
