// int8 products on SME, int32 accumulators: outer products of groups of 4 k, two by two streaming vectors. A call
// covers a whole panel, so that streaming mode is entered once. For kernel files only: everything has internal linkage
// and is compiled with their flags.
#pragma once

#include <arm_sme.h>

#include "ukernel/gemm.h"
#include "ukernel/sme_call.h"

#define QUERN_STREAMING __attribute__((always_inline)) static inline

namespace quern::ukernel {
namespace {

// Of 4 k of two vectors of rows by two of columns, into all four tiles of int32.
template <bool kSignedLhs>
QUERN_STREAMING void OuterProducts(svint8_t x0, svint8_t x1, svint8_t w0,
                                   svint8_t w1) __arm_streaming __arm_inout("za") {
  const svbool_t all = svptrue_b8();
  if constexpr (kSignedLhs) {
    svmopa_za32_m(0, all, all, x0, w0);
    svmopa_za32_m(1, all, all, x0, w1);
    svmopa_za32_m(2, all, all, x1, w0);
    svmopa_za32_m(3, all, all, x1, w1);
  } else {
    svusmopa_za32_m(0, all, all, svreinterpret_u8(x0), w0);
    svusmopa_za32_m(1, all, all, svreinterpret_u8(x0), w1);
    svusmopa_za32_m(2, all, all, svreinterpret_u8(x1), w0);
    svusmopa_za32_m(3, all, all, svreinterpret_u8(x1), w1);
  }
}

// ZA tile T from and to rows and columns of the call from (m, n) on.
template <int T>
QUERN_STREAMING void Fetch(const GemmArgs& a, size_t m, size_t n) __arm_streaming __arm_inout("za") {
  const svbool_t pg = svwhilelt_b32(static_cast<uint64_t>(n), static_cast<uint64_t>(a.n));
  const uint64_t lanes = svcntw();
  for (uint64_t r = 0; r < lanes && m + r < a.m; ++r) {
    const char* row = static_cast<const char*>(a.acc) + (m + r) * a.acc_row_stride;
    svld1_hor_za32(T, static_cast<uint32_t>(r), pg, row + n * sizeof(int32_t));
  }
}
template <int T>
QUERN_STREAMING void Store(const GemmArgs& a, size_t m, size_t n) __arm_streaming __arm_inout("za") {
  const svbool_t pg = svwhilelt_b32(static_cast<uint64_t>(n), static_cast<uint64_t>(a.n));
  const uint64_t lanes = svcntw();
  char* out = static_cast<char*>(a.last_k ? a.dst : a.acc);
  const size_t stride = a.last_k ? a.dst_row_stride : a.acc_row_stride;
  for (uint64_t r = 0; r < lanes && m + r < a.m; ++r) {
    svst1_hor_za32(T, static_cast<uint32_t>(r), pg, out + (m + r) * stride + n * sizeof(int32_t));
  }
}

// D::Panel<kSignedLhs>(lhs, rhs, groups) adds the outer products of `groups` groups, two vectors of each side for each.
template <class D, bool kSignedLhs>
void SmeBody(void* argument) __arm_streaming __arm_inout("za") {
  const GemmArgs& a = *static_cast<const GemmArgs*>(argument);
  const uint64_t lanes = svcntw();
  for (size_t n = 0, unit = 0; n < a.n; n += 2 * lanes, ++unit) {
    for (size_t m = 0, panel = 0; m < a.m; m += 2 * lanes, ++panel) {
      svzero_za();
      if (!a.first_k) {
        Fetch<0>(a, m, n);
        Fetch<1>(a, m, n + lanes);
        Fetch<2>(a, m + lanes, n);
        Fetch<3>(a, m + lanes, n + lanes);
      }
      D::template Panel<kSignedLhs>(
          static_cast<const int8_t*>(a.lhs) + static_cast<ptrdiff_t>(panel) * a.lhs_row_stride,
          static_cast<const int8_t*>(a.rhs) + unit * a.rhs_unit_stride, (a.k + 3) / 4);
      Store<0>(a, m, n);
      Store<1>(a, m, n + lanes);
      Store<2>(a, m + lanes, n);
      Store<3>(a, m + lanes, n + lanes);
    }
  }
}

template <class D, bool kSignedLhs>
void RunSme(const GemmArgs& a) {
  quern_sme_call(SmeBody<D, kSignedLhs>, const_cast<GemmArgs*>(&a));
}

}  // namespace
}  // namespace quern::ukernel
