// Pad: adds (or, with negative pads, removes) elements at both ends of each dimension: constant, reflect, edge, wrap.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/view.h"

namespace quern {
namespace {

constexpr int64_t kMaxPad = int64_t{1} << 48;  // sums with extents cannot overflow

// Begin and end pads of every dimension, from pads for `axes` (all of them when not given).
Result<std::pair<Dims, Dims>> SpreadPads(const Node& node, const Dims& pads, const AxesOperand& axes, int rank) {
  std::vector<int> normal;
  if (axes.given) {
    QUERN_ASSIGN_OR_RETURN(normal, NormalizeAxes(node, *axes.values, rank));
  } else {
    for (int i = 0; i < rank; ++i) normal.push_back(i);
  }
  if (pads.size() != 2 * normal.size()) {
    return InvalidArgument(node.Describe() + ": " + std::to_string(pads.size()) + " pads are given for " +
                           std::to_string(normal.size()) + " dimensions, two each are needed");
  }
  for (const Dim& d : pads) {
    if (d.is_constant() && (d.value() > kMaxPad || d.value() < -kMaxPad)) {
      return InvalidArgument(node.Describe() + ": a pad of " + d.ToString() + " is too large");
    }
  }
  Dims begin(static_cast<size_t>(rank), Dim(0)), end = begin;
  for (size_t i = 0; i < normal.size(); ++i) {
    begin[normal[i]] = pads[i];
    end[normal[i]] = pads[normal.size() + i];
  }
  return std::make_pair(std::move(begin), std::move(end));
}

std::optional<Dims> ReadPads(const InferContext& c) {
  if (const auto* ints = c.node().FindAttribute<std::vector<int64_t>>("pads")) return Dims(ints->begin(), ints->end());
  return c.input_data(1);
}

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0), pads = ReadPads(c);
  const AxesOperand axes = ReadAxes(c, "axes", 3);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (shape && pads && (!axes.given || axes.values)) {
    QUERN_ASSIGN_OR_RETURN(const auto spread, SpreadPads(c.node(), *pads, axes, static_cast<int>(shape->size())));
    Dims out;
    for (size_t i = 0; i < shape->size(); ++i) {
      const Dim &begin = spread.first[i], &end = spread.second[i];
      const Dim d = (*shape)[i] + begin + end;
      if (d.is_constant() && d.value() < 0) {
        return c.Error("pads " + begin.ToString() + ", " + end.ToString() + " remove more than dimension " +
                       std::to_string(i) + " of " + DimsToString(*shape) + " has");
      }
      out.push_back(d);
    }
    type.shape = std::move(out);
  } else if (shape) {
    type.shape = UnknownDims(static_cast<int64_t>(shape->size()));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// For each output position the input position that it shows, -1 for the constant.
Result<std::vector<int64_t>> SourcePositions(const Node& node, const std::string& mode, int64_t extent, int64_t begin,
                                             int64_t end) {
  // Negative pads crop first; the rest is then padded from what remains.
  const int64_t low = std::max<int64_t>(0, -begin), size = extent - low - std::max<int64_t>(0, -end);
  std::vector<int64_t> positions;
  for (int64_t o = 0; o < extent + begin + end; ++o) {
    int64_t i = o - std::max<int64_t>(0, begin);  // within the cropped range
    if (i < 0 || i >= size) {
      if (mode == "constant") {
        positions.push_back(-1);
        continue;
      }
      if (size <= 0) return InvalidArgument(node.Describe() + ": mode '" + mode + "' cannot pad an empty dimension");
      if (mode == "edge") {
        i = std::clamp<int64_t>(i, 0, size - 1);
      } else if (mode == "wrap") {
        i = (i % size + size) % size;
      } else {
        const int64_t period = 2 * (size - 1);
        i = period == 0 ? 0 : (i % period + period) % period;
        if (i >= size) i = period - i;
      }
    }
    positions.push_back(low + i);
  }
  return positions;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  const std::string mode = c.node().GetString("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && (mode != "wrap" || c.node().opset() < 19)) {
    return c.Error("mode '" + mode + "' is not defined for operator set " + std::to_string(c.node().opset()));
  }
  std::vector<int64_t> pads = c.node().GetInts("pads");
  AxesOperand axes;
  if (c.node().opset() >= 11) {
    QUERN_ASSIGN_OR_RETURN(pads, ReadInts(c, 1));
    if (c.HasInput(3)) {
      QUERN_ASSIGN_OR_RETURN(axes.values, ReadInts(c, 3));
      axes.given = true;
    }
  }
  const Shape& shape = in.shape();
  QUERN_ASSIGN_OR_RETURN(const auto spread, SpreadPads(c.node(), Dims(pads.begin(), pads.end()), axes, shape.rank()));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), outputs.shape(0)));
  if (out.num_elements() == 0) return out.Finish();
  std::vector<std::vector<int64_t>> sources;
  for (int d = 0; d < shape.rank(); ++d) {
    QUERN_ASSIGN_OR_RETURN(
        std::vector<int64_t> positions,
        SourcePositions(c.node(), mode, shape[d], spread.first[d].value(), spread.second[d].value()));
    sources.push_back(std::move(positions));
  }
  ElementInput fill;
  if (c.HasInput(2)) {
    QUERN_ASSIGN_OR_RETURN(fill, ElementInput::Make(c, 2));
    if (fill.num_elements() != 1) return c.Error("constant_value must have one element");
  } else {
    const float value = c.node().GetFloat("value", 0.0f);
    if (value != 0.0f && in.dtype() != DType::kString) {  // the attribute exists for float types only
      const Tensor scalar = in.dtype() == DType::kF64   ? Tensor::Scalar<double>(value)
                            : in.dtype() == DType::kF16 ? Tensor::Scalar(Float16(value))
                                                        : Tensor::Scalar<float>(value);
      QUERN_ASSIGN_OR_RETURN(fill, ElementInput::Make(scalar));
    }
  }
  const Shape strides = shape.ContiguousStrides();
  const int64_t n = out.num_elements();
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    const T value = fill.dtype() == DType::kUndefined ? T{} : *fill.data<T>();
    T* y = out.data<T>();
    IndexCounter at(out.shape());
    for (int64_t i = 0; i < n; ++i, at.Next()) {
      int64_t offset = 0;
      bool inside = true;
      for (int d = 0; d < shape.rank() && inside; ++d) {
        const int64_t source = sources[d][at.index()[d]];
        inside = source >= 0;
        offset += source * strides[d];
      }
      y[i] = inside ? in.data<T>()[offset] : value;
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr TypeSet kTypes2 = {DType::kF32, DType::kF64, DType::kF16};
constexpr TypeSet kTypes11 = kTypes2 | kSignedIntTypes | kUnsignedIntTypes;
constexpr AttrSpec kAttributes2[] = {{"mode", AttrType::kString, false, "constant"},
                                     {"pads", AttrType::kInts, true},
                                     {"value", AttrType::kFloat, false, "0.0"}};
constexpr AttrSpec kAttributes11[] = {{"mode", AttrType::kString, false, "constant"}};
constexpr Param kInputs2[] = {{"data", "T", kTypes2}}, kOutputs2[] = {{"output", "T", kTypes2}};
constexpr Param kInputs11[] = {
    {"data", "T", kTypes11}, {"pads", "", kInt64Type}, {"constant_value", "T", kTypes11, Arity::kOptional}};
constexpr Param kOutputs11[] = {{"output", "T", kTypes11}};
constexpr Param kInputs13[] = {
    {"data", "T", AnyTypes(13)}, {"pads", "", kInt64Type}, {"constant_value", "T", AnyTypes(13), Arity::kOptional}};
constexpr TypeSet Types(int since) { return AnyTypes(since == 19 ? 18 : since); }  // float8 came with set 21
template <int kSince>
constexpr Param kInputs[] = {{"data", "T", Types(kSince)},
                             {"pads", "", kInt64Type},
                             {"constant_value", "T", Types(kSince), Arity::kOptional},
                             {"axes", "Tind", kIndexTypes, Arity::kOptional}};
template <int kSince>
constexpr Param kOutputs[] = {{"output", "T", Types(kSince)}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputs<kSince>, kAttributes11, Infer, Evaluate};
constexpr OpVersion kVersions[] = {{2, kInputs2, kOutputs2, kAttributes2, Infer, Evaluate},
                                   {11, kInputs11, kOutputs11, kAttributes11, Infer, Evaluate},
                                   {13, kInputs13, kOutputOfAnyType<13>, kAttributes11, Infer, Evaluate},
                                   kVersion<18>,
                                   kVersion<19>,
                                   kVersion<21>,
                                   kVersion<23>,
                                   kVersion<24>,
                                   kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpPad = {"", "Pad", kVersions};

}  // namespace quern
