#include "ops/common/sorted_keys.h"

#include <algorithm>
#include <utility>

namespace quern {

namespace {

// By insertion; few.
void Insert(KeyedIndex* entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const KeyedIndex next = entries[i];
    int64_t at = i;
    for (; at > 0 && entries[at - 1].key > next.key; --at) entries[at] = entries[at - 1];
    entries[at] = next;
  }
}

// By merging runs of twice the length each time.
void Merge(KeyedIndex* entries, KeyedIndex* spare, int64_t n) {
  constexpr int64_t kRun = 16;
  for (int64_t i = 0; i < n; i += kRun) Insert(entries + i, std::min(kRun, n - i));
  KeyedIndex *from = entries, *to = spare;
  for (int64_t run = kRun; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      KeyedIndex *middle = from + std::min(i + run, n), *end = from + std::min(i + 2 * run, n);
      std::merge(from + i, middle, middle, end, to + i,
                 [](const KeyedIndex& a, const KeyedIndex& b) { return a.key < b.key; });
    }
    std::swap(from, to);
  }
  if (from != entries) std::copy_n(from, n, entries);
}

}  // namespace

void SortByKey(KeyedIndex* entries, KeyedIndex* spare, int64_t n, int key_bytes) {
  // Counting digits takes as long as there are digits, however few entries there are.
  if (n <= 32) return Insert(entries, n);
  if (n <= 64 * key_bytes) return Merge(entries, spare, n);
  constexpr int kDigits = 256;
  int64_t counts[8][kDigits];
  std::fill_n(counts[0], key_bytes * kDigits, int64_t{0});
  for (int64_t i = 0; i < n; ++i) {
    for (int b = 0; b < key_bytes; ++b) ++counts[b][entries[i].key >> (8 * b) & 255];
  }
  KeyedIndex *from = entries, *to = spare;
  for (int b = 0; b < key_bytes; ++b) {
    if (counts[b][from[0].key >> (8 * b) & 255] == n) continue;
    int64_t place = 0;
    for (int64_t& count : counts[b]) place += std::exchange(count, place);
    for (int64_t i = 0; i < n; ++i) to[counts[b][from[i].key >> (8 * b) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy_n(from, n, entries);
}

}  // namespace quern
