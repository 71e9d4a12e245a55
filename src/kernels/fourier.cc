#include "kernels/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quern::kernels {
namespace {

using ukernel::FourierKernel;

// Appends exp(-2 pi i k / n), 0 <= k < n.
void AddRoot(std::vector<float>& to, size_t k, size_t n) {
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(k) / static_cast<double>(n));
  to.push_back(static_cast<float>(std::cos(angle)));
  to.push_back(static_cast<float>(-std::sin(angle)));
}

// The radices of a length's passes, or none when a prime factor is too large for one. Fours first: of them a pass does
// most for each time that it goes through memory.
std::vector<size_t> Radices(size_t n) {
  std::vector<size_t> radices;
  for (; n % 4 == 0; n /= 4) radices.push_back(4);
  for (size_t p = 2; p <= ukernel::kLargestRadix; ++p) {
    for (; n % p == 0; n /= p) radices.push_back(p);
  }
  if (n > 1) radices.clear();
  return radices;
}

}  // namespace

ComplexFourier::ComplexFourier(int64_t length) : length_(static_cast<size_t>(length)) {
  if (length_ == 1) return;
  size_t stride = 1;
  for (const size_t radix : Radices(length_)) {
    Pass pass{.radix = radix, .parts = length_ / stride / radix, .stride = stride, .twiddles = {}, .roots = {}};
    pass.twiddles.reserve(2 * pass.parts * (radix - 1));
    for (size_t p = 0; p < pass.parts; ++p) {
      for (size_t r = 1; r < radix; ++r) AddRoot(pass.twiddles, p * r, radix * pass.parts);
    }
    for (size_t k = 0; k < radix; ++k) AddRoot(pass.roots, k, radix);
    stride *= radix;
    passes_.push_back(std::move(pass));
  }
  if (!passes_.empty()) return;

  size_t padded = 1;
  while (padded < 2 * length_ - 1) padded *= 2;
  padded_ = std::make_unique<ComplexFourier>(static_cast<int64_t>(padded));
  size_t square = 0;  // j^2 modulo 2 * length, where the chirp repeats
  for (size_t j = 0; j < length_; ++j) {
    AddRoot(chirp_, square, 2 * length_);
    square = (square + 2 * j + 1) % (2 * length_);
  }
  // One line in the first lane of the portable form.
  const FourierKernel& row = *ukernel::SelectFourierRow(CpuFacts{.features = {}}, 1);
  std::vector<float> x(2 * padded * row.lanes), work(x.size());
  const float scale = 1.0f / static_cast<float>(padded);
  for (size_t j = 0; j < length_; ++j) {
    for (const size_t at : {j, (padded - j) % padded}) {
      x[2 * at * row.lanes] = chirp_[2 * j] * scale;
      x[(2 * at + 1) * row.lanes] = -chirp_[2 * j + 1] * scale;
    }
  }
  const float* spectrum = padded_->RunPasses(row, x.data(), work.data(), false);
  for (size_t i = 0; i < 2 * padded; ++i) kernel_.push_back(spectrum[i * row.lanes]);
}

float* ComplexFourier::RunPasses(const FourierKernel& row, float* x, float* y, bool swapped) const {
  for (const Pass& p : passes_) {
    row.pass({.radix = p.radix,
              .parts = p.parts,
              .stride = p.stride,
              .x = x,
              .y = y,
              .twiddles = p.twiddles.data(),
              .roots = p.roots.data(),
              .swapped = swapped});
    std::swap(x, y);
  }
  return x;
}

float* ComplexFourier::Run(const FourierKernel& row, float* x, float* y, bool swapped) const {
  if (!padded_) return RunPasses(row, x, y, swapped);
  row.multiply({.n = length_, .x = x, .y = x, .factors = chirp_.data(), .swapped = swapped});
  std::fill(x + 2 * length_ * row.lanes, x + 2 * padded_->length_ * row.lanes, 0.0f);
  float* spectrum = padded_->RunPasses(row, x, y, swapped);
  float* other = spectrum == x ? y : x;
  row.multiply({.n = padded_->length_, .x = spectrum, .y = spectrum, .factors = kernel_.data(), .swapped = swapped});
  float* result = padded_->RunPasses(row, spectrum, other, !swapped);
  row.multiply({.n = length_, .x = result, .y = result, .factors = chirp_.data(), .swapped = swapped});
  return result;
}

FourierPlan::FourierPlan(int64_t length, FourierForm form, bool inverse, int components, int64_t kept)
    : length_(static_cast<size_t>(length)),
      form_(form),
      inverse_(inverse),
      components_(static_cast<size_t>(components)),
      kept_(static_cast<size_t>(kept)),
      halved_(form != FourierForm::kComplex && length % 2 == 0),
      core_(halved_ ? length / 2 : length),
      buffer_elements_(std::max(
          {core_.buffer_elements(), halved_ ? length_ / 2 + 1 : length_, form == FourierForm::kReal ? kept_ : 0})) {
  if (!halved_) return;
  for (size_t k = 0; 4 * k <= length_; ++k) AddRoot(roots_, k, length_);
}

void FourierPlan::Load(const FourierKernel& row, const ukernel::VectorKernel& vector, const FourierLines& lines,
                       float* to) const {
  const size_t lanes = row.lanes, pitch = Pitch(), count = static_cast<size_t>(lines.lines);
  const size_t taken = static_cast<size_t>(lines.taken),
               rows = pitch * (form_ == FourierForm::kToReal ? length_ / 2 + 1 : length_);
  if (count < lanes || pitch != components_) {
    std::fill_n(to, rows * lanes, 0.0f);
  } else {
    std::fill(to + pitch * taken * lanes, to + rows * lanes, 0.0f);
  }
  if (lines.x_element == static_cast<int64_t>(components_)) {
    vector.transpose({.rows = taken * components_,
                      .cols = count,
                      .x = lines.x,
                      .x_col = lines.x_line,
                      .y = to,
                      .y_row = static_cast<ptrdiff_t>(pitch / components_ * lanes)});
  } else {
    for (size_t j = 0; j < taken; ++j) {
      vector.transpose({.rows = components_,
                        .cols = count,
                        .x = lines.x + static_cast<int64_t>(j) * lines.x_element,
                        .x_col = lines.x_line,
                        .y = to + j * pitch * lanes,
                        .y_row = static_cast<ptrdiff_t>(lanes)});
    }
  }
  if (lines.window) row.scale({.rows = pitch * taken, .repeat = pitch, .x = to, .weights = lines.window});
}

void FourierPlan::Store(const FourierKernel& row, const ukernel::VectorKernel& vector, const FourierLines& lines,
                        const float* from) const {
  const size_t lanes = row.lanes, count = static_cast<size_t>(lines.lines);
  const size_t components = form_ == FourierForm::kToReal ? 1 : 2;
  const size_t pitch = form_ == FourierForm::kToReal && halved_ ? 1 : 2;
  if (lines.y_element == static_cast<int64_t>(components)) {
    vector.transpose({.rows = count,
                      .cols = kept_ * components,
                      .x = from,
                      .x_col = static_cast<ptrdiff_t>(pitch / components * lanes),
                      .y = lines.y,
                      .y_row = lines.y_line});
    return;
  }
  for (size_t k = 0; k < kept_; ++k) {
    vector.transpose({.rows = count,
                      .cols = components,
                      .x = from + k * pitch * lanes,
                      .x_col = static_cast<ptrdiff_t>(lanes),
                      .y = lines.y + static_cast<int64_t>(k) * lines.y_element,
                      .y_row = lines.y_line});
  }
}

void FourierPlan::Run(const FourierKernel& row, const ukernel::VectorKernel& vector, const FourierLines& lines,
                      float* workspace) const {
  const size_t lanes = row.lanes, half = length_ / 2;
  float *x = workspace, *y = workspace + 2 * buffer_elements_ * lanes;
  Load(row, vector, lines, x);
  const float over_length = 1.0f / static_cast<float>(length_);
  if (form_ == FourierForm::kToReal) {
    if (halved_) {
      row.join({.half = half, .x = x, .y = y, .roots = roots_.data(), .scale = over_length});
      std::swap(x, y);
    } else {
      // The second half is the first one's mirror; the imaginary part of element 0 does not count.
      std::fill_n(x + lanes, lanes, 0.0f);
      for (size_t k = 1; k <= half; ++k) {
        const float* at = x + 2 * k * lanes;
        float* mirrored = x + 2 * (length_ - k) * lanes;
        std::copy_n(at, lanes, mirrored);
        for (size_t i = lanes; i < 2 * lanes; ++i) mirrored[i] = -at[i];
      }
    }
  }
  if (inverse_ && !halved_) row.scale({.rows = 2 * length_, .x = x, .weights = &over_length, .step = 0});
  float* result = core_.Run(row, x, y, inverse_);
  if (form_ == FourierForm::kReal && halved_) {
    float* spectrum = result == x ? y : x;
    row.split({.half = half, .x = result, .y = spectrum, .roots = roots_.data(), .whole = kept_ > half + 1});
    result = spectrum;
  }
  Store(row, vector, lines, result);
}

}  // namespace quern::kernels
