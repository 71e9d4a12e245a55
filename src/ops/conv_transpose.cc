// ConvTranspose: transposed convolution; every input element scatters a kernel-sized block into the output.
#include <algorithm>

#include "ops/common/float_io.h"
#include "ops/common/type_sets.h"
#include "ops/common/window.h"
#include "ops/op.h"

namespace quern {
namespace {

// Output extents and leading pads of the spatial dimensions.
struct Extents {
  Dims output;
  std::vector<Dim> pads_begin;
};

Result<Extents> SpatialExtents(const Node& node, const Window& w, const Dims& input) {
  const int rank = w.rank();
  std::vector<int64_t> extra = node.GetInts("output_padding"), wanted = node.GetInts("output_shape");
  if (extra.empty()) extra.assign(rank, 0);
  if (static_cast<int>(wanted.size()) == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (static_cast<int>(extra.size()) != rank || (!wanted.empty() && static_cast<int>(wanted.size()) != rank)) {
    return InvalidArgument(node.Describe() + ": 'output_padding' and 'output_shape' need " + std::to_string(rank) +
                           " entries");
  }
  const bool same = w.auto_pad == Window::AutoPad::kSameUpper || w.auto_pad == Window::AutoPad::kSameLower;
  Extents e;
  for (int64_t extent : wanted) {
    if (extent < 1 || extent > (int64_t{1} << 40)) {
      return InvalidArgument(node.Describe() + ": 'output_shape' has the entry " + std::to_string(extent));
    }
  }
  for (int d = 0; d < rank; ++d) {
    if (extra[d] < 0 || extra[d] > (int64_t{1} << 31)) {
      return InvalidArgument(node.Describe() + ": 'output_padding' has the entry " + std::to_string(extra[d]));
    }
    const Dim full = (input[d] - 1) * w.strides[d] + w.Span(d) + extra[d];
    if (wanted.empty() && !same) {
      const Dim out = full - w.pads_begin[d] - w.pads_end[d];
      if (out.is_constant() && out.value() < 1) {
        return InvalidArgument(node.Describe() + ": spatial dimension " + std::to_string(d) +
                               " of the output would be " + out.ToString());
      }
      e.output.push_back(out);
      e.pads_begin.push_back(w.pads_begin[d]);
      continue;
    }
    const Dim out = wanted.empty() ? input[d] * w.strides[d] : Dim(wanted[d]);
    const Dim total = Dim::Max(full - out, 0);
    const Dim half = Dim::FloorDiv(total, 2);
    e.output.push_back(out);
    e.pads_begin.push_back(w.auto_pad == Window::AutoPad::kSameUpper ? half : total - half);
  }
  return e;
}

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), w = c.input_shape(1);
  const int64_t groups = c.node().GetInt("group", 1);
  if (groups < 1) return c.Error("attribute 'group' is " + std::to_string(groups) + "; at least 1 is needed");
  for (const std::optional<Dims>& shape : {x, w}) {
    if (shape && shape->size() < 3) {
      return c.Error("input and weight need a batch, a channel and at least one spatial dimension; one has shape " +
                     DimsToString(*shape));
    }
  }
  if (!x || !w) {
    c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0)));
    return OkStatus();
  }
  if (x->size() != w->size()) {
    return c.Error("input '" + c.node().input(0)->name() + "' has " + std::to_string(x->size()) +
                   " dimensions but the weight has " + std::to_string(w->size()));
  }
  if ((*x)[1].is_constant() && (*w)[0].is_constant()) {
    if ((*x)[1].value() != (*w)[0].value()) {
      return c.Error("input '" + c.node().input(0)->name() + "' has " + (*x)[1].ToString() +
                     " channels but the weight expects " + (*w)[0].ToString());
    }
    if ((*x)[1].value() % groups != 0) {
      return c.Error("'group' = " + std::to_string(groups) + " does not divide the " + (*x)[1].ToString() +
                     " channels");
    }
  }
  const Dim channels = (*w)[1] * groups;
  if (const std::optional<Dims> b = c.input_shape(2)) {
    if (b->size() != 1 || ((*b)[0].is_constant() && channels.is_constant() && !(*b)[0].is_constant(channels.value()))) {
      return c.Error("bias '" + c.node().input(2)->name() + "' has shape " + DimsToString(*b) + " but the output has " +
                     channels.ToString() + " channels");
    }
  }
  const int rank = static_cast<int>(x->size()) - 2;
  QUERN_ASSIGN_OR_RETURN(Window window, ReadWindow(c.node(), rank, Dims(w->begin() + 2, w->end())));
  QUERN_ASSIGN_OR_RETURN(Extents e, SpatialExtents(c.node(), window, Dims(x->begin() + 2, x->end())));
  e.output.insert(e.output.begin(), {(*x)[0], channels});
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(e.output)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape &xs = c.input(0).shape(), &ws = c.input(1).shape(), &ys = outputs.shape(0);
  Dims kernel, input;
  for (int d = 2; d < xs.rank(); ++d) {
    kernel.push_back(ws[d]);
    input.push_back(xs[d]);
  }
  QUERN_ASSIGN_OR_RETURN(Window window, ReadWindow(c.node(), xs.rank() - 2, kernel));
  QUERN_ASSIGN_OR_RETURN(Extents extents, SpatialExtents(c.node(), window, input));
  window.auto_pad = Window::AutoPad::kNotSet;
  for (int d = 0; d < window.rank(); ++d) window.pads_begin[d] = extents.pads_begin[d].value();
  // Roles are swapped: the window slides over the output, so that its taps say where an input element lands.
  QUERN_ASSIGN_OR_RETURN(Window3 w, MakeWindow3(c.node(), window, ys, xs));
  const int64_t groups = c.node().GetInt("group", 1), batch = xs[0];
  const int64_t group_in = xs[1] / groups, group_out = ws[1];
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatInput<T> weight, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(FloatInput<T> bias, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    std::vector<double> sums(static_cast<size_t>(w.in_size()));
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t m = 0; m < groups * group_out; ++m) {
        const int64_t group = m / group_out;
        std::fill(sums.begin(), sums.end(), bias ? static_cast<double>(bias[m]) : 0.0);
        for (int64_t k = 0; k < group_in; ++k) {
          const int64_t channel = group * group_in + k;
          const T* plane = x.data() + (n * xs[1] + channel) * w.out_size();
          const T* taps = weight.data() + (channel * group_out + m % group_out) * w.kernel_size();
          for (int64_t a = 0; a < w.kernel[0]; ++a) {
            const TapRange ra = ValidTaps(w, 0, a);
            for (int64_t b = 0; b < w.kernel[1]; ++b) {
              const TapRange rb = ValidTaps(w, 1, b);
              for (int64_t t = 0; t < w.kernel[2]; ++t) {
                const TapRange rt = ValidTaps(w, 2, t);
                const double value = static_cast<double>(*taps++);
                for (int64_t i = ra.first; i < ra.last; ++i) {
                  const int64_t o0 = ra.input_at_first + (i - ra.first) * w.stride[0];
                  for (int64_t j = rb.first; j < rb.last; ++j) {
                    const int64_t o1 = rb.input_at_first + (j - rb.first) * w.stride[1];
                    const T* in = plane + (i * w.out[1] + j) * w.out[2] + rt.first;
                    double* out = sums.data() + (o0 * w.in[1] + o1) * w.in[2] + rt.input_at_first;
                    for (int64_t l = 0; l < rt.last - rt.first; ++l) out[l * w.stride[2]] += value * in[l];
                  }
                }
              }
            }
          }
        }
        T* out = y.data() + (n * groups * group_out + m) * w.in_size();
        for (int64_t i = 0; i < w.in_size(); ++i) out[i] = static_cast<T>(sums[i]);
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs1[] = {
    {"X", "T", kOldFloatTypes}, {"W", "T", kOldFloatTypes}, {"B", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {
    {"X", "T", kFloatTypes}, {"W", "T", kFloatTypes}, {"B", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"dilations", AttrType::kInts},
                                    {"group", AttrType::kInt, false, "1"},
                                    {"kernel_shape", AttrType::kInts},
                                    {"output_padding", AttrType::kInts},
                                    {"output_shape", AttrType::kInts},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, Infer, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpConvTranspose = {"", "ConvTranspose", kVersions};

}  // namespace quern
