// Tensor: a typed, strided view of memory with an optional owner. Copying a Tensor shares the memory.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/status.h"
#include "tensor/shape.h"

namespace quern {

// Maps a C++ type to its DType; kBool is stored as one byte, C++ bool.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kU64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};

// Bytes of a contiguous tensor: whole blocks along the last dimension for block formats (an error when it is not a
// multiple of the block), packed nibbles rounded up over the whole tensor for 4- and 2-bit types, an error on overflow
// or a negative extent. Strings have no size (an error).
Result<size_t> TensorBytes(DType dtype, const Shape& shape);

class Tensor {
 public:
  Tensor() = default;  // undefined dtype, no memory
  // Not inline: they are in almost every function.
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();

  // Uninitialised, contiguous, 64-byte aligned; an error when the size overflows or memory is short.
  static Result<Tensor> Allocate(DType dtype, const Shape& shape);
  // A contiguous tensor over `data`. `owner` keeps the memory alive (may be empty: then the caller does).
  static Tensor Wrap(DType dtype, const Shape& shape, void* data, std::shared_ptr<const void> owner = nullptr);
  // A strided one; strides in elements, whole-byte types only.
  static Tensor WrapStrided(DType dtype, const Shape& shape, const Shape& strides, void* data,
                            std::shared_ptr<const void> owner = nullptr);
  // A contiguous tensor of elements that lie somewhere, not aligned for their type: it has memory of its own, which
  // stays untouched until something asks for it and then is a copy. `owner` keeps `data` alive and is not null.
  static Result<Tensor> Deferred(DType dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner);
  // A contiguous tensor whose elements `compute` writes to memory that it is given (64-byte aligned). The tensor's own
  // stays untouched until something asks for it and then is filled once. `compute` may run several times (Transient),
  // on any thread, and always gives the same.
  static Result<Tensor> Computed(DType dtype, const Shape& shape, std::function<void(void*)> compute);
  // A contiguous tensor with a copy of `values`; the count must match.
  template <typename T>
  static Tensor FromValues(const Shape& shape, std::span<const T> values) {
    QUERN_CHECK(shape.num_elements() == static_cast<int64_t>(values.size()), "value count does not match the shape");
    Tensor t = Allocate(DTypeOf<T>::value, shape).value();
    if (!values.empty()) std::memcpy(t.raw_data(), values.data(), values.size_bytes());
    return t;
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return FromValues<T>(Shape{}, std::span<const T>(&value, 1));
  }

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t num_elements() const { return shape_.num_elements(); }
  bool is_contiguous() const { return contiguous_; }
  // Bytes of the contiguous form.
  size_t bytes() const { return bytes_; }

  void* raw_data() const {
    if (deferred_ != nullptr) Fill();
    return data_;
  }
  // The elements where they are, which may be unaligned: for readers to whom that is all the same, as packers. Makes no
  // copy of a deferred tensor.
  const void* unaligned_data() const;
  // What tells the memory from any other, and nothing else.
  const void* address() const { return data_; }
  // First element; T must be the tensor's type (checked). Constness is the caller's duty: views share memory.
  template <typename T>
  T* data() const {
    QUERN_CHECK(dtype_ == DTypeOf<T>::value, "wrong element type");
    return static_cast<T*>(raw_data());
  }
  // All elements of a contiguous tensor.
  template <typename T>
  std::span<T> values() const {
    QUERN_CHECK(contiguous_, "values() needs a contiguous tensor");
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The same contiguous memory under another shape with as many elements.
  Tensor Reshaped(const Shape& shape) const;
  // This tensor if contiguous, else a contiguous copy.
  Result<Tensor> Contiguous() const;
  // Contiguous(), for a reader that soon lets it go, as one that packs: of a computed tensor that nothing asked for so
  // far it is a copy of the reader's own.
  Result<Tensor> Transient() const;
  // A contiguous deep copy.
  Result<Tensor> Clone() const;

 private:
  struct Deferral;
  void Fill() const;

  DType dtype_ = DType::kUndefined;
  bool contiguous_ = true;
  Shape shape_, strides_;
  size_t bytes_ = 0;
  void* data_ = nullptr;
  Deferral* deferred_ = nullptr;  // that the owner is; null for other tensors
  std::shared_ptr<const void> owner_;
};

// Copies src to dst elementwise (same dtype and shape, any strides).
void CopyTensor(const Tensor& src, const Tensor& dst);
// The elements of a contiguous integer tensor (any integer type or bool) widened to int64.
Result<std::vector<int64_t>> ToInt64s(const Tensor& t);
// A contiguous tensor of any integer type or bool with these elements, which must fit; an error for other types or
// another count.
Result<Tensor> FromInt64s(DType dtype, const Shape& shape, std::span<const int64_t> values);

}  // namespace quern
