// AMX tile instructions behind one name each: inline assembly (GCC 12's intrinsics do not take tile numbers from
// templates), or plain C++ where QUERN_ISA_EMULATED, so that AMX rows run on any host: functions out of line, which are
// compiled once for all tiles of a file. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"

namespace quern::ukernel {
namespace {
namespace amx {

// The operand of LDTILECFG, palette 1.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

// All eight tiles at their full size: operands are padded, so that one configuration serves every call.
[[maybe_unused]] constexpr TileConfig kFullTiles{
    .palette = 1,
    .start_row = 0,
    .reserved = {},
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

// For sums of blocks of 32 k beside those of 64 bytes: tiles 2 and 3 are left sides of 32 bytes, 4 and 5 their right
// sides; 6 and 7 are whole.
[[maybe_unused]] constexpr TileConfig kHalfTiles{
    .palette = 1,
    .start_row = 0,
    .reserved = {},
    .row_bytes = {64, 64, 32, 32, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 8, 8, 16, 16},
};

// Rows of sums that go through an epilogue at once: as many vectors as fit into registers, of either build.
[[maybe_unused]] constexpr int kEpilogueRows = QUERN_ISA_EMULATED ? 2 : 8;

#if QUERN_ISA_EMULATED

struct State {
  TileConfig config;
  uint8_t tile[8][16][64];
};
static thread_local State g_state;

// What the processor would fault on.
inline void Require(bool ok) {
  if (!ok) __builtin_trap();
}

inline void Clear(uint8_t (&tile)[16][64]) {
  for (auto& row : tile) {
    for (uint8_t& x : row) x = 0;
  }
}

[[maybe_unused]] __attribute__((noinline)) void LoadConfig(const TileConfig* config) {
  Require(config->palette == 1);
  for (int t = 0; t < 8; ++t) {
    Require(config->rows[t] <= 16 && config->row_bytes[t] <= 64 &&
            (config->rows[t] == 0) == (config->row_bytes[t] == 0));
    Clear(g_state.tile[t]);
  }
  g_state.config = *config;
}
[[maybe_unused]] void Release() { g_state.config = TileConfig{}; }

inline void RequireTile(int t) { Require(g_state.config.palette == 1 && g_state.config.rows[t] != 0); }

[[maybe_unused]] __attribute__((noinline)) void LoadTile(int t, const void* from, size_t stride) {
  RequireTile(t);
  Clear(g_state.tile[t]);
  const auto* p = static_cast<const uint8_t*>(from);
  for (int r = 0; r < g_state.config.rows[t]; ++r, p += stride) {
    for (int i = 0; i < g_state.config.row_bytes[t]; ++i) g_state.tile[t][r][i] = p[i];
  }
}
template <int T>
void Load(const void* from, size_t stride) {
  static_assert(T >= 0 && T < 8);
  LoadTile(T, from, stride);
}

[[maybe_unused]] __attribute__((noinline)) void StoreTile(int t, void* to, size_t stride) {
  RequireTile(t);
  auto* p = static_cast<uint8_t*>(to);
  for (int r = 0; r < g_state.config.rows[t]; ++r, p += stride) {
    for (int i = 0; i < g_state.config.row_bytes[t]; ++i) p[i] = g_state.tile[t][r][i];
  }
}
template <int T>
void Store(void* to, size_t stride) {
  static_assert(T >= 0 && T < 8);
  StoreTile(T, to, stride);
}

[[maybe_unused]] __attribute__((noinline)) void ZeroTile(int t) {
  RequireTile(t);
  Clear(g_state.tile[t]);
}
template <int T>
void Zero() {
  static_assert(T >= 0 && T < 8);
  ZeroTile(T);
}

template <class T>
T Element(const uint8_t* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof(T));
  return x;
}

// A denormal counts as zero, of its sign.
inline float Flush(float x) {
  return (Element<uint32_t>(reinterpret_cast<const uint8_t*>(&x)) & 0x7f800000u) ? x : __builtin_copysignf(0.0f, x);
}
inline float Bf16(const uint8_t* p) {
  const uint32_t bits = static_cast<uint32_t>(Element<uint16_t>(p)) << 16;
  return Flush(Element<float>(reinterpret_cast<const uint8_t*>(&bits)));
}
inline float F16(const uint8_t* p) { return F16BitsToF32(Element<uint16_t>(p)); }

// Tiles that a product may take: the configuration that they have.
inline const TileConfig& RequireProduct(int c, int a, int b) {
  RequireTile(c);
  RequireTile(a);
  RequireTile(b);
  const TileConfig& g = g_state.config;
  Require(g.rows[c] == g.rows[a] && g.row_bytes[c] == g.row_bytes[b] && g.row_bytes[a] == 4 * g.rows[b]);
  return g;
}

// c += a * b in float32, elements by T: even and odd k summed apart by fused multiply-adds, then added; float32
// denormals flushed throughout. In float64, which holds the product: that the sum is rounded there first does not
// change what float32 makes of it, as 53 bits are at least 2 * 24 + 2.
template <float (*T)(const uint8_t*)>
__attribute__((noinline)) void DotFloat(int c, int a, int b) {
  const TileConfig& g = RequireProduct(c, a, b);
  const int columns = g.row_bytes[c] / 4;
  for (int m = 0; m < g.rows[c]; ++m) {
    float part[2][16] = {};
    for (int k = 0; k < g.rows[b]; ++k) {
      for (int i = 0; i < 2; ++i) {
        const double x = static_cast<double>(T(&g_state.tile[a][m][4 * k + 2 * i]));
        for (int n = 0; n < columns; ++n) {
          const double y = static_cast<double>(T(&g_state.tile[b][k][4 * n + 2 * i]));
          part[i][n] = Flush(static_cast<float>(x * y + static_cast<double>(part[i][n])));
        }
      }
    }
    for (int n = 0; n < columns; ++n) {
      uint8_t* to = &g_state.tile[c][m][4 * n];
      const float sum = Flush(Flush(Element<float>(to)) + Flush(part[0][n] + part[1][n]));
      __builtin_memcpy(to, &sum, 4);
    }
  }
}

// c += a * b in 32-bit integers, four products of bytes in each; X is a's.
template <class X>
__attribute__((noinline)) void DotBytes(int c, int a, int b) {
  const TileConfig& g = RequireProduct(c, a, b);
  for (int m = 0; m < g.rows[c]; ++m) {
    for (int n = 0; n < g.row_bytes[c] / 4; ++n) {
      uint32_t sum = Element<uint32_t>(&g_state.tile[c][m][4 * n]);  // wraps around
      for (int k = 0; k < g.rows[b]; ++k) {
        for (int i = 0; i < 4; ++i) {
          sum += static_cast<uint32_t>(static_cast<X>(g_state.tile[a][m][4 * k + i]) *
                                       static_cast<int8_t>(g_state.tile[b][k][4 * n + i]));
        }
      }
      __builtin_memcpy(&g_state.tile[c][m][4 * n], &sum, 4);
    }
  }
}

// The operands of a product are three tiles.
template <int C, int A, int B>
constexpr bool kThreeTiles = C != A && C != B && A != B && C >= 0 && C < 8 && A >= 0 && A < 8 && B >= 0 && B < 8;
template <int C, int A, int B>
void DotBf16() {
  static_assert(kThreeTiles<C, A, B>);
  DotFloat<Bf16>(C, A, B);
}
// Denormals of f16 are kept.
template <int C, int A, int B>
void DotF16() {
  static_assert(kThreeTiles<C, A, B>);
  DotFloat<F16>(C, A, B);
}
template <int C, int A, int B>
void DotI8() {
  static_assert(kThreeTiles<C, A, B>);
  DotBytes<int8_t>(C, A, B);
}
template <int C, int A, int B>
void DotU8() {
  static_assert(kThreeTiles<C, A, B>);
  DotBytes<uint8_t>(C, A, B);
}

#else

inline void LoadConfig(const TileConfig* config) { asm volatile("ldtilecfg %0" : : "m"(*config)); }
inline void Release() { asm volatile("tilerelease"); }

template <int T>
inline void Load(const void* from, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(T) : "memory");
}
template <int T>
inline void Store(void* to, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(T) : "memory");
}
template <int T>
inline void Zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(T));
}
template <int C, int A, int B>
inline void DotBf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
template <int C, int A, int B>
inline void DotF16() {
  asm volatile("tdpfp16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
template <int C, int A, int B>
inline void DotI8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
template <int C, int A, int B>
inline void DotU8() {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}

#endif

// A row's GemmKernel::enter_mode and leave_mode.
[[maybe_unused]] void Enter(const void* config) { LoadConfig(static_cast<const TileConfig*>(config)); }
[[maybe_unused]] void Leave() { Release(); }

}  // namespace amx
}  // namespace
}  // namespace quern::ukernel
