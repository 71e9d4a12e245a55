#include "ops/common/dispatch.h"

#include <string>

namespace quern {

Status UnsupportedElementType(DType dtype) {
  return Unsupported(std::string("element type ") + DTypeName(dtype) + " is not supported here");
}

}  // namespace quern
