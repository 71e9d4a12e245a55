#include "provider/cpu/common/copy.h"

#include <algorithm>
#include <cstring>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

constexpr int64_t kTile = 16;               // rows and columns of a transposed tile: 16 floats are a cache line
constexpr int64_t kBytesPerTask = 1 << 15;  // a region costs about as much as copying this

// A plane of the two innermost dimensions. `rows` walks the source densely, `cols` the destination.
template <typename T>
void CopyPlane(const ukernel::VectorKernel* row, const T* from, T* to, int64_t rows, int64_t cols, int64_t from_row,
               int64_t from_col, int64_t to_row, int64_t to_col) {
  if (from_col == 1 && to_col == 1) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to + r * to_row, from + r * from_row, static_cast<size_t>(cols) * sizeof(T));
    return;
  }
  if (sizeof(T) == 4 && row && from_row == 1 && to_col == 1) {
    return row->transpose({.rows = static_cast<size_t>(rows),
                           .cols = static_cast<size_t>(cols),
                           .x = from,
                           .x_col = from_col,
                           .y = to,
                           .y_row = to_row});
  }
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
      const int64_t c1 = std::min(cols, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        const T* f = from + r * from_row;
        T* t = to + r * to_row;
        for (int64_t c = c0; c < c1; ++c) t[c * to_col] = f[c * from_col];
      }
    }
  }
}

template <typename T>
void CopyRange(const StridedCopy& c, const void* from, void* to, int64_t begin, int64_t end) {
  const int rank = c.shape.rank();
  const int64_t rows = c.shape[rank - 2], cols = c.shape[rank - 1];
  for (int64_t i = begin; i < end; ++i) {
    int64_t rest = i, f = 0, t = 0;
    for (int d = rank - 3; d >= 0; --d) {
      f += rest % c.shape[d] * c.from_strides[d];
      t += rest % c.shape[d] * c.to_strides[d];
      rest /= c.shape[d];
    }
    CopyPlane(c.row, static_cast<const T*>(from) + f, static_cast<T*>(to) + t, rows, cols, c.from_strides[rank - 2],
              c.from_strides[rank - 1], c.to_strides[rank - 2], c.to_strides[rank - 1]);
  }
}

struct Block16 {
  uint64_t words[2];
};

class DenseCopyStep final : public CpuStep {
 public:
  explicit DenseCopyStep(size_t bytes) : bytes_(bytes) {}
  Status Run(const StepContext& context) const override {
    if (bytes_ > 0) std::memcpy(context.outputs[0], context.inputs[0], bytes_);
    return OkStatus();
  }
  KernelDescription Describe() const override {
    return {
        .kernel = "copy", .why = "the result needs memory of its own", .rejected = {}, .layout = {}, .packed_bytes = 0};
  }

 private:
  size_t bytes_;
};

}  // namespace

StridedCopy StridedCopy::Prepare(Shape shape, Shape from_strides, Shape to_strides, size_t element_bytes,
                                 const ukernel::VectorKernel* row) {
  StridedCopy c;
  c.row = row;
  c.element_bytes = element_bytes;
  struct Axis {
    int64_t extent, from, to;
  };
  std::vector<Axis> axes;  // by falling strides of the destination
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const Axis axis{shape[d], from_strides[d], to_strides[d]};
    const auto outer = [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); };
    axes.insert(std::upper_bound(axes.begin(), axes.end(), axis, outer), axis);
  }
  std::vector<Axis> merged;
  for (const Axis& a : axes) {
    Axis* outer = merged.empty() ? nullptr : &merged.back();
    if (outer && outer->from == a.from * a.extent && outer->to == a.to * a.extent) {
      *outer = {outer->extent * a.extent, a.from, a.to};
    } else {
      merged.push_back(a);
    }
  }
  // The plane that is tiled: the destination's innermost dimension and the one that is innermost in the source.
  if (merged.size() > 2 && std::abs(merged.back().from) != 1) {
    auto dense = std::find_if(merged.begin(), merged.end() - 1, [](const Axis& a) { return std::abs(a.from) == 1; });
    if (dense != merged.end() - 1) std::rotate(dense, dense + 1, merged.end() - 1);
  }
  while (merged.size() < 2) merged.insert(merged.begin(), {1, 0, 0});
  for (const Axis& a : merged) {
    c.shape.push_back(a.extent);
    c.from_strides.push_back(a.from);
    c.to_strides.push_back(a.to);
  }
  // One large plane would be one task: its rows are cut into pieces.
  const int rank = c.shape.rank();
  if (rank == 2 && rank < kMaxRank) {
    const int64_t rows = c.shape[0], piece = 64;
    if (rows >= 2 * piece && rows % piece == 0) {
      c.shape[0] = piece;
      c.shape.insert(0, rows / piece);
      c.from_strides.insert(0, piece * c.from_strides[0]);
      c.to_strides.insert(0, piece * c.to_strides[0]);
    }
  }
  return c;
}

Status StridedCopy::Run(const void* from, void* to, Executor& executor, const CancelToken* cancel) const {
  const int rank = shape.rank();
  const int64_t planes = shape.num_elements(0, rank - 2);
  const int64_t plane_bytes = shape[rank - 2] * shape[rank - 1] * static_cast<int64_t>(element_bytes);
  if (planes == 0 || plane_bytes == 0) return OkStatus();
  const int64_t grain = std::max<int64_t>(1, kBytesPerTask / plane_bytes);
  auto body = [&](int, int64_t begin, int64_t end) {
    switch (element_bytes) {
      case 1:
        CopyRange<uint8_t>(*this, from, to, begin, end);
        break;
      case 2:
        CopyRange<uint16_t>(*this, from, to, begin, end);
        break;
      case 4:
        CopyRange<uint32_t>(*this, from, to, begin, end);
        break;
      case 8:
        CopyRange<uint64_t>(*this, from, to, begin, end);
        break;
      default:
        CopyRange<Block16>(*this, from, to, begin, end);
    }
  };
  return executor.ParallelFor(planes, grain, body, cancel);
}

Result<std::unique_ptr<CpuStep>> MakeDenseCopy(const TensorSpec& output) {
  QUERN_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(output.dtype, output.shape));
  return std::unique_ptr<CpuStep>(new DenseCopyStep(bytes));
}

Status CopyUnlessInPlace(const StepContext& c, size_t bytes) {
  if (c.inputs[0] == c.outputs[0]) return OkStatus();
  const char* from = static_cast<const char*>(c.inputs[0]);
  char* to = static_cast<char*>(c.outputs[0]);
  return ForRange(c, static_cast<int64_t>(bytes), 8 * kBytesPerTask, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace quern::cpu
