#include "ops/common/integer_io.h"

#include "base/packed_bits.h"
#include "ops/common/dispatch.h"

namespace quern {
namespace {

using StoredTypes = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t>;

}  // namespace

IntegerRange RangeOf(DType t) {
  switch (t) {
    case DType::kU2:
      return {0, 3};
    case DType::kI2:
      return {-2, 1};
    case DType::kU4:
      return {0, 15};
    case DType::kI4:
      return {-8, 7};
    case DType::kU8:
      return {0, 255};
    case DType::kI8:
      return {-128, 127};
    case DType::kU16:
      return {0, 65535};
    case DType::kI16:
      return {-32768, 32767};
    default:
      return {INT32_MIN, INT32_MAX};
  }
}

std::vector<int32_t> WidenIntegers(const Tensor& t) {
  std::vector<int32_t> values(static_cast<size_t>(t.num_elements()));
  if (const int bits = PackedBits(t.dtype()); bits != 0) {
    const uint8_t* in = static_cast<const uint8_t*>(t.raw_data());
    const bool is_signed = RangeOf(t.dtype()).low < 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const uint8_t raw = LoadPacked(in, static_cast<int64_t>(i), bits);
      values[i] = is_signed ? SignExtend(raw, bits) : raw;
    }
    return values;
  }
  const Status status = DispatchType(StoredTypes{}, t.dtype(), [&]<typename T>() {
    std::copy_n(static_cast<const T*>(t.raw_data()), values.size(), values.begin());
    return OkStatus();
  });
  QUERN_CHECK(status.ok(), status.message().c_str());
  return values;
}

void NarrowIntegers(const std::vector<int32_t>& values, const Tensor& t) {
  if (const int bits = PackedBits(t.dtype()); bits != 0) {
    uint8_t* out = static_cast<uint8_t*>(t.raw_data());
    for (size_t i = 0; i < values.size(); ++i) {
      AppendPacked(out, static_cast<int64_t>(i), bits, static_cast<uint8_t>(values[i]));
    }
    return;
  }
  const Status status = DispatchType(StoredTypes{}, t.dtype(), [&]<typename T>() {
    T* out = static_cast<T*>(t.raw_data());
    for (size_t i = 0; i < values.size(); ++i) out[i] = static_cast<T>(values[i]);
    return OkStatus();
  });
  QUERN_CHECK(status.ok(), status.message().c_str());
}

}  // namespace quern
