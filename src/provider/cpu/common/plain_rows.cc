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
void Repeat(const void* element, char* to, int64_t n) {
  std::array<char, kBytes> bytes;
  std::memcpy(bytes.data(), element, kBytes);
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + static_cast<size_t>(i) * kBytes, bytes.data(), kBytes);
}

template <size_t kBytes>
void CopyLoop(int64_t n, const void* x, void* y, const RowParameters&) {
  std::memcpy(y, x, static_cast<size_t>(n) * kBytes);
}

class PlainUnaryKernel final : public CpuKernel {
 public:
  explicit PlainUnaryKernel(PlainUnary what) : what_(std::move(what)) {}
  Placement Place(const BindContext& context) const override {
    Placement p;
    if (DTypeBytes(what_.from) == DTypeBytes(context.outputs[0].dtype)) p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    const size_t x_bytes = DTypeBytes(what_.from), y_bytes = DTypeBytes(context.outputs[0].dtype);
    return MakeStep([this, n, x_bytes, y_bytes](const StepContext& c) {
      return ForRange(c, n, what_.costly ? kCostlyGrain : kCheapGrain, [&](int64_t begin, int64_t end) {
        ApplyRows(what_.rows, what_.parameters, end - begin,
                  static_cast<const char*>(c.inputs[0]) + static_cast<size_t>(begin) * x_bytes,
                  static_cast<char*>(c.outputs[0]) + static_cast<size_t>(begin) * y_bytes, x_bytes, y_bytes);
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(what_.name + " (" + DTypeName(what_.from) + ")", "plain loop");
  }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }

 private:
  const PlainUnary what_;
};

// One row of outputs.
struct Run {
  int64_t n = 0;
  const void *a = nullptr, *b = nullptr;
  int a_step = 1, b_step = 1;
  void* y = nullptr;
};
struct ElementBytes {
  size_t a = 0, b = 0, y = 0;
};

bool ApplyRow(const PlainBinary& what, const Run& run, const ElementBytes& bytes) {
  const auto apply = [&](int64_t n, const void* a, const void* b, void* y) {
    return what.swapped ? what.row(n, b, a, y) : what.row(n, a, b, y);
  };
  const bool in_place = run.y == run.a || run.y == run.b;
  const bool dense = (run.a_step && run.b_step) || run.n == 1;
  if (dense && !in_place && !what.convert) return apply(run.n, run.a, run.b, run.y);
  const RunOperand a(run.a, run.a_step, bytes.a, run.n), b(run.b, run.b_step, bytes.b, run.n);
  alignas(64) char converted[kRowChunkBytes], result[kRowChunkBytes];
  bool fine = true;
  for (int64_t i = 0; i < run.n; i += kRowChunk) {
    const int64_t n = std::min(kRowChunk, run.n - i);
    const void* second = b.At(i);
    if (what.convert) {
      what.convert(n, second, converted, {});
      second = converted;
    }
    char* y = static_cast<char*>(run.y) + static_cast<size_t>(i) * bytes.y;
    fine = apply(n, a.At(i), second, in_place ? result : y) && fine;
    if (in_place) std::memcpy(y, result, static_cast<size_t>(n) * bytes.y);
  }
  return fine;
}

class PlainBinaryKernel final : public CpuKernel {
 public:
  explicit PlainBinaryKernel(PlainBinary what) : what_(std::move(what)) {}
  Placement Place(const BindContext& context) const override { return PlaceBinary(context); }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& out = context.outputs[0].shape;
    const size_t count = context.inputs.size();
    if (out.num_elements() == 0) return NothingToDo();
    if (count == 1) {
      return MakeStep([bytes = static_cast<size_t>(out.num_elements()) * DTypeBytes(what_.from)](const StepContext& c) {
        if (c.outputs[0] != c.inputs[0]) std::memcpy(c.outputs[0], c.inputs[0], bytes);
        return OkStatus();
      });
    }
    std::vector<BroadcastWalk<2>> walks = {BroadcastWalk<2>(out, {context.inputs[0].shape, context.inputs[1].shape})};
    for (size_t i = 2; i < count; ++i) walks.emplace_back(out, std::array{out, context.inputs[i].shape});
    const ElementBytes bytes = {DTypeBytes(what_.from), DTypeBytes(context.inputs[1].dtype),
                                DTypeBytes(context.outputs[0].dtype)};
    return MakeStep([this, bytes, n = out.num_elements(), walks = std::move(walks)](const StepContext& c) {
      std::atomic<bool> failed{false};
      char* y = static_cast<char*>(c.outputs[0]);
      const auto apply = [&](const PlainBinary& what, Run run, int64_t at) {
        run.y = y + static_cast<size_t>(at) * bytes.y;
        if (!ApplyRow(what, run, bytes)) failed.store(true, std::memory_order_relaxed);
      };
      const int64_t grain = what_.costly ? kCostlyGrain : kCheapGrain;
      for (size_t i = 0; i < walks.size(); ++i) {
        const BroadcastWalk<2>& walk = walks[i];
        const char* a = i == 0 ? static_cast<const char*>(c.inputs[0]) : y;
        const char* b = static_cast<const char*>(c.inputs[i + 1]);
        QUERN_RETURN_IF_ERROR(walk.Run(c, grain, [&](int64_t at, const auto& offset, int64_t run) {
          apply(what_,
                {.n = run,
                 .a = a + static_cast<size_t>(offset[0]) * bytes.a,
                 .b = b + static_cast<size_t>(offset[1]) * bytes.b,
                 .a_step = walk.step(0),
                 .b_step = walk.step(1)},
                at);
        }));
      }
      if (what_.by_count) {
        const double operands = static_cast<double>(walks.size() + 1);
        const PlainBinary by_count{.name = {}, .from = what_.from, .row = what_.by_count};
        QUERN_RETURN_IF_ERROR(ForRange(c, n, grain, [&](int64_t begin, int64_t end) {
          apply(by_count,
                {.n = end - begin, .a = y + static_cast<size_t>(begin) * bytes.y, .b = &operands, .b_step = 0}, begin);
        }));
      }
      return failed ? InvalidArgument(what_.fault) : OkStatus();
    });
  }
  KernelDescription Describe() const override {
    return Described(what_.name + " (" + DTypeName(what_.from) + ")", "plain loop");
  }

 private:
  const PlainBinary what_;
};

}  // namespace

DType AsUnsigned(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kI8:
      return DType::kU8;
    case DType::kI16:
      return DType::kU16;
    case DType::kI32:
      return DType::kU32;
    case DType::kI64:
      return DType::kU64;
    default:
      return dtype;
  }
}

UnaryRow CopyRow(size_t bytes) {
  return bytes == 1 ? CopyLoop<1> : bytes == 2 ? CopyLoop<2> : bytes == 4 ? CopyLoop<4> : CopyLoop<8>;
}

RunOperand::RunOperand(const void* at, int step, size_t bytes, int64_t run)
    : first_(static_cast<const char*>(at)), step_bytes_(step ? bytes : 0) {
  if (step) return;
  first_ = repeated_;
  const auto repeat = bytes == 1 ? Repeat<1> : bytes == 2 ? Repeat<2> : bytes == 4 ? Repeat<4> : Repeat<8>;
  repeat(at, repeated_, std::min(run, kRowChunk));
}

void ApplyRows(const std::vector<UnaryRow>& rows, const RowParameters& parameters, int64_t n, const void* x, void* y,
               size_t x_bytes, size_t y_bytes) {
  if (rows.size() == 1 && x != y) return rows[0](n, x, y, parameters);
  alignas(64) char between[2][kRowChunkBytes];
  for (int64_t i = 0; i < n; i += kRowChunk) {
    const int64_t count = std::min(kRowChunk, n - i);
    const void* from = static_cast<const char*>(x) + static_cast<size_t>(i) * x_bytes;
    char* to = static_cast<char*>(y) + static_cast<size_t>(i) * y_bytes;
    for (size_t r = 0; r < rows.size(); ++r) {
      const bool last = r + 1 == rows.size() && from != to;
      void* result = last ? to : between[r % 2];
      rows[r](count, from, result, parameters);
      from = result;
    }
    if (from != to) std::memcpy(to, from, static_cast<size_t>(count) * y_bytes);
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
