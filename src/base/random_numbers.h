// Random numbers of tests and benchmarks, in place of the distributions of <random>: the same on every platform, and
// cheap under emulators, where those take logarithms of software's long doubles for each number.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace quern {

// Floats or doubles in [low, high), or `high` itself where low + (high - low) x rounds to it; from engines of 32 or 64
// random bits.
template <typename T>
class UniformNumbers {
 public:
  explicit UniformNumbers(T low = 0, T high = 1) : low_(low), width_(high - low) {}

  template <typename Engine>
  T operator()(Engine& engine) const {
    static_assert(Engine::min() == 0 && (Engine::max() == UINT32_MAX || Engine::max() == UINT64_MAX));
    constexpr int kDigits = std::numeric_limits<T>::digits;
    uint64_t bits = engine();
    if constexpr (Engine::max() == UINT64_MAX) {
      bits >>= 64 - kDigits;
    } else if constexpr (kDigits <= 32) {
      bits >>= 32 - kDigits;
    } else {
      bits = (bits << 32 | engine()) >> (64 - kDigits);
    }
    constexpr T kStep = std::numeric_limits<T>::epsilon() / 2;
    return low_ + width_ * (static_cast<T>(bits) * kStep);
  }

 private:
  T low_, width_;
};

// Numbers of a normal distribution, by Marsaglia's polar method.
template <typename T>
class NormalNumbers {
 public:
  explicit NormalNumbers(T mean = 0, T deviation = 1) : mean_(mean), deviation_(deviation) {}

  template <typename Engine>
  T operator()(Engine& engine) const {
    const UniformNumbers<T> side(-1, 1);
    for (;;) {
      const T x = side(engine), y = side(engine), square = x * x + y * y;
      if (square > 0 && square < 1) return mean_ + deviation_ * x * std::sqrt(-2 * std::log(square) / square);
    }
  }

 private:
  T mean_, deviation_;
};

}  // namespace quern
