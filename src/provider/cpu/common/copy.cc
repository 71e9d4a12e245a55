#include "provider/cpu/common/copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

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
  if (sizeof(T) <= 8 && row && from_row == 1 && to_col == 1) {
    return row->transpose({.element_bytes = sizeof(T),
                           .rows = static_cast<size_t>(rows),
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

// Planes are cut across their longer side into pieces, so that one large plane is work for several threads.
struct Pieces {
  int dimension;        // the one that is cut
  int64_t length;       // of a piece along it
  int64_t count;        // of each plane
  int64_t grain_items;  // pieces that are worth a thread

  explicit Pieces(const StridedCopy& c) {
    constexpr int64_t kLine = 64;  // elements: whole cache lines of any type, whole squares of the transpose
    const int rank = c.shape.rank();
    dimension = c.shape[rank - 1] > c.shape[rank - 2] ? rank - 1 : rank - 2;
    const int64_t across = c.shape.num_elements(rank - 2, rank) / c.shape[dimension];
    const int64_t line_bytes = across * static_cast<int64_t>(c.element_bytes) * kLine;
    length = kLine * std::max<int64_t>(1, kBytesPerTask / line_bytes);
    count = (c.shape[dimension] + length - 1) / length;
    grain_items = std::max<int64_t>(1, kBytesPerTask / (line_bytes / kLine * std::min(length, c.shape[dimension])));
  }
};

template <typename T>
void CopyRange(const StridedCopy& c, const Pieces& pieces, const void* from, void* to, int64_t begin, int64_t end) {
  const int rank = c.shape.rank(), planes = rank - 2;  // dimensions of planes
  int64_t index[kMaxRank], f = 0, t = 0, rest = begin / pieces.count, piece = begin % pieces.count;
  for (int d = planes - 1; d >= 0; --d) {
    index[d] = rest % c.shape[d];
    rest /= c.shape[d];
    f += index[d] * c.from_strides[d];
    t += index[d] * c.to_strides[d];
  }
  for (int64_t i = begin; i < end; ++i) {
    int64_t extents[2] = {c.shape[planes], c.shape[planes + 1]};
    const int64_t first = piece * pieces.length;
    extents[pieces.dimension - planes] = std::min(pieces.length, c.shape[pieces.dimension] - first);
    CopyPlane(c.row, static_cast<const T*>(from) + f + first * c.from_strides[pieces.dimension],
              static_cast<T*>(to) + t + first * c.to_strides[pieces.dimension], extents[0], extents[1],
              c.from_strides[planes], c.from_strides[planes + 1], c.to_strides[planes], c.to_strides[planes + 1]);
    if (++piece < pieces.count) continue;
    piece = 0;
    for (int d = planes - 1; d >= 0; --d) {
      f += c.from_strides[d];
      t += c.to_strides[d];
      if (++index[d] < c.shape[d]) break;
      f -= c.from_strides[d] * c.shape[d];
      t -= c.to_strides[d] * c.shape[d];
      index[d] = 0;
    }
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
  std::array<Axis, kMaxRank> axes;  // by falling strides of the destination
  auto end = axes.begin();
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const Axis axis{shape[d], from_strides[d], to_strides[d]};
    const auto outer = [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); };
    const auto at = std::upper_bound(axes.begin(), end, axis, outer);
    std::move_backward(at, end, end + 1);
    *at = axis;
    ++end;
  }
  std::array<Axis, kMaxRank> merged_axes;
  auto last = merged_axes.begin();  // behind it
  for (const Axis& a : std::span(axes.begin(), end)) {
    if (last != merged_axes.begin() && last[-1].from == a.from * a.extent && last[-1].to == a.to * a.extent) {
      last[-1] = {last[-1].extent * a.extent, a.from, a.to};
    } else {
      *last++ = a;
    }
  }
  const std::span<Axis> merged(merged_axes.begin(), last);
  // The plane that is tiled: the destination's innermost dimension and the one that is innermost in the source.
  if (merged.size() > 2 && std::abs(merged.back().from) != 1) {
    const auto dense =
        std::find_if(merged.begin(), merged.end() - 1, [](const Axis& a) { return std::abs(a.from) == 1; });
    if (dense != merged.end() - 1) std::rotate(dense, dense + 1, merged.end() - 1);
  }
  for (size_t missing = merged.size(); missing < 2; ++missing) {
    c.shape.push_back(1);
    c.from_strides.push_back(0);
    c.to_strides.push_back(0);
  }
  for (const Axis& a : merged) {
    c.shape.push_back(a.extent);
    c.from_strides.push_back(a.from);
    c.to_strides.push_back(a.to);
  }
  return c;
}

Status StridedCopy::Run(const void* from, void* to, Executor& executor, const CancelToken* cancel) const {
  if (shape.num_elements() == 0) return OkStatus();
  const Pieces pieces(*this);
  auto body = [&](int, int64_t begin, int64_t end) {
    switch (element_bytes) {
      case 1:
        CopyRange<uint8_t>(*this, pieces, from, to, begin, end);
        break;
      case 2:
        CopyRange<uint16_t>(*this, pieces, from, to, begin, end);
        break;
      case 4:
        CopyRange<uint32_t>(*this, pieces, from, to, begin, end);
        break;
      case 8:
        CopyRange<uint64_t>(*this, pieces, from, to, begin, end);
        break;
      default:
        CopyRange<Block16>(*this, pieces, from, to, begin, end);
    }
  };
  return executor.ParallelFor(shape.num_elements(0, shape.rank() - 2) * pieces.count, pieces.grain_items, body, cancel);
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
