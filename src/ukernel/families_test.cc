// The families that have one row for each instruction set: all sets are there, and a row that has a body has every
// function. Conversions between all float types.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ukernel/affine.h"
#include "ukernel/dwconv.h"
#include "ukernel/elementwise.h"
#include "ukernel/fold.h"
#include "ukernel/fourier.h"
#include "ukernel/vector.h"
#include "ukernel/winograd.h"

namespace quern::ukernel {
namespace {

// Calls visit(row) for rows with a body; the instruction sets of all.
template <class Kernel, class Body, class Visit>
std::set<std::string> IsasOf(std::span<const KernelList<Kernel>* const> lists, Body body, Visit visit) {
  std::set<std::string> isas;
  for (const KernelList<Kernel>* list : lists) {
    for (size_t i = 0; i < list->count; ++i) {
      isas.insert(list->rows[i].isa.name);
      if (body(list->rows[i])) visit(list->rows[i]);
    }
  }
  return isas;
}

void ExpectSets(const char* family, const std::set<std::string>& isas) {
  for (const char* isa : {"portable", "avx2", "avx512"}) EXPECT_TRUE(isas.contains(isa)) << family << " on " << isa;
}

TEST(Families, EveryRowHasEveryFunction) {
  ExpectSets("vector", IsasOf(
                           AllVectorKernels(), [](const VectorKernel& r) { return r.unary != nullptr; },
                           [](const VectorKernel& r) {
                             EXPECT_TRUE(r.binary && r.fold && r.fold_rows && r.softmax && r.normalize && r.blend &&
                                         r.transpose && r.overlaps && r.gather_blend && r.rotate && r.epilogue)
                                 << Name(r).text;
                           }));
  ExpectSets("affine", IsasOf(
                           AllAffineKernels(), [](const AffineKernel& r) { return r.quantize != nullptr; },
                           [](const AffineKernel& r) {
                             EXPECT_TRUE(r.dequantize && r.requantize && r.combine && r.average) << Name(r).text;
                           }));
  // Pools: the greatest of floats and bytes with and without its place, sums of floats.
  ExpectSets("fold", IsasOf(
                         AllFoldKernels(), [](const FoldKernel& r) { return r.f64.fold != nullptr; },
                         [](const FoldKernel& r) {
                           EXPECT_TRUE(r.f64.fold_rows && r.u8.fold_rows && r.i8.fold_rows && r.f32.greatest &&
                                       r.f64.greatest && r.u8.greatest && r.i8.greatest)
                               << Name(r).text;
                         }));
  ExpectSets("fourier", IsasOf(
                            AllFourierKernels(), [](const FourierKernel& r) { return r.pass != nullptr; },
                            [](const FourierKernel& r) {
                              EXPECT_TRUE(r.multiply && r.scale && r.split && r.join) << Name(r).text;
                            }));
  ExpectSets("dwconv",
             IsasOf(AllDwConvKernels(), [](const DwConvKernel&) { return false; }, [](const DwConvKernel&) {}));
  ExpectSets("winograd",
             IsasOf(AllWinogradKernels(), [](const WinogradKernel&) { return false; }, [](const WinogradKernel&) {}));
}

TEST(Families, ConversionsBetweenAllFloats) {
  // Every float type that there is.
  std::set<DType> narrow;
  for (int number = 0; number < 256; ++number) {
    if (IsFloatType(static_cast<DType>(number))) narrow.insert(static_cast<DType>(number));
  }
  narrow.erase(DType::kF32);
  EXPECT_EQ(narrow.size(), 11u);
  ExpectSets("elementwise", IsasOf(
                                AllElementwiseKernels(), [](const ElementwiseKernel& r) { return r.unary != nullptr; },
                                [&](const ElementwiseKernel& r) {
                                  EXPECT_TRUE(r.binary && r.choose && r.softmax) << Name(r).text;
                                  // Two of them through float32: exact, or one rounding by way of an odd one.
                                  EXPECT_TRUE(r.unary(UnaryKind::kRoundOdd, DType::kF64, DType::kF32));
                                  for (const DType t : narrow) {
                                    EXPECT_TRUE(r.unary(UnaryKind::kConvert, t, DType::kF32)) << DTypeName(t);
                                    EXPECT_TRUE(r.unary(UnaryKind::kConvert, DType::kF32, t)) << DTypeName(t);
                                  }
                                }));
}

}  // namespace
}  // namespace quern::ukernel
