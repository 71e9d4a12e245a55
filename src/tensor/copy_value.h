// Copies of values that own their memory.
#pragma once

#include "base/status.h"
#include "tensor/value.h"

namespace quern {

enum class CopyOf : uint8_t {
  kAllTensors,       // memory of its own, which nobody else reaches
  kBorrowedTensors,  // only tensors whose memory somebody else may reuse: those without an owner
};

// The value with copies of its tensors, those in containers included. Strings are shared: nobody can change them.
Result<Value> CopyValue(const Value& value, CopyOf which);

// Whether nobody but this Value reaches its containers and the memory of its tensors; false also where tensors that
// share their memory are apart.
bool OwnsAlone(const Value& value);

}  // namespace quern
