// Attributes that name an element type by its ONNX number.
#pragma once

#include <string>

#include "ops/op.h"

namespace quern {

// Every type of ONNX, and kUndefined.
constexpr TypeSet AnyDTypeOrNone() {
  TypeSet types = {DType::kUndefined};
  for (int t = 1; IsOnnxType(t); ++t) types = types | TypeSet{static_cast<DType>(t)};
  return types;
}

// The type that attribute `name` gives, `otherwise` when it is absent; an error when it is not in `allowed`.
// kUndefined as `otherwise` passes: the type is not known yet. Where it is in `allowed`, the attribute may be 0.
inline Result<DType> ReadDTypeAttribute(const Node& node, const char* name, DType otherwise, TypeSet allowed) {
  const int64_t* given = node.FindAttribute<int64_t>(name);
  const bool is_type = given == nullptr || *given == 0 || IsOnnxType(*given);
  const DType dtype = given == nullptr ? otherwise : static_cast<DType>(is_type ? *given : int64_t{0});
  if (is_type && (allowed.Has(dtype) || (given == nullptr && dtype == DType::kUndefined))) return dtype;
  std::string names;
  for (int t = 1; IsOnnxType(t); ++t) {
    if (allowed.Has(static_cast<DType>(t))) {
      names +=
          std::string(names.empty() ? "" : ", ") + std::to_string(t) + " (" + DTypeName(static_cast<DType>(t)) + ")";
    }
  }
  const std::string what = given == nullptr ? std::string("the element type is ") + DTypeName(dtype)
                                            : std::string("attribute '") + name + "' is " + std::to_string(*given);
  return InvalidArgument(node.Describe() + ": " + what + "; one of " + names + " is needed" +
                         (given == nullptr ? std::string(" (attribute '") + name + "')" : std::string()));
}

}  // namespace quern
