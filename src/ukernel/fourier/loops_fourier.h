// The bodies of the Fourier family: generic vectors, which the compiler maps to the registers of the including file's
// ISA. Everything has internal linkage.
#pragma once

#include "ukernel/fourier.h"

namespace quern::ukernel {
namespace {

// Element j of kLanes lines. kSwapped: imaginary parts first.
template <int kLanes>
struct FourierVector {
  typedef float Reg __attribute__((vector_size(kLanes * sizeof(float))));
  Reg re, im;

  void Load(const float* x, size_t j, bool swapped) {
    const float* at = x + 2 * j * kLanes;
    __builtin_memcpy(&re, at + (swapped ? kLanes : 0), sizeof re);
    __builtin_memcpy(&im, at + (swapped ? 0 : kLanes), sizeof im);
  }
  void Store(float* y, size_t j, bool swapped) const {
    float* at = y + 2 * j * kLanes;
    __builtin_memcpy(at + (swapped ? kLanes : 0), &re, sizeof re);
    __builtin_memcpy(at + (swapped ? 0 : kLanes), &im, sizeof im);
  }
  // Times the complex number at f.
  void Times(const float* f) {
    const Reg real = re * f[0] - im * f[1];
    im = re * f[1] + im * f[0];
    re = real;
  }
  void Add(const FourierVector& b) {
    re += b.re;
    im += b.im;
  }
};

// Transforms of two to five elements in place, the sines and cosines of their angles written out.
template <int kLanes>
void Butterfly(FourierVector<kLanes> (&a)[2]) {
  const auto x = a[0];
  a[0].Add(a[1]);
  a[1] = {x.re - a[1].re, x.im - a[1].im};
}
template <int kLanes>
void Butterfly(FourierVector<kLanes> (&a)[3]) {
  constexpr float kSine = 0.86602540378443864676f;
  const FourierVector<kLanes> sum{a[1].re + a[2].re, a[1].im + a[2].im};
  const FourierVector<kLanes> turned{(a[1].im - a[2].im) * kSine, (a[2].re - a[1].re) * kSine};
  const FourierVector<kLanes> middle{a[0].re - sum.re * 0.5f, a[0].im - sum.im * 0.5f};
  a[0].Add(sum);
  a[1] = {middle.re + turned.re, middle.im + turned.im};
  a[2] = {middle.re - turned.re, middle.im - turned.im};
}
template <int kLanes>
void Butterfly(FourierVector<kLanes> (&a)[4]) {
  const FourierVector<kLanes> even{a[0].re + a[2].re, a[0].im + a[2].im}, odd{a[1].re + a[3].re, a[1].im + a[3].im};
  const FourierVector<kLanes> far{a[0].re - a[2].re, a[0].im - a[2].im};
  const FourierVector<kLanes> turned{a[1].im - a[3].im, a[3].re - a[1].re};  // times -i
  a[0] = {even.re + odd.re, even.im + odd.im};
  a[1] = {far.re + turned.re, far.im + turned.im};
  a[2] = {even.re - odd.re, even.im - odd.im};
  a[3] = {far.re - turned.re, far.im - turned.im};
}
template <int kLanes>
void Butterfly(FourierVector<kLanes> (&a)[5]) {
  constexpr float kCos1 = 0.30901699437494742410f, kSin1 = 0.95105651629515357212f;
  constexpr float kCos2 = -0.80901699437494742410f, kSin2 = 0.58778525229247312917f;
  const FourierVector<kLanes> sum1{a[1].re + a[4].re, a[1].im + a[4].im}, sum2{a[2].re + a[3].re, a[2].im + a[3].im};
  // Differences times -i.
  const FourierVector<kLanes> turn1{a[1].im - a[4].im, a[4].re - a[1].re}, turn2{a[2].im - a[3].im, a[3].re - a[2].re};
  const FourierVector<kLanes> near{a[0].re + sum1.re * kCos1 + sum2.re * kCos2,
                                   a[0].im + sum1.im * kCos1 + sum2.im * kCos2};
  const FourierVector<kLanes> far{a[0].re + sum1.re * kCos2 + sum2.re * kCos1,
                                  a[0].im + sum1.im * kCos2 + sum2.im * kCos1};
  const FourierVector<kLanes> side1{turn1.re * kSin1 + turn2.re * kSin2, turn1.im * kSin1 + turn2.im * kSin2};
  const FourierVector<kLanes> side2{turn1.re * kSin2 - turn2.re * kSin1, turn1.im * kSin2 - turn2.im * kSin1};
  a[0].Add(sum1);
  a[0].Add(sum2);
  a[1] = {near.re + side1.re, near.im + side1.im};
  a[2] = {far.re + side2.re, far.im + side2.im};
  a[3] = {far.re - side2.re, far.im - side2.im};
  a[4] = {near.re - side1.re, near.im - side1.im};
}

template <int kLanes, size_t kRadix>
void FourierPassOf(const FourierPassArgs& a) {
  for (size_t p = 0; p < a.parts; ++p) {
    const float* twiddles = a.twiddles + 2 * p * (kRadix - 1);
    for (size_t q = 0; q < a.stride; ++q) {
      FourierVector<kLanes> v[kRadix];
      for (size_t k = 0; k < kRadix; ++k) v[k].Load(a.x, q + a.stride * (p + a.parts * k), a.swapped);
      Butterfly(v);
      v[0].Store(a.y, q + a.stride * kRadix * p, a.swapped);
      for (size_t r = 1; r < kRadix; ++r) {
        v[r].Times(twiddles + 2 * (r - 1));
        v[r].Store(a.y, q + a.stride * (kRadix * p + r), a.swapped);
      }
    }
  }
}

// Any radix: elements k and radix - k have conjugate roots, so their sums and differences serve two results.
template <int kLanes>
void FourierPassOfAny(const FourierPassArgs& a) {
  using Vector = FourierVector<kLanes>;
  const size_t radix = a.radix, pairs = (radix - 1) / 2;
  for (size_t p = 0; p < a.parts; ++p) {
    const float* twiddles = a.twiddles + 2 * p * (radix - 1);
    for (size_t q = 0; q < a.stride; ++q) {
      Vector first, sums[kLargestRadix / 2], differences[kLargestRadix / 2];
      const auto load = [&](size_t k, Vector& to) { to.Load(a.x, q + a.stride * (p + a.parts * k), a.swapped); };
      load(0, first);
      Vector total = first;
      for (size_t k = 1; k <= pairs; ++k) {
        Vector x, mirrored;
        load(k, x);
        load(radix - k, mirrored);
        sums[k - 1] = {x.re + mirrored.re, x.im + mirrored.im};
        differences[k - 1] = {x.re - mirrored.re, x.im - mirrored.im};
        total.Add(sums[k - 1]);
      }
      Vector middle{};  // of an even radix, element radix / 2
      if (radix % 2 == 0) {
        load(radix / 2, middle);
        total.Add(middle);
      }
      const size_t at = q + a.stride * radix * p;
      total.Store(a.y, at, a.swapped);
      for (size_t r = 1; 2 * r <= radix; ++r) {
        const float sign = r % 2 ? -1.0f : 1.0f;
        Vector even{first.re + middle.re * sign, first.im + middle.im * sign}, odd{};  // odd times i is what differs
        for (size_t k = 1, root = r; k <= pairs; ++k) {
          const float cosine = a.roots[2 * root], sine = a.roots[2 * root + 1];
          even.re += sums[k - 1].re * cosine;
          even.im += sums[k - 1].im * cosine;
          odd.re += differences[k - 1].re * sine;
          odd.im += differences[k - 1].im * sine;
          root += r;
          if (root >= radix) root -= radix;
        }
        Vector low{even.re - odd.im, even.im + odd.re}, high{even.re + odd.im, even.im - odd.re};
        low.Times(twiddles + 2 * (r - 1));
        low.Store(a.y, at + a.stride * r, a.swapped);
        if (2 * r == radix) break;
        high.Times(twiddles + 2 * (radix - r - 1));
        high.Store(a.y, at + a.stride * (radix - r), a.swapped);
      }
    }
  }
}

template <int kLanes>
void FourierPass(const FourierPassArgs& a) {
  switch (a.radix) {
    case 2:
      return FourierPassOf<kLanes, 2>(a);
    case 3:
      return FourierPassOf<kLanes, 3>(a);
    case 4:
      return FourierPassOf<kLanes, 4>(a);
    case 5:
      return FourierPassOf<kLanes, 5>(a);
    default:
      return FourierPassOfAny<kLanes>(a);
  }
}

template <int kLanes>
void FourierMultiply(const FourierMultiplyArgs& a) {
  for (size_t j = 0; j < a.n; ++j) {
    FourierVector<kLanes> v;
    v.Load(a.x, j, a.swapped);
    v.Times(a.factors + 2 * j);
    v.Store(a.y, j, a.swapped);
  }
}

template <int kLanes>
void FourierScale(const FourierScaleArgs& a) {
  typename FourierVector<kLanes>::Reg x;
  float* at = a.x;
  for (size_t row = 0, w = 0; row < a.rows; w += a.step) {
    const float weight = a.weights[w];
    for (size_t i = 0; i < a.repeat && row < a.rows; ++i, ++row, at += kLanes) {
      __builtin_memcpy(&x, at, sizeof x);
      x *= weight;
      __builtin_memcpy(at, &x, sizeof x);
    }
  }
}

// With z the transform of the complex line, the spectrum is e + w o, where e = (z[k] + conj z[half - k]) / 2 and
// o = (z[k] - conj z[half - k]) / 2i are those of the elements at even and at odd places; element half - k is
// conj(e - w o).
template <int kLanes>
void FourierSplit(const FourierRealArgs& a) {
  using Vector = FourierVector<kLanes>;
  const size_t half = a.half;
  const auto store = [&](Vector v, size_t k) {
    v.Store(a.y, k, false);
    if (!a.whole || k == 0 || k == half) return;
    v.im = -v.im;
    v.Store(a.y, 2 * half - k, false);
  };
  for (size_t k = 0; 2 * k <= half; ++k) {
    Vector z, mirrored;
    z.Load(a.x, k, false);
    mirrored.Load(a.x, k == 0 ? 0 : half - k, false);
    Vector even{(z.re + mirrored.re) * 0.5f, (z.im - mirrored.im) * 0.5f};
    Vector odd{(z.im + mirrored.im) * 0.5f, (mirrored.re - z.re) * 0.5f};
    odd.Times(a.roots + 2 * k);
    store({even.re + odd.re, even.im + odd.im}, k);
    store({even.re - odd.re, odd.im - even.im}, half - k);
  }
}

// The other way round: z[k] = e + i o and z[half - k] = conj(e - i o), where e = x[k] + conj x[half - k] and
// o = (x[k] - conj x[half - k]) conj(w).
template <int kLanes>
void FourierJoin(const FourierRealArgs& a) {
  using Vector = FourierVector<kLanes>;
  const size_t half = a.half;
  for (size_t k = 0; 2 * k <= half; ++k) {
    Vector x, mirrored;
    x.Load(a.x, k, false);
    mirrored.Load(a.x, half - k, false);
    if (k == 0) x.im = mirrored.im = Vector{}.im;
    const Vector even{(x.re + mirrored.re) * a.scale, (x.im - mirrored.im) * a.scale};
    Vector odd{(x.re - mirrored.re) * a.scale, (x.im + mirrored.im) * a.scale};
    const float turn[2] = {a.roots[2 * k], -a.roots[2 * k + 1]};
    odd.Times(turn);
    Vector{even.re - odd.im, even.im + odd.re}.Store(a.y, k, false);
    if (k > 0) Vector{even.re + odd.im, odd.re - even.im}.Store(a.y, half - k, false);
  }
}

template <int kLanes>
constexpr FourierKernel FourierRow(const Isa& isa) {
  return {.isa = isa,
          .lanes = kLanes,
          .pass = FourierPass<kLanes>,
          .multiply = FourierMultiply<kLanes>,
          .scale = FourierScale<kLanes>,
          .split = FourierSplit<kLanes>,
          .join = FourierJoin<kLanes>};
}

}  // namespace
}  // namespace quern::ukernel
