#include "base/content_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace quern {
namespace {

std::vector<uint8_t> Ramp(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
  return bytes;
}

TEST(ContentHash, PiecesGiveTheHashOfTheWhole) {
  for (size_t n : {0, 1, 16, 17, 240, 241, 1000, 100000}) {
    const std::vector<uint8_t> bytes = Ramp(n);
    const ContentKey whole = HashBytes(bytes.data(), n, 5);
    for (size_t piece : {1, 3, 64, 4096}) {
      ContentHash hash(5);
      for (size_t at = 0; at < n; at += piece) hash.AddBytes(bytes.data() + at, std::min(piece, n - at));
      EXPECT_EQ(hash.Finish(), whole) << n << " bytes by " << piece;
    }
  }
}

TEST(ContentHash, EveryBitAndTheSeedCount) {
  std::vector<uint8_t> bytes = Ramp(300);
  std::set<std::string> seen = {HashBytes(bytes.data(), bytes.size()).Hex(),
                                HashBytes(bytes.data(), bytes.size(), 1).Hex()};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    seen.insert(HashBytes(bytes.data(), bytes.size()).Hex());
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
  EXPECT_EQ(seen.size(), 2 + 8 * bytes.size());
}

TEST(ContentHash, TextsDoNotRunTogether) {
  ContentHash a, b;
  a.AddText("ab");
  a.AddText("c");
  b.AddText("a");
  b.AddText("bc");
  EXPECT_NE(a.Finish(), b.Finish());
}

// The fingerprint is part of the names of files: it must not change with the compiler. The empty value is XXH3's own.
TEST(ContentHash, HexHasThirtyTwoDigits) { EXPECT_EQ(HashBytes(nullptr, 0).Hex(), "99aa06d3014798d86001c324468d497f"); }

}  // namespace
}  // namespace quern
