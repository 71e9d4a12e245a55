// The bytes that kRequantize stores. For kernel files only: internal linkage.
#pragma once

#include "ukernel/epilogue.h"

namespace quern::ukernel {
namespace {

// What kRequantize does behind its product by the scale, on bytes without sign: those of int8 are turned, by adding
// 128, until they are stored.
struct ByteRange {
  int32_t zero;       // added to the rounded product
  uint8_t low, high;  // bounds of the sum
  uint8_t turn;       // of the stored byte's bits

  explicit ByteRange(const EpilogueOp& op = {}) {
    const int32_t least = op.format == Format::kI8 ? -128 : 0, most = least + 255;
    int32_t from = least, to = most;
    if (op.a < op.b) {
      const auto bound = [&](float x) {
        return x > static_cast<float>(most) ? most : x > static_cast<float>(least) ? static_cast<int32_t>(x) : least;
      };
      from = bound(op.a), to = bound(op.b);
    }
    zero = op.integer - least;
    low = static_cast<uint8_t>(from - least);
    high = static_cast<uint8_t>(to - least);
    turn = op.format == Format::kI8 ? 128 : 0;
  }
};

}  // namespace
}  // namespace quern::ukernel
