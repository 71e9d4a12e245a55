#include "tensor/tensor.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "base/packed_bits.h"
#include "tensor/small_memory.h"

namespace quern {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

// Copies the elements of a strided tensor, innermost dimension in a row when both sides are dense there.
void CopyStrided(const char* src, const Shape& ss, char* dst, const Shape& ds, const Shape& shape, size_t element) {
  const int rank = shape.rank();
  if (shape.num_elements() == 0) return;
  if (rank == 0) {
    std::memcpy(dst, src, element);
    return;
  }
  Shape index = Shape::Filled(rank, 0);
  const int last = rank - 1;
  for (;;) {
    int64_t so = 0, d = 0;
    for (int i = 0; i < last; ++i) so += index[i] * ss[i], d += index[i] * ds[i];
    const char* s = src + so * static_cast<int64_t>(element);
    char* t = dst + d * static_cast<int64_t>(element);
    if (ss[last] == 1 && ds[last] == 1) {
      std::memcpy(t, s, element * static_cast<size_t>(shape[last]));
    } else {
      for (int64_t i = 0; i < shape[last]; ++i) {
        std::memcpy(t + i * ds[last] * static_cast<int64_t>(element), s + i * ss[last] * static_cast<int64_t>(element),
                    element);
      }
    }
    int axis = last - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

template <typename T>
void Widen(const Tensor& t, std::vector<int64_t>& out) {
  const T* p = t.data<T>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(p[i]);
}

template <typename T>
void Narrow(std::span<const int64_t> values, const Tensor& t) {
  T* p = t.data<T>();
  for (size_t i = 0; i < values.size(); ++i) p[i] = static_cast<T>(values[i]);
}

}  // namespace

Result<size_t> TensorBytes(DType dtype, const Shape& shape) {
  const DTypeInfo info = GetDTypeInfo(dtype);
  if (info.block_bytes == 0) return InvalidArgument(std::string("type ") + info.name + " has no fixed size");
  const std::optional<int64_t> n = CheckedProduct(shape.span());
  if (!n) return InvalidArgument("shape " + shape.ToString() + " is negative or too large");
  constexpr int64_t kMost = int64_t{1} << 62;
  // A block has less than 2^16 bytes.
  if (info.block_elements == 1 && *n <= kMost >> 16) return static_cast<size_t>(*n * info.block_bytes);
  if (IsBlockType(dtype) && (shape.rank() == 0 || shape.back() % info.block_elements != 0)) {
    return InvalidArgument(std::string("the last dimension of ") + shape.ToString() + " is not a multiple of the " +
                           std::to_string(info.block_elements) + " elements in a block of " + info.name);
  }
  const int64_t rest = (*n % info.block_elements * PackedBits(dtype) + 7) / 8;
  const std::optional<int64_t> bytes = CheckedMulAdd<int64_t>(*n / info.block_elements, info.block_bytes, rest);
  if (!bytes || *bytes > kMost) return InvalidArgument("shape " + shape.ToString() + " is too large");
  return static_cast<size_t>(*bytes);
}

Tensor::Tensor(const Tensor&) = default;
Tensor::Tensor(Tensor&&) noexcept = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor& Tensor::operator=(Tensor&&) noexcept = default;
Tensor::~Tensor() = default;

Result<Tensor> Tensor::Allocate(DType dtype, const Shape& shape) {
  QUERN_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(dtype, shape));
  const size_t padded = (bytes / kAlignment + 1) * kAlignment;
  if (padded < kSmallMemoryBytes) {
    struct Nothing {};
    void* memory = nullptr;
    std::shared_ptr<const void> owner = ShareWithMemory<Nothing>(padded, &memory);
    return Wrap(dtype, shape, memory, std::move(owner));
  }
  void* p = std::aligned_alloc(kAlignment, padded);
  if (p == nullptr) {
    return ResourceExhausted("no memory for a tensor of " + std::to_string(bytes) + " bytes, shape " +
                             shape.ToString());
  }
  return Wrap(dtype, shape, p, std::shared_ptr<const void>(p, [](const void* q) { std::free(const_cast<void*>(q)); }));
}

Tensor Tensor::Wrap(DType dtype, const Shape& shape, void* data, std::shared_ptr<const void> owner) {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.strides_ = shape.ContiguousStrides();
  t.bytes_ = TensorBytes(dtype, shape).value();
  t.data_ = data;
  t.owner_ = std::move(owner);
  return t;
}

// Memory, and what fills it.
struct Tensor::Deferral {
  std::shared_ptr<const void> memory;
  std::function<void(void*)> fill;
  const void* source = nullptr;  // of a copy: what it is made of
  std::once_flag once;
  std::atomic<bool> is_filled = false;
};

Result<Tensor> Tensor::Deferred(DType dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner) {
  QUERN_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(dtype, shape));
  QUERN_ASSIGN_OR_RETURN(Tensor t, Computed(dtype, shape, [data, bytes, owner = std::move(owner)](void* to) {
                           std::memcpy(to, data, bytes);
                         }));
  t.deferred_->source = data;
  return t;
}

Result<Tensor> Tensor::Computed(DType dtype, const Shape& shape, std::function<void(void*)> compute) {
  QUERN_ASSIGN_OR_RETURN(Tensor t, Allocate(dtype, shape));
  const auto deferral = std::make_shared<Deferral>();
  deferral->memory = std::move(t.owner_);
  deferral->fill = std::move(compute);
  t.deferred_ = deferral.get();
  t.owner_ = deferral;
  return t;
}

void Tensor::Fill() const {
  std::call_once(deferred_->once, [&] {
    deferred_->fill(data_);
    deferred_->is_filled.store(true, std::memory_order_release);
  });
}

const void* Tensor::unaligned_data() const {
  return deferred_ != nullptr && deferred_->source != nullptr ? deferred_->source : raw_data();
}

Tensor Tensor::WrapStrided(DType dtype, const Shape& shape, const Shape& strides, void* data,
                           std::shared_ptr<const void> owner) {
  QUERN_CHECK(DTypeBytes(dtype) != 0, "strided tensors need whole-byte elements");
  QUERN_CHECK(strides.rank() == shape.rank(), "one stride per dimension");
  Tensor t = Wrap(dtype, shape, data, std::move(owner));
  const Shape dense = shape.ContiguousStrides();
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] > 1 && strides[i] != dense[i]) t.contiguous_ = false;
  }
  if (shape.num_elements() == 0) t.contiguous_ = true;
  if (!t.contiguous_) t.strides_ = strides;
  return t;
}

Tensor Tensor::Reshaped(const Shape& shape) const {
  QUERN_CHECK(contiguous_ && shape.num_elements() == num_elements(), "Reshaped needs as many elements, contiguous");
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = shape.ContiguousStrides();
  return t;
}

Result<Tensor> Tensor::Contiguous() const {
  if (contiguous_) return *this;
  return Clone();
}

Result<Tensor> Tensor::Transient() const {
  const bool is_at_hand =
      deferred_ == nullptr || deferred_->source != nullptr || deferred_->is_filled.load(std::memory_order_acquire);
  if (is_at_hand) return Contiguous();
  QUERN_ASSIGN_OR_RETURN(const Tensor t, Allocate(dtype_, shape_));
  deferred_->fill(t.raw_data());
  return t;
}

Result<Tensor> Tensor::Clone() const {
  QUERN_ASSIGN_OR_RETURN(Tensor t, Allocate(dtype_, shape_));
  CopyTensor(*this, t);
  return t;
}

void CopyTensor(const Tensor& src, const Tensor& dst) {
  QUERN_CHECK(src.dtype() == dst.dtype() && src.shape() == dst.shape(), "CopyTensor needs equal types and shapes");
  if (src.is_contiguous() && dst.is_contiguous()) {
    if (src.bytes() > 0) std::memmove(dst.raw_data(), src.raw_data(), src.bytes());
    return;
  }
  CopyStrided(static_cast<const char*>(src.raw_data()), src.strides(), static_cast<char*>(dst.raw_data()),
              dst.strides(), src.shape(), DTypeBytes(src.dtype()));
}

Result<std::vector<int64_t>> ToInt64s(const Tensor& t) {
  QUERN_ASSIGN_OR_RETURN(const Tensor c, t.Contiguous());
  std::vector<int64_t> out(static_cast<size_t>(c.num_elements()));
  switch (c.dtype()) {
    case DType::kI64:
      Widen<int64_t>(c, out);
      break;
    case DType::kI32:
      Widen<int32_t>(c, out);
      break;
    case DType::kI16:
      Widen<int16_t>(c, out);
      break;
    case DType::kI8:
      Widen<int8_t>(c, out);
      break;
    case DType::kU64:
      Widen<uint64_t>(c, out);
      break;
    case DType::kU32:
      Widen<uint32_t>(c, out);
      break;
    case DType::kU16:
      Widen<uint16_t>(c, out);
      break;
    case DType::kU8:
      Widen<uint8_t>(c, out);
      break;
    case DType::kBool:
      Widen<bool>(c, out);
      break;
    case DType::kI4:
    case DType::kI2:
    case DType::kU4:
    case DType::kU2: {
      const int bits = PackedBits(c.dtype());
      const bool is_signed = c.dtype() == DType::kI4 || c.dtype() == DType::kI2;
      for (size_t i = 0; i < out.size(); ++i) {
        const uint8_t raw = LoadPacked(static_cast<const uint8_t*>(c.raw_data()), static_cast<int64_t>(i), bits);
        out[i] = is_signed ? SignExtend(raw, bits) : raw;
      }
      break;
    }
    default:
      return InvalidArgument(std::string("expected an integer tensor, found ") + DTypeName(t.dtype()));
  }
  return out;
}

Result<Tensor> FromInt64s(DType dtype, const Shape& shape, std::span<const int64_t> values) {
  if (shape.num_elements() != static_cast<int64_t>(values.size())) {
    return InvalidArgument(std::to_string(values.size()) + " elements for shape " + shape.ToString());
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor t, Tensor::Allocate(dtype, shape));
  switch (dtype) {
    case DType::kI64:
      Narrow<int64_t>(values, t);
      break;
    case DType::kI32:
      Narrow<int32_t>(values, t);
      break;
    case DType::kI16:
      Narrow<int16_t>(values, t);
      break;
    case DType::kI8:
      Narrow<int8_t>(values, t);
      break;
    case DType::kU64:
      Narrow<uint64_t>(values, t);
      break;
    case DType::kU32:
      Narrow<uint32_t>(values, t);
      break;
    case DType::kU16:
      Narrow<uint16_t>(values, t);
      break;
    case DType::kU8:
      Narrow<uint8_t>(values, t);
      break;
    case DType::kBool:
      Narrow<bool>(values, t);
      break;
    case DType::kI4:
    case DType::kI2:
    case DType::kU4:
    case DType::kU2:
      for (size_t i = 0; i < values.size(); ++i) {
        AppendPacked(static_cast<uint8_t*>(t.raw_data()), static_cast<int64_t>(i), PackedBits(dtype),
                     static_cast<uint8_t>(values[i]));
      }
      break;
    default:
      return InvalidArgument(std::string("expected an integer type, found ") + DTypeName(dtype));
  }
  return t;
}

}  // namespace quern
