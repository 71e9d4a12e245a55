#include "ops/common/integer_io.h"

#include "ops/common/dispatch.h"

namespace quern {
namespace {

int BitsOf(DType t) {
  switch (t) {
    case DType::kU2:
    case DType::kI2:
      return 2;
    case DType::kU4:
    case DType::kI4:
      return 4;
    default:
      return static_cast<int>(DTypeBytes(t)) * 8;
  }
}
bool IsSigned(DType t) { return RangeOf(t).low < 0; }

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
  const int bits = BitsOf(t.dtype());
  if (bits < 8) {
    const uint8_t* in = static_cast<const uint8_t*>(t.raw_data());
    const size_t per_byte = static_cast<size_t>(8 / bits);
    const int32_t mask = (1 << bits) - 1, sign = IsSigned(t.dtype()) ? 1 << (bits - 1) : 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const int32_t raw = (in[i / per_byte] >> (i % per_byte * static_cast<size_t>(bits))) & mask;
      values[i] = (raw ^ sign) - sign;
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
  const int bits = BitsOf(t.dtype());
  if (bits < 8) {
    uint8_t* out = static_cast<uint8_t*>(t.raw_data());
    const size_t per_byte = static_cast<size_t>(8 / bits);
    std::fill_n(out, t.bytes(), uint8_t{0});
    for (size_t i = 0; i < values.size(); ++i) {
      const int raw = values[i] & ((1 << bits) - 1);
      out[i / per_byte] = static_cast<uint8_t>(out[i / per_byte] | raw << (i % per_byte * static_cast<size_t>(bits)));
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
