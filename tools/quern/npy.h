// NumPy's .npy files to tensors and back.
#pragma once

#include <string>

#include "quern/quern.hpp"

namespace quern_tool {

// Versions 1 to 3, little endian; numbers, booleans and unicode strings. Failures name `path`.
quern::Value ReadNpy(const std::string& path);
// True for values that a .npy file can hold; bf16 is written as its 16 bits.
bool CanWriteNpy(const quern::Value& value);
void WriteNpy(const std::string& path, const quern::Value& value);

}  // namespace quern_tool
