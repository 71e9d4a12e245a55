// Names of GEMM rows, computed from their descriptors.
#include "ukernel/gemm.h"

namespace quern::ukernel {
namespace {

class NameWriter {
 public:
  explicit NameWriter(KernelName& name) : name_(name) {}

  void Text(const char* s) {
    while (*s && at_ + 1 < sizeof(name_.text)) name_.text[at_++] = *s++;
  }
  void Number(size_t x) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + x % 10);
      x /= 10;
    } while (x);
    while (count && at_ + 1 < sizeof(name_.text)) name_.text[at_++] = digits[--count];
  }
  void Extent(size_t x, VectorScale scale) {
    Number(x);
    if (scale != VectorScale::kFixed) Text("v");
  }

 private:
  KernelName& name_;
  size_t at_ = 0;
};

}  // namespace

KernelName Name(const GemmKernel& row) {
  KernelName name;
  NameWriter w(name);
  w.Text("gemm_");
  w.Text(FormatName(row.lhs));
  w.Text("_");
  w.Text(FormatName(row.rhs));
  w.Text("_");
  w.Text(FormatName(row.dst));
  w.Text("_");
  w.Extent(row.mr, row.mr_scale);
  w.Text("x");
  w.Extent(row.nr, row.nr_scale);
  w.Text("x");
  w.Number(row.kr);
  w.Text("_");
  w.Text(row.isa.name);
  if (row.isa.emulated) w.Text("_emulated");
  return name;
}

}  // namespace quern::ukernel
