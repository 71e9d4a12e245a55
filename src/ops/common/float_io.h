// Float inputs and outputs seen as one compute type: 16-bit floats are widened on the way in and rounded on the way
// out.
#pragma once

#include <type_traits>
#include <vector>

#include "ops/common/eval_infer.h"
#include "ops/op.h"

namespace quern {

// Calls f with a float (f32, f16, bf16) or a double (f64) value: the type that an operator of element type `t` computes
// in. Any other type is an error.
template <typename F>
Status WithComputeType(const EvalContext& context, DType t, F f) {
  switch (t) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return f(float{});
    case DType::kF64:
      return f(double{});
    default:
      return context.Error(std::string("element type ") + DTypeName(t) + " is not a supported float type");
  }
}

// Copies n elements of float type `from` as T.
template <typename T>
void WidenFloats(DType from, const void* src, int64_t n, T* dst) {
  auto copy = [&](auto* typed) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(*typed)>>) {
        dst[i] = static_cast<T>(typed[i]);
      } else {
        dst[i] = static_cast<T>(static_cast<float>(typed[i]));
      }
    }
  };
  switch (from) {
    case DType::kF32:
      return copy(static_cast<const float*>(src));
    case DType::kF64:
      return copy(static_cast<const double*>(src));
    case DType::kF16:
      return copy(static_cast<const Float16*>(src));
    case DType::kBF16:
      return copy(static_cast<const BFloat16*>(src));
    default:
      QUERN_CHECK(false, "not a float type");
  }
}

// Copies n elements of T to float type `to`, rounding to nearest even.
template <typename T>
void NarrowFloats(const T* src, int64_t n, DType to, void* dst) {
  auto copy = [&](auto* typed) {
    using To = std::remove_cvref_t<decltype(*typed)>;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_arithmetic_v<To>) {
        typed[i] = static_cast<To>(src[i]);
      } else {
        typed[i] = To(static_cast<float>(src[i]));
      }
    }
  };
  switch (to) {
    case DType::kF32:
      return copy(static_cast<float*>(dst));
    case DType::kF64:
      return copy(static_cast<double*>(dst));
    case DType::kF16:
      return copy(static_cast<Float16*>(dst));
    case DType::kBF16:
      return copy(static_cast<BFloat16*>(dst));
    default:
      QUERN_CHECK(false, "not a float type");
  }
}

// The elements of a float tensor as contiguous T; a copy only when the tensor's type is another. Keeps the tensor.
template <typename T>
class FloatInput {
 public:
  FloatInput() = default;
  explicit FloatInput(const Tensor& t) : tensor_(t), present_(true) {
    if (t.dtype() == DTypeOf<T>::value) {
      data_ = t.data<T>();
      return;
    }
    copy_.resize(static_cast<size_t>(t.num_elements()));
    WidenFloats<T>(t.dtype(), t.raw_data(), t.num_elements(), copy_.data());
    data_ = copy_.data();
  }
  FloatInput(FloatInput&&) = default;
  FloatInput& operator=(FloatInput&&) = default;

  // False for an omitted input.
  explicit operator bool() const { return present_; }
  const T* data() const { return data_; }
  const T& operator[](int64_t i) const { return data_[i]; }
  const Shape& shape() const { return tensor_.shape(); }
  int64_t num_elements() const { return present_ ? tensor_.num_elements() : 0; }

 private:
  Tensor tensor_;
  std::vector<T> copy_;
  const T* data_ = nullptr;
  bool present_ = false;
};

// Input i as T; empty when omitted. An error when it is not a float tensor.
template <typename T>
Result<FloatInput<T>> ReadFloats(EvalContext& context, int i) {
  if (!context.HasInput(i)) return FloatInput<T>();
  const Tensor& t = context.input(i);
  switch (t.dtype()) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      return FloatInput<T>(t);
    default:
      return context.Error("input " + std::to_string(i) + " has element type " + DTypeName(t.dtype()) +
                           ", a float type is needed");
  }
}

// Output memory written as T; Finish() rounds to the output's own type.
template <typename T>
class FloatOutput {
 public:
  FloatOutput() = default;
  explicit FloatOutput(const Tensor& t) : tensor_(t) {
    if (t.dtype() == DTypeOf<T>::value) {
      data_ = t.data<T>();
      return;
    }
    copy_.resize(static_cast<size_t>(t.num_elements()));
    data_ = copy_.data();
  }
  FloatOutput(FloatOutput&&) = default;
  FloatOutput& operator=(FloatOutput&&) = default;

  T* data() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }
  const Shape& shape() const { return tensor_.shape(); }
  int64_t num_elements() const { return tensor_.num_elements(); }
  void Finish() {
    if (tensor_.dtype() != DTypeOf<T>::value) {
      NarrowFloats<T>(data_, tensor_.num_elements(), tensor_.dtype(), tensor_.raw_data());
    }
  }

 private:
  Tensor tensor_;
  std::vector<T> copy_;
  T* data_ = nullptr;
};

// Output i with its inferred type; private memory when the node omits it.
template <typename T>
Result<FloatOutput<T>> WriteFloats(EvalContext& context, const InferredOutputs& outputs, int i) {
  QUERN_ASSIGN_OR_RETURN(Tensor t, outputs.Allocate(context, i));
  return FloatOutput<T>(t);
}

}  // namespace quern
