// Elements of tensors as numbers, whatever their type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern_tool {

// Real-valued types up to 64 bits, booleans included, sub-byte types unpacked.
bool IsNumber(std::int32_t dtype);
// The element; 64-bit integers are exact in long double on x86-64 and aarch64.
long double LoadNumber(std::int32_t dtype, const void* data, std::size_t index);
// Rounds to the type (half to even); false for types that are not stored here (only whole-byte, non-f8 ones are).
bool StoreNumber(std::int32_t dtype, void* data, std::size_t index, double value);

}  // namespace quern_tool
