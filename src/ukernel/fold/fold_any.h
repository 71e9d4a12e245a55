// Running sums, and the table of a row: every function of the family for every type.
#pragma once

#include "ukernel/fold/top_rows.h"

namespace quern::ukernel {
namespace {

// kVectors * kBytes of columns from c on.
template <class T, bool kProduct, bool kExclusive, size_t kBytes, int kVectors>
void RunningColumns(const RunningSum<T>& args, size_t c) {
  using U = typename WrappingOf<T>::Type;
  using Lanes = typename LanesOf<U, kBytes>::Type;
  Lanes acc[kVectors];
  for (Lanes& a : acc) Fill(a, FoldStart<U>(kProduct ? FoldKind::kProd : FoldKind::kSum));
  ptrdiff_t at = static_cast<ptrdiff_t>(c);
  for (size_t r = 0; r < args.rows; ++r, at += args.row_stride) {
    for (int k = 0; k < kVectors; ++k) {
      const ptrdiff_t here = at + k * static_cast<ptrdiff_t>(kBytes / sizeof(T));
      Lanes v;
      Load(args.x + here, v);
      v = kProduct ? acc[k] * v : acc[k] + v;
      Store(args.y + here, kExclusive ? acc[k] : v);
      acc[k] = v;
    }
  }
}

template <class T, bool kProduct, bool kExclusive>
void RunningRows(const RunningSum<T>& args) {
  constexpr size_t kWide = 4 * 64 / sizeof(T);
  size_t c = 0;
  for (; c + kWide <= args.n; c += kWide) RunningColumns<T, kProduct, kExclusive, 64, 4>(args, c);
  CoverColumns<T, 64, false>(
      c, args.n, [&]<size_t kBytes>(size_t at) { RunningColumns<T, kProduct, kExclusive, kBytes, 1>(args, at); });
}

template <class T>
void RunRunningSum(const RunningSum<T>& args) {
  if (args.product) {
    args.exclusive ? RunningRows<T, true, true>(args) : RunningRows<T, true, false>(args);
  } else {
    args.exclusive ? RunningRows<T, false, true>(args) : RunningRows<T, false, false>(args);
  }
}

template <class T>
constexpr FoldFunctions<T> FunctionsOf() {
  FoldFunctions<T> f = {.arg = RunArg<T>, .arg_rows = RunArgRows<T>, .greatest = RunGreatest<T>};
  if constexpr (sizeof(T) > 1) f.running_sum = RunRunningSum<T>;
  if constexpr (sizeof(T) >= 4 && std::is_signed_v<T>) f.top_rows = RunTopRows<T>;
  if constexpr (!std::is_same_v<T, float>) {
    f.fold = RunFold<T>;
    f.fold_lines = RunFoldLines<T>;
    f.fold_rows = RunFoldRows<T>;
  }
  return f;
}

constexpr FoldKernel FoldRow(const Isa& isa, uint16_t vector_bytes) {
  return {.isa = isa,
          .vector_bytes = vector_bytes,
          .f32 = FunctionsOf<float>(),
          .f64 = FunctionsOf<double>(),
          .i32 = FunctionsOf<int32_t>(),
          .i64 = FunctionsOf<int64_t>(),
          .u32 = FunctionsOf<uint32_t>(),
          .u64 = FunctionsOf<uint64_t>(),
          .i8 = FunctionsOf<int8_t>(),
          .u8 = FunctionsOf<uint8_t>()};
}

}  // namespace
}  // namespace quern::ukernel
