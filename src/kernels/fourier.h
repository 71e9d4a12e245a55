// Discrete Fourier transforms of float32 along lines, any length: mixed radix (Stockham's passes) where all prime
// factors are small, else as a convolution of a padded length (Bluestein). Real lines of an even length are transformed
// as complex ones of half the length. Lines stand side by side in the lanes of a register (ukernel/fourier.h), so a
// line's bits do not depend on its neighbours. The error grows with the logarithm of the length; factors of rotation
// are rounded from double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ukernel/fourier.h"
#include "ukernel/vector.h"

namespace quern::kernels {

// y[k] = sum over j of x[j] * exp(-2 pi i j k / length) of complex lines; with `swapped` parts the inverse one, without
// its division. Works in place on what ukernel/fourier.h describes.
class ComplexFourier {
 public:
  // length >= 1
  explicit ComplexFourier(int64_t length);
  size_t length() const { return length_; }
  // Elements that each of the two buffers must hold: more than the length for Bluestein's algorithm.
  size_t buffer_elements() const { return padded_ ? padded_->length_ : length_; }
  // Transforms x, using y; returns the one that holds the result.
  float* Run(const ukernel::FourierKernel& row, float* x, float* y, bool swapped) const;

 private:
  struct Pass {
    size_t radix, parts, stride;
    std::vector<float> twiddles, roots;
  };
  float* RunPasses(const ukernel::FourierKernel& row, float* x, float* y, bool swapped) const;

  size_t length_;
  std::vector<Pass> passes_;
  // Bluestein.
  std::unique_ptr<ComplexFourier> padded_;
  std::vector<float> chirp_;   // exp(-pi i j^2 / length)
  std::vector<float> kernel_;  // transform of the conjugate chirp, padded and over the padded length
};

enum class FourierForm {
  kComplex,  // complex lines, or real ones taken as such, to complex lines
  kReal,     // real lines to their spectra, whole or the first half + 1 elements
  kToReal,   // the first half + 1 elements of spectra to real lines; inverse only
};

// Lines in memory; strides in floats. Of each side, one of its strides is the number of components (1 for real lines, 2
// for complex ones).
struct FourierLines {
  int64_t lines = 0;
  const float* x = nullptr;
  int64_t x_line = 0, x_element = 0;
  int64_t taken = 0;              // elements that are read of a line; what is missing to the length is zero
  const float* window = nullptr;  // null, or `taken` factors of the elements
  float* y = nullptr;             // no operand
  int64_t y_line = 0, y_element = 0;
};

class FourierPlan {
 public:
  // `length` >= 1 of the transform, `components` of the input's elements. `kept`: elements of each result that are
  // written, from the first on. kToReal is the inverse one, kReal is not.
  FourierPlan(int64_t length, FourierForm form, bool inverse, int components, int64_t kept);

  // An upper bound of the memory of a plan and of one workspace.
  static double MemoryBytes(double length, size_t lanes) {
    return length * (16.0 * static_cast<double>(lanes) + 64) * 4;
  }
  size_t workspace_floats(const ukernel::FourierKernel& row) const { return 4 * buffer_elements_ * row.lanes; }
  // At most row.lanes lines.
  void Run(const ukernel::FourierKernel& row, const ukernel::VectorKernel& vector, const FourierLines& lines,
           float* workspace) const;

 private:
  // Rows of lanes from one real number of the input to the next.
  size_t Pitch() const { return halved_ && form_ == FourierForm::kReal ? 1 : 2; }
  void Load(const ukernel::FourierKernel& row, const ukernel::VectorKernel& vector, const FourierLines& lines,
            float* to) const;
  void Store(const ukernel::FourierKernel& row, const ukernel::VectorKernel& vector, const FourierLines& lines,
             const float* from) const;

  size_t length_;
  FourierForm form_;
  bool inverse_;
  size_t components_, kept_;
  bool halved_;  // real lines of an even length
  ComplexFourier core_;
  std::vector<float> roots_;  // of the whole length, to split and join spectra
  size_t buffer_elements_;    // of each of two buffers
};

}  // namespace quern::kernels
