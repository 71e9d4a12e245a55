// Discrete Fourier transforms of any length, in double.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace quern {

// std::complex checks every product for NaN; this one does not.
struct Complex {
  double re = 0, im = 0;

  Complex Conjugate() const { return {re, -im}; }
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  friend Complex operator*(Complex a, double s) { return {a.re * s, a.im * s}; }
};

// The transform of one length: mixed radix (Cooley and Tukey) when the prime factors are small, else as a convolution
// of a padded length (Bluestein). Uses scratch memory of its own, so one thread at a time may call it.
class FourierTransform {
 public:
  // length >= 1
  explicit FourierTransform(int64_t length);
  // An upper bound of the memory that the constructor takes: 17 complex numbers per element when Bluestein pads to
  // almost four times the length.
  static double MemoryBytes(int64_t length) { return 17.0 * sizeof(Complex) * static_cast<double>(length); }

  int64_t length() const { return length_; }
  // data[k] = sum over j of data[j] * exp(-2 pi i j k / length), in place.
  void Forward(Complex* data);
  // data[j] = 1 / length * sum over k of data[k] * exp(2 pi i j k / length), in place.
  void Inverse(Complex* data);

 private:
  void MixedRadix(const Complex* in, int64_t stride, Complex* out, int64_t length, size_t level) const;
  void Bluestein(Complex* data);

  int64_t length_;
  // Mixed radix.
  std::vector<int> radices_;
  std::vector<Complex> roots_;  // exp(-2 pi i k / length)
  std::vector<Complex> scratch_;
  // Bluestein.
  std::vector<Complex> chirp_;   // exp(-pi i j^2 / length)
  std::vector<Complex> kernel_;  // transform of the conjugate chirp, padded and over the padded length
  std::unique_ptr<FourierTransform> padded_;
};

}  // namespace quern
