#include "ops/common/fourier.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace quern {
namespace {

// A radix costs as many products per element as it is large; from about here on Bluestein's three transforms of the
// padded length cost less.
constexpr int kLargestRadix = 61;

// exp(-2 pi i k / n), 0 <= k < n.
Complex Root(int64_t k, int64_t n) {
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(k) / static_cast<double>(n));
  return {std::cos(angle), -std::sin(angle)};
}

// The prime factors of n, or none when one is above kLargestRadix.
std::vector<int> SmallFactors(int64_t n) {
  std::vector<int> factors;
  for (int p = 2; p <= kLargestRadix; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.clear();
  return factors;
}

}  // namespace

FourierTransform::FourierTransform(int64_t length) : length_(length), radices_(SmallFactors(length)) {
  if (length == 1) return;
  const size_t n = static_cast<size_t>(length);
  if (!radices_.empty()) {
    scratch_.resize(n);
    roots_.resize(n);
    for (int64_t k = 0; k < length; ++k) roots_[k] = Root(k, length);
    return;
  }
  int64_t padded_length = 1;
  while (padded_length < 2 * length - 1) padded_length *= 2;
  padded_ = std::make_unique<FourierTransform>(padded_length);
  chirp_.resize(n);
  kernel_.resize(static_cast<size_t>(padded_length));
  scratch_.resize(static_cast<size_t>(padded_length));
  int64_t square = 0;  // j^2 modulo 2 * length, where the chirp repeats
  for (int64_t j = 0; j < length; ++j) {
    chirp_[j] = Root(square, 2 * length);
    square = (square + 2 * j + 1) % (2 * length);
  }
  const double scale = 1.0 / static_cast<double>(padded_length);
  for (int64_t j = 0; j < length; ++j) {
    const Complex value = chirp_[j].Conjugate() * scale;
    kernel_[j] = value;
    if (j > 0) kernel_[padded_length - j] = value;
  }
  padded_->Forward(kernel_.data());
}

void FourierTransform::Forward(Complex* data) {
  if (length_ == 1) return;
  if (padded_) return Bluestein(data);
  std::copy_n(data, length_, scratch_.data());
  MixedRadix(scratch_.data(), 1, data, length_, 0);
}

void FourierTransform::Inverse(Complex* data) {
  const double scale = 1.0 / static_cast<double>(length_);
  for (int64_t j = 0; j < length_; ++j) data[j] = data[j].Conjugate();
  Forward(data);
  for (int64_t j = 0; j < length_; ++j) data[j] = data[j].Conjugate() * scale;
}

// The transform of in[0], in[stride], ... (`length` elements, stride * length being the whole length): those of every
// radix-th element first, then butterflies over their results.
void FourierTransform::MixedRadix(const Complex* in, int64_t stride, Complex* out, int64_t length, size_t level) const {
  if (length == 1) {
    out[0] = in[0];
    return;
  }
  const int radix = radices_[level];
  const int64_t part = length / radix;
  for (int q = 0; q < radix; ++q) MixedRadix(in + q * stride, stride * radix, out + q * part, part, level + 1);
  std::array<Complex, kLargestRadix> terms, unit_roots;
  for (int r = 0; r < radix; ++r) unit_roots[r] = roots_[r * (length_ / radix)];
  for (int64_t k = 0; k < part; ++k) {
    for (int q = 0; q < radix; ++q) terms[q] = out[q * part + k] * roots_[q * k * stride];
    for (int r = 0; r < radix; ++r) {
      Complex sum = terms[0];
      for (int q = 1, root = r; q < radix; ++q) {
        sum = sum + terms[q] * unit_roots[root];
        root += r;
        if (root >= radix) root -= radix;
      }
      out[r * part + k] = sum;
    }
  }
}

// jk = (j^2 + k^2 - (k - j)^2) / 2 turns the transform into a convolution with the chirp.
void FourierTransform::Bluestein(Complex* data) {
  std::fill(scratch_.begin(), scratch_.end(), Complex{});
  for (int64_t j = 0; j < length_; ++j) scratch_[j] = data[j] * chirp_[j];
  padded_->Forward(scratch_.data());
  for (size_t k = 0; k < scratch_.size(); ++k) scratch_[k] = (scratch_[k] * kernel_[k]).Conjugate();
  padded_->Forward(scratch_.data());  // of the conjugate: the conjugate of the inverse, the scale is in the kernel
  for (int64_t k = 0; k < length_; ++k) data[k] = scratch_[k].Conjugate() * chirp_[k];
}

}  // namespace quern
