// Block transforms: a K block of resident units to the form that a kernel consumes, in the driver's scratch, once per
// panel and K block whatever M. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/isa.h"
#include "ukernel/layout.h"
#include "ukernel/pack.h"

namespace quern::ukernel {

struct TransformArgs {
  const void* src = nullptr;         // first unit's elements at the block's first k
  size_t src_unit_stride = 0;        // bytes
  const void* src_scales = nullptr;  // first unit's scales at the block's first k; same unit stride
  const void* src_offsets = nullptr;
  Format src_scale = Format::kNone;  // formats of the source's scales and offsets, whatever `from` has
  Format src_offset = Format::kNone;
  void* dst = nullptr;           // units one after another as DescribeRhs(to, {.k = k, .n = units * n_unit, ...})
  size_t dst_unit_stride = 0;    // places them, 64-byte aligned
  size_t dst_scales_offset = 0;  // within a unit of dst, when `to` has scales
  size_t k = 0;                  // elements of the block along the padded K, a multiple of the source's group
  size_t units = 0;
  size_t n_unit = 0;  // columns of a unit, the same on both sides
  size_t block = 0;   // elements per scale
};

// Row of the family `transform`.
struct TransformKernel {
  Isa isa{};
  PackLayout from{};  // compared by SameElements
  PackLayout to{};
  float cycles_per_element = 1;
  uint32_t (*run)(const TransformArgs& args) = nullptr;  // returns PackFlags
};

std::span<const KernelList<TransformKernel>* const> AllTransformKernels();

// The elements of both are stored alike; scales and offsets, which kernels take in any format, may differ, as may sums,
// channel scales and bias, which are read where they are resident.
bool SameElements(const PackLayout& a, const PackLayout& b);

// The cheapest row from -> to of `cpu`; null if none.
const TransformKernel* FindTransformKernel(const PackLayout& from, const PackLayout& to, const CpuFacts& cpu,
                                           Lookup lookup);

}  // namespace quern::ukernel
