// A transposed convolution in other forms. As a convolution: each of the product of the strides' phases of the output
// is one, over the kernel's taps of that phase. No element of zero is put between those of the input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// For every spatial dimension, with stride s, dilation d and kernel k (s or d is 1):
//   y[o] = sum over j of x[q - d * j] * w[s * j + r]     where o + pad = s * q + r, 0 <= r < s, j < taps = ceil(k / s)
// so the phases are the channels of Conv(x, w'), w'[r][t] = w[s * (taps - 1 - t) + r] (zero beyond the kernel).
struct TransposedWindow {
  int64_t groups = 1;
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> taps;
  std::vector<int64_t> pads_begin, pads_end;  // of the convolution
  std::vector<int64_t> begin, end;            // elements that the interleaved phases have beyond the output's ends

  int64_t phases() const;
  bool crops() const;
};

// Of a ConvTranspose whose input, weights and output have a known rank; an error says why there is no such form.
Result<TransposedWindow> ReadTransposedWindow(const Node& node);

// Empty where the node, whose input, weights and output have a known rank, is computed as a convolution; else why not.
std::string RejectPhases(const Node& node, const CpuConfig& config);

// As blocks of an image that are added up (Col2Im): block i of a channel is the product of the input's element i with
// the kernel.
struct TransposedBlocks {
  int64_t groups = 1;
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads_begin, pads_end;
};

// The same, whose extents must be known but for the batch.
Result<TransposedBlocks> ReadTransposedBlocks(const Node& node);

}  // namespace quern::cpu
