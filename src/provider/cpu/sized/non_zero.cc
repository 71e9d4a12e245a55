// NonZero of any type of fixed size: counted in chunks, whose columns are then written at once.
#include <algorithm>
#include <vector>

#include "ops/common/dispatch.h"
#include "provider/cpu/sized/sized_op.h"

namespace quern::cpu {
namespace {

using Elements = Types<bool, float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                       uint32_t, uint64_t>;
constexpr int64_t kChunk = 16384;  // elements of one task

template <typename T>
bool IsSet(T x) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return (x.bits & 0x7fff) != 0;
  } else {
    return x != T{};
  }
}

// Writes a column for each element of [begin, end) that is set, from `column` on.
template <typename T>
void WriteColumns(const T* x, const Shape& shape, int64_t begin, int64_t end, int64_t column, int64_t columns,
                  int64_t* y) {
  const int rank = shape.rank();
  int64_t index[kMaxRank] = {};
  for (int64_t d = rank - 1, rest = begin; d >= 0; --d) {
    index[d] = rest % shape[static_cast<int>(d)];
    rest /= shape[static_cast<int>(d)];
  }
  for (int64_t i = begin; i < end; ++i) {
    if (IsSet(x[i])) {
      for (int d = 0; d < rank; ++d) y[d * columns + column] = index[d];
      ++column;
    }
    for (int d = rank - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

template <typename T>
Status RunTyped(SizedRun& run) {
  const T* x = run.inputs[0].data<T>();
  const Shape& shape = run.inputs[0].shape();
  const int64_t n = shape.num_elements(), chunks = (n + kChunk - 1) / kChunk;
  std::vector<int64_t> first(static_cast<size_t>(chunks) + 1, 0);  // column of each chunk
  QUERN_RETURN_IF_ERROR(ForEachItem(run, chunks, 2, [&](int64_t i) {
    const T* from = x + i * kChunk;
    int64_t count = 0;
    for (int64_t k = 0; k < std::min(kChunk, n - i * kChunk); ++k) count += IsSet(from[k]);
    first[static_cast<size_t>(i) + 1] = count;
  }));
  for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  const int64_t columns = first.back();
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, DType::kI64, Shape{shape.rank(), columns}));
  return ForEachItem(run, chunks, 2, [&](int64_t i) {
    const auto c = static_cast<size_t>(i);
    if (first[c] == first[c + 1]) return;
    WriteColumns(x, shape, i * kChunk, std::min(n, (i + 1) * kChunk), first[c], columns, y.data<int64_t>());
  });
}

std::string Reject(const Node& node) {
  const DType t = node.input(0)->type().dtype;
  const bool known = DispatchType(Elements{}, t, []<typename T>() { return OkStatus(); }).ok();
  return known ? std::string() : std::string("type ") + DTypeName(t);
}

Status Run(SizedRun& run) {
  return DispatchType(Elements{}, run.inputs[0].dtype(), [&]<typename T>() { return RunTyped<T>(run); });
}

}  // namespace

const SizedOp kSizedNonZero = {"NonZero", Reject, Run};

}  // namespace quern::cpu
