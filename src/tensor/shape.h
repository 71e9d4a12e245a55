// Shape: the extents of a tensor, without allocation. Strides are counted in elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "base/check.h"
#include "base/checked_math.h"

namespace quern {

// Highest rank that Quern accepts; readers refuse more with an error.
inline constexpr int kMaxRank = 16;

// A list of at most kMaxRank int64 (extents, strides, indices, permutations).
class Shape {
 public:
  Shape() = default;
  // Most have few dimensions: the others are not copied.
  Shape(const Shape& o) : rank_(o.rank_) { CopyDims(o); }
  Shape& operator=(const Shape& o) {
    rank_ = o.rank_;
    CopyDims(o);
    return *this;
  }
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    QUERN_CHECK(dims.size() <= kMaxRank, "rank above kMaxRank");
    rank_ = static_cast<int>(dims.size());
    for (int i = 0; i < rank_; ++i) dims_[i] = dims[i];
  }
  // `rank` copies of `value`.
  static Shape Filled(int rank, int64_t value) {
    Shape s;
    for (int i = 0; i < rank; ++i) s.push_back(value);
    return s;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  int64_t* begin() { return dims_.data(); }
  int64_t* end() { return dims_.data() + rank_; }
  std::span<const int64_t> span() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  int64_t back() const { return dims_[rank_ - 1]; }

  void push_back(int64_t d) {
    QUERN_CHECK(rank_ < kMaxRank, "rank above kMaxRank");
    dims_[rank_++] = d;
  }
  void insert(int at, int64_t d) {
    push_back(0);
    for (int i = rank_ - 1; i > at; --i) dims_[i] = dims_[i - 1];
    dims_[at] = d;
  }
  void erase(int at) {
    for (int i = at; i + 1 < rank_; ++i) dims_[i] = dims_[i + 1];
    --rank_;
  }

  // Product of extents; the shape must have been checked (no overflow, no negative extent).
  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t d : span()) n *= d;
    return n;
  }
  // Product of the extents in [from, to).
  int64_t num_elements(int from, int to) const {
    int64_t n = 1;
    for (int i = from; i < to; ++i) n *= dims_[i];
    return n;
  }
  // Row-major strides in elements.
  Shape ContiguousStrides() const {
    Shape s = Filled(rank_, 1);
    for (int i = rank_ - 2; i >= 0; --i) s[i] = s[i + 1] * dims_[i + 1];
    return s;
  }
  bool operator==(const Shape& o) const {
    if (rank_ != o.rank_) return false;
    for (int i = 0; i < rank_; ++i) {
      if (dims_[i] != o.dims_[i]) return false;
    }
    return true;
  }
  // "[1,3,224,224]"
  std::string ToString() const;

 private:
  static constexpr int kFew = 4;
  void CopyDims(const Shape& o) {
    std::copy_n(o.dims_.begin(), kFew, dims_.begin());
    if (rank_ > kFew) std::copy_n(o.dims_.begin() + kFew, kMaxRank - kFew, dims_.begin() + kFew);
  }

  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

// Numpy-style broadcast of two shapes; nothing when they do not match.
std::optional<Shape> BroadcastShapes(const Shape& a, const Shape& b);
// Strides (elements) that walk a tensor of `shape` and `strides` as if it had the broadcast shape `to`
// (0 where an extent of 1 is repeated). `shape` must broadcast to `to`.
Shape BroadcastStrides(const Shape& shape, const Shape& strides, const Shape& to);

}  // namespace quern
