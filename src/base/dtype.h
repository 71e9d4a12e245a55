// Element types. Kernel-safe: no allocation, no OS, no static state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

// Numbers 1 to 28 are ONNX's TensorProto.DataType; block formats (GGUF and others) follow from 64.
enum class DType : uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kC64 = 14,
  kC128 = 15,
  kBF16 = 16,
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kU4 = 21,
  kI4 = 22,
  kF4E2M1 = 23,
  kF8E8M0 = 24,
  kU2 = 25,
  kI2 = 26,
  kF6E2M3 = 27,
  kF6E3M2 = 28,
  kQ4_0 = 64,  // 32 weights, 18 bytes: f16 d, 16 bytes of nibbles (w[i] low, w[i+16] high); w = d*(q-8)
  kQ4_1 = 65,  // 32 weights, 20 bytes: f16 d, f16 m, nibbles; w = d*q + m
  kQ8_0 = 66,  // 32 weights, 34 bytes: f16 d, 32 int8; w = d*q
};

constexpr bool IsOnnxType(int64_t number) { return number > 0 && number <= static_cast<int64_t>(DType::kF6E3M2); }

struct DTypeInfo {
  const char* name;         // as in the text form: "f32", "i8", "q4_0"
  uint16_t block_elements;  // elements that share a block: 1 for plain types, 2 for 4-bit, 4 for 2- and 6-bit
  uint16_t block_bytes;     // bytes of a block; 0 for types without a fixed size (string)
};

// Facts of a type; {"undefined", 1, 0} for numbers that are no type.
constexpr DTypeInfo GetDTypeInfo(DType t) {
  switch (t) {
    case DType::kF32:
      return {"f32", 1, 4};
    case DType::kU8:
      return {"u8", 1, 1};
    case DType::kI8:
      return {"i8", 1, 1};
    case DType::kU16:
      return {"u16", 1, 2};
    case DType::kI16:
      return {"i16", 1, 2};
    case DType::kI32:
      return {"i32", 1, 4};
    case DType::kI64:
      return {"i64", 1, 8};
    case DType::kString:
      return {"string", 1, 0};
    case DType::kBool:
      return {"bool", 1, 1};
    case DType::kF16:
      return {"f16", 1, 2};
    case DType::kF64:
      return {"f64", 1, 8};
    case DType::kU32:
      return {"u32", 1, 4};
    case DType::kU64:
      return {"u64", 1, 8};
    case DType::kC64:
      return {"c64", 1, 8};
    case DType::kC128:
      return {"c128", 1, 16};
    case DType::kBF16:
      return {"bf16", 1, 2};
    case DType::kF8E4M3FN:
      return {"f8e4m3fn", 1, 1};
    case DType::kF8E4M3FNUZ:
      return {"f8e4m3fnuz", 1, 1};
    case DType::kF8E5M2:
      return {"f8e5m2", 1, 1};
    case DType::kF8E5M2FNUZ:
      return {"f8e5m2fnuz", 1, 1};
    case DType::kU4:
      return {"u4", 2, 1};
    case DType::kI4:
      return {"i4", 2, 1};
    case DType::kF4E2M1:
      return {"f4e2m1", 2, 1};
    case DType::kF8E8M0:
      return {"f8e8m0", 1, 1};
    case DType::kU2:
      return {"u2", 4, 1};
    case DType::kI2:
      return {"i2", 4, 1};
    case DType::kF6E2M3:
      return {"f6e2m3", 4, 3};
    case DType::kF6E3M2:
      return {"f6e3m2", 4, 3};
    case DType::kQ4_0:
      return {"q4_0", 32, 18};
    case DType::kQ4_1:
      return {"q4_1", 32, 20};
    case DType::kQ8_0:
      return {"q8_0", 32, 34};
    case DType::kUndefined:
      break;
  }
  return {"undefined", 1, 0};
}

constexpr const char* DTypeName(DType t) { return GetDTypeInfo(t).name; }
// Bytes of one element of a type whose elements are whole bytes; 0 for sub-byte, block and string types.
constexpr size_t DTypeBytes(DType t) { return GetDTypeInfo(t).block_elements == 1 ? GetDTypeInfo(t).block_bytes : 0; }
// Alignment that reading elements in place needs.
constexpr size_t DTypeAlignment(DType t) {
  if (t == DType::kC64 || t == DType::kC128) return DTypeBytes(t) / 2;
  return DTypeBytes(t) == 0 ? 1 : DTypeBytes(t);
}
constexpr bool IsBlockType(DType t) { return static_cast<uint8_t>(t) >= 64; }
constexpr bool IsFloatType(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 || t == DType::kBF16 ||
         (t >= DType::kF8E4M3FN && t <= DType::kF8E5M2FNUZ) || t == DType::kF4E2M1 || t == DType::kF8E8M0 ||
         t == DType::kF6E2M3 || t == DType::kF6E3M2;
}
constexpr bool IsIntegerType(DType t) {
  return (t >= DType::kU8 && t <= DType::kI64) || t == DType::kU32 || t == DType::kU64 || t == DType::kU4 ||
         t == DType::kI4 || t == DType::kU2 || t == DType::kI2;
}

}  // namespace quern
