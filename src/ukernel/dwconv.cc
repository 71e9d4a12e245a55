// Names of depthwise rows.
#include "ukernel/dwconv.h"

#include <cstdio>

namespace quern::ukernel {

KernelName Name(const DwConvKernel& row) {
  KernelName name;
  std::snprintf(name.text, sizeof(name.text), "dwconv_f32_f32_f32_%ux%u_%s", unsigned{row.pixels}, unsigned{row.lanes},
                row.isa.name);
  return name;
}

}  // namespace quern::ukernel
