// Names of GEMM rows, computed from their descriptors.
#include "ukernel/gemm.h"

#include "ukernel/text_writer.h"

namespace quern::ukernel {
namespace {

void Extent(TextWriter& w, size_t x, VectorScale scale) { w.Number(x).Text(scale == VectorScale::kFixed ? "" : "v"); }

}  // namespace

KernelName Name(const GemmKernel& row) {
  KernelName name;
  TextWriter w(name.text, sizeof(name.text));
  w.Text("gemm_").Text(FormatName(row.lhs)).Text("_").Text(FormatName(row.rhs)).Text("_").Text(FormatName(row.dst));
  w.Text("_");
  Extent(w, row.mr, row.mr_scale);
  w.Text("x");
  Extent(w, row.nr, row.nr_scale);
  w.Text("x").Number(row.kr).Text("_").Text(row.isa.name);
  if (row.isa.emulated) w.Text("_emulated");
  return name;
}

}  // namespace quern::ukernel
