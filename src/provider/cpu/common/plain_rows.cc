#include "provider/cpu/common/plain_rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

template <size_t kBytes>
void CopyLoop(int64_t n, const void* x, void* y, const RowParameters&) {
  std::memcpy(y, x, static_cast<size_t>(n) * kBytes);
}

// Of plain and of packed types.
size_t ElementBits(DType dtype) {
  const DTypeInfo info = GetDTypeInfo(dtype);
  return size_t{8} * info.block_bytes / info.block_elements;
}

std::string TypedName(const std::string& name, DType dtype) { return name + " (" + DTypeName(dtype) + ")"; }

class PlainUnaryKernel final : public CpuKernel {
 public:
  explicit PlainUnaryKernel(PlainUnary what) : what_(std::move(what)) {}
  Placement Place(const BindContext& context) const override {
    Placement p;
    const size_t bytes = DTypeBytes(what_.from);
    if (bytes > 0 && bytes == DTypeBytes(context.outputs[0].dtype)) p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    const DType to = context.outputs[0].dtype;
    const size_t x_bits = ElementBits(what_.from), y_bits = ElementBits(to);
    // Elements that share bytes stay together.
    const int64_t group = std::max(GetDTypeInfo(what_.from).block_elements, GetDTypeInfo(to).block_elements);
    return MakeStep([this, n, x_bits, y_bits, group](const StepContext& c) {
      const int64_t groups = (n + group - 1) / group, grain = (what_.costly ? kCostlyGrain : kCheapGrain) / group;
      return ForRange(c, groups, grain, [&](int64_t first, int64_t last) {
        const int64_t begin = first * group, end = std::min(n, last * group);
        ApplyRows(what_.rows, what_.parameters, end - begin,
                  static_cast<const char*>(c.inputs[0]) + static_cast<size_t>(begin) * x_bits / 8,
                  static_cast<char*>(c.outputs[0]) + static_cast<size_t>(begin) * y_bits / 8, x_bits, y_bits);
      });
    });
  }
  KernelDescription Describe() const override {
    const std::string what = TypedName(what_.name, what_.from);
    return what_.kernel ? Described(*what_.kernel, what + ", elementwise") : Described(what, "copy");
  }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }

 private:
  const PlainUnary what_;
};

class PlainBinaryKernel final : public CpuKernel {
 public:
  explicit PlainBinaryKernel(PlainBinary what) : what_(std::move(what)) {}
  Placement Place(const BindContext& context) const override { return PlaceBinary(context); }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec& out = context.outputs[0];
    const int64_t n = out.shape.num_elements();
    if (context.inputs.size() == 1) {
      return MakeStep([bytes = static_cast<size_t>(n) * DTypeBytes(out.dtype)](const StepContext& c) {
        if (bytes > 0 && c.outputs[0] != c.inputs[0]) std::memcpy(c.outputs[0], c.inputs[0], bytes);
        return OkStatus();
      });
    }
    std::vector<PlainOperand> operands;
    for (const TensorSpec& in : context.inputs) operands.emplace_back(out.shape, in);
    return MakeStep([this, n, y_bytes = DTypeBytes(out.dtype), result = PlainOperand(out.shape, out),
                     operands = std::move(operands)](const StepContext& c) {
      const int64_t grain = what_.costly ? kCostlyGrain : kCheapGrain;
      std::atomic<bool> failed{false};
      const void* so_far = c.inputs[0];
      for (size_t i = 1; i < operands.size(); ++i) {
        const PlainOperand& first = i == 1 ? operands[0] : result;
        QUERN_RETURN_IF_ERROR(ForRange(c, n, grain, [&](int64_t begin, int64_t end) {
          OperandReader a(first, so_far), b(operands[i], c.inputs[i]);
          const bool whole = first.is_whole() && operands[i].is_whole() && !what_.convert && c.outputs[0] != so_far &&
                             c.outputs[0] != c.inputs[i];
          if (!ApplyRow(a, b, whole, begin, end, y_bytes, static_cast<char*>(c.outputs[0]))) {
            failed.store(true, std::memory_order_relaxed);
          }
        }));
        so_far = c.outputs[0];
      }
      if (what_.last) {
        const RowParameters count{.a = static_cast<double>(operands.size())};
        QUERN_RETURN_IF_ERROR(ForRange(c, n, grain, [&](int64_t begin, int64_t end) {
          char* y = static_cast<char*>(c.outputs[0]) + static_cast<size_t>(begin) * y_bytes;
          ApplyRows({&what_.last, 1}, count, end - begin, y, y, 8 * y_bytes, 8 * y_bytes);
        }));
      }
      return failed ? InvalidArgument(what_.fault) : OkStatus();
    });
  }
  KernelDescription Describe() const override {
    const std::string what = TypedName(what_.name, what_.from);
    if (!what_.kernel) return Described(what, what_.scalar);
    return Described(*what_.kernel, what + ", elementwise with broadcasting" + what_.scalar);
  }

 private:
  // The outputs [begin, end). `whole`: both operands can be read, and y written, as they are.
  bool ApplyRow(OperandReader& a, OperandReader& b, bool whole, int64_t begin, int64_t end, size_t y_bytes,
                char* y) const {
    alignas(64) char converted[kRowChunkBytes], result[kRowChunkBytes];
    bool fine = true;
    for (int64_t n; begin < end; begin += n) {
      n = whole ? end - begin : std::min(kRowChunk, end - begin);
      const void *u = a.Read(begin, n), *v = b.Read(begin, n);
      if (what_.convert) {
        what_.convert(n, v, converted, {});
        v = converted;
      }
      char* to = y + static_cast<size_t>(begin) * y_bytes;
      const bool overwrites = to == u || to == v;
      fine = what_.row(n, what_.swapped ? v : u, what_.swapped ? u : v, overwrites ? result : to) && fine;
      if (overwrites) std::memcpy(to, result, static_cast<size_t>(n) * y_bytes);
    }
    return fine;
  }

  const PlainBinary what_;
};

}  // namespace

UnaryRow CopyRow(size_t bytes) {
  return bytes == 1 ? CopyLoop<1> : bytes == 2 ? CopyLoop<2> : bytes == 4 ? CopyLoop<4> : CopyLoop<8>;
}

PlainOperand::PlainOperand(const Shape& out, const TensorSpec& operand)
    : walk_(out, {operand.shape}),
      bytes_(DTypeBytes(operand.dtype)),
      whole_(operand.shape.num_elements() == out.num_elements()) {}

template <typename T>
const void* OperandReader::GatherAs(int64_t begin, int64_t n) {
  const T* first = reinterpret_cast<const T*>(first_);
  T* to = reinterpret_cast<T*>(buffer_);
  const bool repeats = operand_.walk_.step(0) == 0;
  const void* result = buffer_;
  operand_.walk_.RunRange(begin, begin + n, [&](int64_t at, const auto& offset, int64_t count) {
    const T* from = first + offset[0];
    if (count == n && !repeats) {
      result = from;
      return;
    }
    if (count == n && from == repeated_ && n <= repetitions_) return;
    repeated_ = count == n ? from : nullptr;
    repetitions_ = n;
    T* run = to + (at - begin);
    if (repeats) {
      std::fill_n(run, count, *from);
    } else {
      std::copy_n(from, count, run);
    }
  });
  return result;
}

const void* OperandReader::Gather(int64_t begin, int64_t n) {
  switch (operand_.bytes_) {
    case 1:
      return GatherAs<uint8_t>(begin, n);
    case 2:
      return GatherAs<uint16_t>(begin, n);
    case 4:
      return GatherAs<uint32_t>(begin, n);
    default:
      return GatherAs<uint64_t>(begin, n);
  }
}

void ApplyRows(std::span<const UnaryRow> rows, const RowParameters& parameters, int64_t n, const void* x, void* y,
               size_t x_bits, size_t y_bits) {
  if (rows.size() == 1 && x != y) return rows[0](n, x, y, parameters);
  alignas(64) char between[2][kRowChunkBytes];
  for (int64_t i = 0; i < n; i += kRowChunk) {
    const int64_t count = std::min(kRowChunk, n - i);
    const void* from = static_cast<const char*>(x) + static_cast<size_t>(i) * x_bits / 8;
    char* to = static_cast<char*>(y) + static_cast<size_t>(i) * y_bits / 8;
    for (size_t r = 0; r < rows.size(); ++r) {
      const bool last = r + 1 == rows.size() && from != to;
      void* result = last ? to : between[r % 2];
      rows[r](count, from, result, parameters);
      from = result;
    }
    if (from != to) std::memcpy(to, from, static_cast<size_t>(count) * y_bits / 8);
  }
}

std::unique_ptr<CpuKernel> MakePlainUnary(PlainUnary what) {
  return std::make_unique<PlainUnaryKernel>(std::move(what));
}

std::unique_ptr<CpuKernel> MakePlainBinary(PlainBinary what) {
  return std::make_unique<PlainBinaryKernel>(std::move(what));
}

Placement PlaceBinary(const BindContext& context) {
  Placement p;
  const TensorSpec& out = context.outputs[0];
  for (size_t i = 0; i < std::min<size_t>(2, context.inputs.size()); ++i) {
    const TensorSpec& in = context.inputs[i];
    if (in.dtype == out.dtype && in.shape.num_elements() == out.shape.num_elements()) {
      p.in_place_inputs.push_back(static_cast<int>(i));
    }
  }
  return p;
}

std::string RejectLegacyBroadcast(const Node& node) {
  const bool by_attributes = node.opset() < 7 && node.num_inputs() > 1 && node.GetInt("broadcast", 0) != 0;
  return by_attributes ? "broadcasting by attributes, as before operator set 7" : std::string();
}

}  // namespace quern::cpu
