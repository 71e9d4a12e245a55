// What the experimental operators share that onnx had in operator set 1 and dropped; old files still hold them.
#pragma once

#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {

inline constexpr const char* kExperimentalNotes =
    "Experimental in operator set 1 of onnx, dropped since; for old files that hold it.";

// One float tensor to another of its type.
inline constexpr Param kExperimentalInput[] = {{"input", "T", kOldFloatTypes}};
inline constexpr Param kExperimentalOutput[] = {{"output", "T", kOldFloatTypes}};

}  // namespace quern
