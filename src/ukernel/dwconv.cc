// Names of depthwise rows.
#include "ukernel/dwconv.h"

#include <cstdio>

namespace quern::ukernel {

KernelName Name(const DwConvKernel& row) {
  KernelName name;
  std::snprintf(name.text, sizeof(name.text), "dwconv_%s%s_%s_%s_%ux%u_%s", row.group_vector ? "grouped_" : "",
                FormatName(row.src), FormatName(row.weights), FormatName(row.acc), unsigned{row.pixels},
                unsigned{row.lanes}, row.isa.name);
  return name;
}

}  // namespace quern::ukernel
