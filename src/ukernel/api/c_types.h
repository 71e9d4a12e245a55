// The C interface's enums and structs as those of this folder, and the state behind a plan. Private to src/ukernel/api.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quern/ukernel.h"
#include "ukernel/choose.h"
#include "ukernel/driving.h"
#include "ukernel/epilogue.h"
#include "ukernel/gemm.h"
#include "ukernel/layout.h"
#include "ukernel/transform.h"

namespace quern::ukernel {

// A caller's struct as far as both sides know it. False where it has no size, or sets fields beyond those known here.
template <class Struct>
bool ReadStruct(const Struct* given, Struct* known) {
  if (!given || given->struct_size < sizeof(size_t)) return false;
  const char* bytes = reinterpret_cast<const char*>(given);
  for (size_t i = sizeof(Struct); i < given->struct_size; ++i) {
    if (bytes[i] != 0) return false;
  }
  std::memset(known, 0, sizeof *known);
  std::memcpy(known, given, given->struct_size < sizeof *known ? given->struct_size : sizeof *known);
  return true;
}

template <class Struct>
bool WriteStruct(Struct from, Struct* to) {
  if (!to || to->struct_size < sizeof(size_t)) return false;
  from.struct_size = to->struct_size;
  std::memcpy(to, &from, to->struct_size < sizeof from ? to->struct_size : sizeof from);
  return true;
}

static inline const quern_ukernel* ToC(const GemmKernel* row) { return reinterpret_cast<const quern_ukernel*>(row); }
static inline const GemmKernel* FromC(const quern_ukernel* kernel) {
  return reinterpret_cast<const GemmKernel*>(kernel);
}

// False for numbers without a meaning.
bool FromC(int32_t format, Format* out);
int32_t ToC(Format format);
int32_t ToC(Precision precision);
bool FromC(const quern_ukernel_layout& layout, PackLayout* out);
quern_ukernel_layout ToC(const PackLayout& layout);
bool FromC(const quern_cpu* cpu, CpuFacts* out);

// Checks what no kernel could make sense of: formats, sizes.
quern_ukernel_status FromC(const quern_ukernel_problem* problem, const quern_cpu* cpu, GemmProblem* out,
                           SelectOptions* options);

constexpr size_t kMostOps = kMaxEpilogueOps + 4;  // a caller's, and those of dynamic rows

EpilogueKind KindFromC(int32_t kind);
int32_t ToC(EpilogueKind kind);
uint32_t MaskToC(uint32_t fused);
EpilogueOp FromC(const quern_ukernel_op& op);
quern_ukernel_op ToC(const EpilogueOp& op);
// The first `count` ops (at most kMostOps) to `out`; returns their number.
size_t FromC(const quern_ukernel_op* ops, size_t count, EpilogueOp* out);

// What quern_ukernel_plan.internal holds.
struct PlanState {
  CpuFacts cpu;
  PackLayout layout;
  RhsShape rhs;
  RhsGeometry geometry;
  const TransformKernel* transform = nullptr;
  EpilogueRun epilogue = nullptr;
};
static_assert(sizeof(PlanState) <= sizeof(quern_ukernel_plan::internal));

static inline const PlanState& StateOf(const quern_ukernel_plan& plan) {
  return *reinterpret_cast<const PlanState*>(plan.internal);
}

// The packed left side of m rows.
static inline LhsShape LhsShapeOf(const quern_ukernel_plan& plan, size_t m) {
  const PlanState& s = StateOf(plan);
  return {.m = m,
          .k = s.rhs.k,
          .segments = s.rhs.segments,
          .segment_align = s.layout.k_interleave,
          .vector_bytes = s.rhs.vector_bytes};
}

// Negated zero points as int32 [m], which lie behind a packed left side of dynamic rows with int32 accumulators.
static inline size_t LhsZerosOffset(const LhsGeometry& g) { return RoundUp(g.total_bytes, kPackAlignment); }

// A block of K: the range [begin, begin + k) of a row's elements, `padded` of the resident weights.
struct KRange {
  size_t begin, k, padded;
  bool first, last;
};
KRange RangeOfK(const quern_ukernel_plan& plan, size_t k_begin, size_t k_end);

// Of transformed weights: n columns over a range of K.
RhsGeometry PanelGeometry(const quern_ukernel_plan& plan, size_t n, size_t padded);

}  // namespace quern::ukernel
