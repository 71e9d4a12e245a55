// Col2Im: blocks of an image, one column each, added up where they overlap; the inverse of im2col where they do not.
#include <algorithm>
#include <complex>
#include <string>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elementwise.h"
#include "ops/common/eval_infer.h"
#include "ops/common/indices.h"
#include "ops/common/view.h"
#include "ops/common/window.h"

namespace quern {
namespace {

// How many blocks stand along each dimension, for known sizes of image and block.
Result<Dims> BlockCounts(const Node& node, const Dims& image, const Dims& block) {
  if (image.size() != block.size() || image.empty()) {
    return InvalidArgument(node.Describe() + ": image_shape has " + std::to_string(image.size()) +
                           " elements and block_shape " + std::to_string(block.size()) +
                           "; both need one for each dimension");
  }
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node, static_cast<int>(image.size()), block));
  return WindowOutput(node, window, image);
}

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), image = c.input_data(1), block = c.input_data(2);
  if (x && x->size() != 3) {
    return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*x) +
                   "; [N, channels and block, blocks] is needed");
  }
  Dim channels = Dim::Unknown();
  if (image && block) {
    QUERN_ASSIGN_OR_RETURN(const Dims counts, BlockCounts(c.node(), *image, *block));
    const Dim elements = Product(*block), blocks = Product(counts);
    const auto known = [](const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant(); };
    if (x && known((*x)[1], elements) && (elements.value() < 1 || (*x)[1].value() % elements.value() != 0)) {
      return c.Error("dimension 1 of " + DimsToString(*x) + " does not hold whole blocks of " + DimsToString(*block));
    }
    if (x && known((*x)[2], blocks) && !((*x)[2] == blocks)) {
      return c.Error("dimension 2 of " + DimsToString(*x) + " does not hold the " + blocks.ToString() +
                     " blocks of an image of " + DimsToString(*image));
    }
    if (x) channels = Dim::FloorDiv((*x)[1], elements);
  }
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  std::optional<Dims> spatial = image;
  if (const std::optional<int64_t> length = KnownLength(c, 1); !spatial && length) spatial = UnknownDims(*length);
  if (spatial) {
    type.shape = Dims{x ? x->front() : Dim::Unknown(), channels};
    type.shape->insert(type.shape->end(), spatial->begin(), spatial->end());
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// Calls f(block element, block, position in the image plane) for all of one plane that are inside the image.
template <typename F>
void ForEachBlockElement(const Window& w, const Shape& block, const Shape& counts, const Shape& image, F f) {
  const Shape strides = image.ContiguousStrides();
  IndexCounter tap(block);
  for (int64_t k = 0; k < block.num_elements(); ++k, tap.Next()) {
    IndexCounter at(counts);
    for (int64_t b = 0; b < counts.num_elements(); ++b, at.Next()) {
      int64_t offset = 0;
      bool inside = true;
      for (int d = 0; d < image.rank(); ++d) {
        const int64_t i = at.index()[d] * w.strides[d] - w.pads_begin[d] + tap.index()[d] * w.dilations[d];
        inside = inside && i >= 0 && i < image[d];
        offset += inside ? i * strides[d] : 0;
      }
      if (inside) f(k, b, offset);
    }
  }
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> block_ints, ReadInts(c, 2));
  const Shape block{std::span(block_ints)}, image{shape.span().subspan(2)};
  const Dims block_dims(block.begin(), block.end()), image_dims(image.begin(), image.end());
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(c.node(), image.rank(), block_dims));
  QUERN_ASSIGN_OR_RETURN(const Dims count_dims, BlockCounts(c.node(), image_dims, block_dims));
  Shape counts;
  for (const Dim& d : count_dims) counts.push_back(d.value());
  const Value& x = c.input_value(0);
  if (!x.is_tensor()) return c.Error("strings cannot be added");
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (y.num_elements() == 0) return OkStatus();
  const int64_t columns = counts.num_elements(), plane = image.num_elements(), column = block.num_elements();
  const auto fold = [&](const auto* from, auto* to, auto zero, auto add) {
    using T = std::remove_pointer_t<decltype(to)>;
    std::vector<decltype(zero)> sums(static_cast<size_t>(plane));
    for (int64_t p = 0; p < shape[0] * shape[1]; ++p, from += column * columns, to += plane) {
      std::fill(sums.begin(), sums.end(), zero);
      ForEachBlockElement(window, block, counts, image, [&](int64_t k, int64_t b, int64_t offset) {
        sums[offset] = add(sums[offset], static_cast<decltype(zero)>(from[k * columns + b]));
      });
      for (int64_t i = 0; i < plane; ++i) to[i] = static_cast<T>(sums[i]);
    }
    return OkStatus();
  };
  const auto plus = [](auto a, auto b) { return a + b; };
  using Complex64 = std::complex<float>;
  using Complex128 = std::complex<double>;
  if (y.dtype() == DType::kC64) {
    return fold(static_cast<const Complex64*>(c.input(0).raw_data()), static_cast<Complex64*>(y.raw_data()),
                Complex64(), plus);
  }
  if (y.dtype() == DType::kC128) {
    return fold(static_cast<const Complex128*>(c.input(0).raw_data()), static_cast<Complex128*>(y.raw_data()),
                Complex128(), plus);
  }
  if (y.dtype() == DType::kBool) {
    return fold(reinterpret_cast<const uint8_t*>(c.input(0).data<bool>()), y.data<bool>(), uint8_t{0},
                [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a | b); });
  }
  return DispatchNumeric(y.dtype(), [&]<typename T>() {
    return fold(c.input(0).data<T>(), y.data<T>(), ComputeType<T>{}, [](auto a, auto b) { return WrappingAdd(a, b); });
  });
}

constexpr AttrSpec kAttributes[] = {
    {"dilations", AttrType::kInts}, {"pads", AttrType::kInts}, {"strides", AttrType::kInts}};
constexpr Param kInputs[] = {
    {"input", "T", kAllTensorTypes}, {"image_shape", "", kInt64Type}, {"block_shape", "", kInt64Type}};
constexpr Param kOutputs[] = {{"output", "T", kAllTensorTypes}};
constexpr OpVersion kVersions[] = {{18, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCol2Im = {
    "", "Col2Im", kVersions, "Strings are refused: the sum of overlapping blocks is not defined for them."};

}  // namespace quern
