// Reductions of ScatterElements, ScatterND and the plain Scatter: none, add, mul, max, min.
#pragma once

#include <algorithm>
#include <string>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/elementwise.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"

namespace quern {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

inline Result<Reduction> ReadReduction(const Node& node) {
  const std::string name = node.GetString("reduction", "none");
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  // Defined since 18, but PyTorch's exporter writes them into earlier models, which onnxruntime runs.
  if (name == "max") return Reduction::kMax;
  if (name == "min") return Reduction::kMin;
  return InvalidArgument(node.Describe() + ": no reduction '" + name + "'; there are none, add, mul, max, min");
}

template <typename T>
T Reduce(Reduction reduction, T a, T b) {
  using C = ComputeType<T>;
  const C x = static_cast<C>(a), y = static_cast<C>(b);
  switch (reduction) {
    case Reduction::kNone:
      return b;
    case Reduction::kAdd:
      return static_cast<T>(WrappingAdd(x, y));
    case Reduction::kMul:
      return static_cast<T>(WrappingMul(x, y));
    case Reduction::kMax:
      return static_cast<T>(std::max(x, y));
    case Reduction::kMin:
      return static_cast<T>(std::min(x, y));
  }
  return b;
}

// Output 0 is a copy of input 0 into which `scatter(put)` puts: put(offset, update_offset) combines the element of the
// output with that of input 2. scatter returns a Status.
template <typename F>
Status ScatterInto(EvalContext& c, Reduction reduction, F scatter) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput data, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const ElementInput updates, ElementInput::Make(c, 2));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, data.dtype(), data.shape()));
  QUERN_RETURN_IF_ERROR(DispatchElements(data.dtype(), [&]<typename T>() -> Status {
    T* y = out.data<T>();
    std::copy_n(data.data<T>(), data.num_elements(), y);
    if (reduction != Reduction::kNone) return OkStatus();
    const T* u = updates.data<T>();
    return scatter([&](int64_t to, int64_t from) { y[to] = u[from]; });
  }));
  if (reduction != Reduction::kNone) {
    Status status;
    auto reduce = [&]<typename T>() -> Status {
      T* y = out.data<T>();
      const T* u = updates.data<T>();
      return scatter([&](int64_t to, int64_t from) { y[to] = Reduce(reduction, y[to], u[from]); });
    };
    if (data.dtype() == DType::kBool) {  // add is or, mul is and
      status = DispatchType(Types<bool>{}, data.dtype(), [&]<typename T>() -> Status {
        bool* y = out.data<bool>();
        const bool* u = updates.data<bool>();
        const bool any = reduction == Reduction::kAdd || reduction == Reduction::kMax;
        return scatter([&](int64_t to, int64_t from) { y[to] = any ? (y[to] || u[from]) : (y[to] && u[from]); });
      });
    } else {
      status = DispatchNumeric(data.dtype(), reduce);
    }
    if (!status.ok()) {
      return status.code() == StatusCode::kUnsupported ? status.WithContext(c.node().Describe()) : status;
    }
  }
  return out.Finish();
}

inline Status InferScatter(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadReduction(c.node()).status());
  return InferSameAsInput(c, 0, 0);
}

// Evaluation of ScatterElements and Scatter.
inline Status EvaluateScatterElements(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(c.node()));
  const Shape shape = ShapeOf(c.input_value(0)), index_shape = ShapeOf(c.input_value(1));
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), shape.rank()));
  if (!(index_shape == ShapeOf(c.input_value(2))) || index_shape.rank() != shape.rank()) {
    return c.Error("indices " + index_shape.ToString() + " and updates " + ShapeOf(c.input_value(2)).ToString() +
                   " must have one shape, of the rank of data " + shape.ToString());
  }
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis && index_shape[d] > shape[d]) {
      return c.Error("indices of shape " + index_shape.ToString() + " exceed data of shape " + shape.ToString());
    }
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIndices(c, 1, shape[axis]));
  const Shape strides = shape.ContiguousStrides();
  return ScatterInto(c, reduction, [&](auto put) -> Status {
    IndexCounter at(index_shape);
    for (size_t i = 0; i < indices.size(); ++i, at.Next()) {
      int64_t offset = indices[i] * strides[axis];
      for (int d = 0; d < shape.rank(); ++d) {
        if (d != axis) offset += at.index()[d] * strides[d];
      }
      put(offset, static_cast<int64_t>(i));
    }
    return OkStatus();
  });
}

}  // namespace quern
