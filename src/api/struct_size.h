// Structs of the C ABI whose size is the caller's: read and written as far as both sides know them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/status.h"

namespace quern::api {

// A caller's struct, which begins with size_t struct_size: fields that the caller does not know become zero, fields
// that only the caller knows must be zero. `what` names it in errors.
template <typename Struct>
Result<Struct> ReadStruct(const Struct* given, const char* what) {
  const size_t size = given->struct_size;
  if (size < sizeof(size_t)) return InvalidArgument(std::string(what) + ".struct_size is not set: call its _init");
  const char* bytes = reinterpret_cast<const char*>(given);
  if (std::any_of(bytes + std::min(size, sizeof(Struct)), bytes + size, [](char c) { return c != 0; })) {
    return Unsupported(std::string(what) + " sets fields that this version of Quern does not know");
  }
  Struct known{};
  std::memcpy(&known, bytes, std::min(size, sizeof known));
  return known;
}

// Element `index` of a caller's array: the first one's struct_size says how far apart they lie.
template <typename Struct>
Result<Struct> ReadElement(const Struct* first, size_t index, const char* what) {
  const auto* at = reinterpret_cast<const Struct*>(reinterpret_cast<const char*>(first) + index * first->struct_size);
  if (at->struct_size != first->struct_size) {
    return InvalidArgument(std::string(what) + "[" + std::to_string(index) + "].struct_size is " +
                           std::to_string(at->struct_size) + ", that of the first is " +
                           std::to_string(first->struct_size) + ": call _init for each");
  }
  return ReadStruct(at, what);
}

// Fills a caller's struct as far as it goes; its struct_size stays.
template <typename Struct>
Status WriteStruct(Struct from, Struct* to, const char* what) {
  if (to->struct_size < sizeof(size_t)) {
    return InvalidArgument(std::string(what) + ".struct_size is not set: call its _init");
  }
  from.struct_size = to->struct_size;
  std::memcpy(to, &from, std::min(to->struct_size, sizeof from));
  return OkStatus();
}

}  // namespace quern::api
