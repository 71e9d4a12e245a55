// Einsum of float32 and float64: a permuted copy, or a batch of matrix products over strides, with copies where an
// operand's dimensions do not make a matrix. Sums over a dimension of one operand alone come first, as a product with
// ones; more than two operands are multiplied from the left.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "kernels/matmul.h"
#include "ops/common/einsum_equation.h"
#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/matrix_operand.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

using kernels::MatMulArgs;

constexpr float kOne = 1;
constexpr double kOneDouble = 1;

using Letters = std::string;
using LetterMap = std::array<int64_t, 128>;  // by letter

bool Has(const Letters& letters, char ch) { return letters.find(ch) != Letters::npos; }

// The letters of a product of two operands that something still needs.
Letters Kept(const Letters& a, const Letters& b, const Letters& needed) {
  Letters keep;
  for (const char ch : a + b) {
    if (Has(needed, ch) && !Has(keep, ch)) keep += ch;
  }
  return keep;
}

// Where numbers lie during a run.
struct Place {
  enum class In { kInput, kOutput, kScratch, kOne } in = In::kInput;
  size_t at = 0;  // the input, or an offset in scratch

  // `one`: a number of the operands' type.
  void* Resolve(const StepContext& c, const void* one) const {
    switch (in) {
      case In::kInput:
        return c.inputs[at];
      case In::kOutput:
        return c.outputs[0];
      case In::kScratch:
        return static_cast<std::byte*>(c.scratch) + at;
      case In::kOne:
        break;
    }
    return const_cast<void*>(one);
  }
};

// Dimensions of extent 1 have no letter; elements, not bytes.
struct Operand {
  Place place;
  Letters letters;
  LetterMap strides{};
};

// One step of the computation.
struct Stage {
  enum class Kind { kCopy, kMultiply, kProduct } kind = Kind::kCopy;
  Place lhs, rhs, dst;
  StridedCopy copy;
  int64_t count = 0;  // of kMultiply
  std::shared_ptr<const kernels::MatMul> product;
  MatMulArgs args;
  kernels::MatMulPlan plan;
  std::vector<kernels::BatchDim> batch;
};

class EinsumStep final : public CpuStep {
 public:
  EinsumStep(const CpuConfig& config, DType type, int concurrency)
      : config_(config), row_(VectorRowFor(config)), concurrency_(concurrency), type_(type) {}
  Status Build(const EinsumEquation& e, const BindContext& context);
  size_t scratch_bytes() const override { return workspace_ + workspace_bytes_; }

  Status Run(const StepContext& c) const override {
    if (zero_) std::memset(c.outputs[0], 0, static_cast<size_t>(zero_ * element_));
    for (const Stage& s : stages_) {
      const void* one = type_ == DType::kF64 ? static_cast<const void*>(&kOneDouble) : &kOne;
      const void *lhs = s.lhs.Resolve(c, one), *rhs = s.rhs.Resolve(c, one);
      void* dst = s.dst.Resolve(c, one);
      switch (s.kind) {
        case Stage::Kind::kCopy:
          QUERN_RETURN_IF_ERROR(s.copy.Run(lhs, dst, *c.executor, c.cancel));
          break;
        case Stage::Kind::kMultiply:
          QUERN_RETURN_IF_ERROR(Multiply(c, s.count, lhs, rhs, dst));
          break;
        case Stage::Kind::kProduct: {
          MatMulArgs args = s.args;
          args.lhs = lhs;
          args.rhs.data = rhs;
          args.dst = dst;
          args.batch = s.batch;
          QUERN_RETURN_IF_ERROR(s.product->Run(s.plan, args,
                                               {.executor = c.executor,
                                                .cancel = c.cancel,
                                                .workspace = static_cast<std::byte*>(c.scratch) + workspace_,
                                                .workspace_bytes = workspace_bytes_}));
        }
      }
    }
    return OkStatus();
  }

 private:
  Status Multiply(const StepContext& c, int64_t count, const void* x, const void* z, void* y) const {
    return ForRange(c, count, kCheapGrain, [=, this](int64_t begin, int64_t end) {
      const auto at = [&](const void* p) { return static_cast<const std::byte*>(p) + begin * element_; };
      auto* to = static_cast<std::byte*>(y) + begin * element_;
      if (type_ == DType::kF64) {
        multiply_doubles_(end - begin, at(x), at(z), to);
        return;
      }
      row_->binary({.kind = BinaryKind::kMul,
                    .n = static_cast<size_t>(end - begin),
                    .x = reinterpret_cast<const float*>(at(x)),
                    .z = reinterpret_cast<const float*>(at(z)),
                    .y = reinterpret_cast<float*>(to)});
    });
  }
  int64_t Count(const Letters& letters) const {
    int64_t n = 1;
    for (const char ch : letters) n *= extents_[ch];
    return n;
  }
  Place Scratch(int64_t elements) {
    const Place p{Place::In::kScratch, workspace_};
    workspace_ += (static_cast<size_t>(elements * element_) + 63) / 64 * 64;
    return p;
  }
  // Contiguous, in the order of the letters.
  Operand Dense(Place place, const Letters& letters) const {
    Operand o{place, letters, {}};
    int64_t stride = 1;
    for (size_t i = letters.size(); i-- > 0;) {
      o.strides[letters[i]] = stride;
      stride *= extents_[letters[i]];
    }
    return o;
  }
  bool IsDense(const Operand& o, const Letters& letters) const {
    const Operand dense = Dense(o.place, letters);
    return std::all_of(letters.begin(), letters.end(), [&](char ch) { return o.strides[ch] == dense.strides[ch]; });
  }
  void Copy(const Operand& from, const Operand& to, const Letters& letters) {
    Shape shape, from_strides, to_strides;
    for (const char ch : letters) {
      shape.push_back(extents_[ch]);
      from_strides.push_back(from.strides[ch]);
      to_strides.push_back(to.strides[ch]);
    }
    Stage s;
    s.kind = Stage::Kind::kCopy;
    s.lhs = from.place;
    s.dst = to.place;
    s.copy = StridedCopy::Prepare(shape, from_strides, to_strides, element_, row_);
    stages_.push_back(std::move(s));
  }
  Operand Copied(const Operand& o, const Letters& letters) {
    const Operand dense = Dense(Scratch(Count(letters)), letters);
    Copy(o, dense, letters);
    return dense;
  }
  // The one stride along which all of the letters are walked, if there is one.
  std::optional<int64_t> Merged(const Operand& o, const Letters& letters) const {
    for (size_t i = 0; i + 1 < letters.size(); ++i) {
      if (o.strides[letters[i]] != o.strides[letters[i + 1]] * extents_[letters[i + 1]]) return std::nullopt;
    }
    return letters.empty() ? 1 : o.strides[letters.back()];
  }
  MatrixOperand Matrix(const Operand& o, const Letters& batch, const Letters& rows, const Letters& cols) const {
    MatrixOperand m{.rows = Count(rows),
                    .cols = Count(cols),
                    .row_stride = *Merged(o, rows) * element_,
                    .col_stride = *Merged(o, cols) * element_,
                    .batch = {},
                    .batch_strides = {}};
    for (const char ch : batch) {
      m.batch.push_back(extents_[ch]);
      m.batch_strides.push_back(o.strides[ch] * element_);
    }
    return m;
  }
  // Sums over the letters that are not in `keep`.
  Result<Operand> Reduced(const Operand& o, const Letters& keep, std::optional<Place> place);
  // To a dense operand in the order of `out`, at `place` or in scratch.
  Result<Operand> Contract(Operand lhs, Operand rhs, const Letters& out, std::optional<Place> place);

  const CpuConfig& config_;
  const ukernel::VectorKernel* row_;
  int concurrency_;
  DType type_;
  int64_t element_ = static_cast<int64_t>(DTypeBytes(type_));
  BinaryRow multiply_doubles_ = ElementwiseRowFor(config_)->binary(BinaryKind::kMul, DType::kF64, DType::kF64);
  LetterMap extents_{};
  std::vector<Stage> stages_;
  int64_t zero_ = 0;  // elements of an output that is a sum of nothing
  size_t workspace_ = 0, workspace_bytes_ = 0;
};

Result<Operand> EinsumStep::Reduced(const Operand& o, const Letters& keep, std::optional<Place> place) {
  const Operand ones{{Place::In::kOne, 0}, {}, {}};
  return Contract(o, ones, keep, place);
}

Result<Operand> EinsumStep::Contract(Operand lhs, Operand rhs, const Letters& out, std::optional<Place> place) {
  Letters b, m, n, k;
  for (const char ch : out) (Has(lhs.letters, ch) ? Has(rhs.letters, ch) ? b : m : n) += ch;
  for (const char ch : lhs.letters) {
    if (!Has(out, ch)) k += ch;
  }
  if (b + m + n != out && b + n + m == out) {
    std::swap(lhs, rhs);
    std::swap(m, n);
  }
  const bool direct = b + m + n == out;
  const Place target = place && direct ? *place : Scratch(Count(out));
  const Operand result = Dense(target, b + m + n);
  Stage s;
  s.dst = target;
  if (m.empty() && n.empty() && k.empty() && !b.empty()) {
    if (!IsDense(lhs, b)) lhs = Copied(lhs, b);
    if (!IsDense(rhs, b)) rhs = Copied(rhs, b);
    s.kind = Stage::Kind::kMultiply;
    s.count = Count(b);
  } else {
    // A left side whose k elements are all the same would read as contiguous.
    const std::optional<int64_t> lhs_k = Merged(lhs, k);
    if (!Merged(lhs, m) || !lhs_k || *lhs_k == 0) lhs = Copied(lhs, b + m + k);
    if (!rhs.letters.empty() && (!Merged(rhs, k) || !Merged(rhs, n))) rhs = Copied(rhs, b + k + n);
    const auto dims = [&] {
      return BatchDims(Matrix(lhs, b, m, k), Matrix(rhs, b, k, n), Count(m) * Count(n), element_, -1);
    };
    std::optional<std::vector<kernels::BatchDim>> batch = dims();
    if (!batch) {
      lhs = Copied(lhs, b + m + k);
      rhs = Copied(rhs, b + k + n);
      batch = dims();
    }
    const MatrixOperand left = Matrix(lhs, b, m, k), right = Matrix(rhs, b, k, n);
    s.kind = Stage::Kind::kProduct;
    s.batch = *batch;
    s.args.m = static_cast<size_t>(left.rows);
    s.args.lhs_row_stride = left.row_stride;
    s.args.lhs_k_stride = left.col_stride == element_ ? 0 : left.col_stride;
    const ukernel::Format format = ukernel::FormatOf(type_);
    s.args.rhs = RunTimeSource(right, format);
    s.args.dst_row_stride = right.cols * element_;
    s.args.batch = s.batch;
    const kernels::GemmProblem problem{.lhs = format, .rhs = format, .precision = PrecisionFor(config_)};
    QUERN_ASSIGN_OR_RETURN(s.product, RunTimeProduct(problem, s.args.m, right, config_));
    s.plan = s.product->Plan(s.args, concurrency_);
    workspace_bytes_ = std::max(workspace_bytes_, s.plan.workspace_bytes);
  }
  s.lhs = lhs.place;
  s.rhs = rhs.place;
  stages_.push_back(std::move(s));
  if (direct || !place) return result;
  const Operand final = Dense(*place, out);
  Copy(result, final, out);
  return final;
}

Status EinsumStep::Build(const EinsumEquation& e, const BindContext& context) {
  const Shape& y = context.outputs[0].shape;
  if (y.num_elements() == 0) return OkStatus();
  extents_.fill(1);
  std::vector<Operand> operands;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    const TensorSpec& x = context.inputs[i];
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (x.shape[d] != 1) extents_[e.inputs[i][static_cast<size_t>(d)]] = x.shape[d];
    }
  }
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    const TensorSpec& x = context.inputs[i];
    if (x.shape.num_elements() == 0) zero_ = y.num_elements();
    Operand o{{Place::In::kInput, i}, {}, {}};
    for (int d = 0; d < x.shape.rank(); ++d) {
      const char ch = e.inputs[i][static_cast<size_t>(d)];
      if (x.shape[d] == 1) continue;
      if (!Has(o.letters, ch)) o.letters += ch;
      o.strides[ch] += x.strides[d];
    }
    operands.push_back(std::move(o));
  }
  if (zero_) return OkStatus();
  Letters out;
  for (const char ch : e.output) {
    if (extents_[ch] != 1) out += ch;
  }
  const Place output{Place::In::kOutput, 0};
  const bool alone = operands.size() == 1;
  // Letters that an operand has alone and that are not wanted.
  for (size_t i = 0; i < operands.size(); ++i) {
    Letters keep;
    for (const char ch : alone ? out : operands[i].letters) {
      bool wanted = Has(out, ch);
      for (size_t j = 0; j < operands.size(); ++j) wanted |= j != i && Has(operands[j].letters, ch);
      if (wanted) keep += ch;
    }
    if (keep.size() == operands[i].letters.size()) continue;
    QUERN_ASSIGN_OR_RETURN(operands[i], Reduced(operands[i], keep, alone ? std::optional(output) : std::nullopt));
  }
  if (alone) {
    if (operands[0].place.in != Place::In::kOutput) Copy(operands[0], Dense(output, out), out);
    return OkStatus();
  }
  Operand product = operands[0];
  for (size_t i = 1; i + 1 < operands.size(); ++i) {
    Letters later = out;
    for (size_t j = i + 1; j < operands.size(); ++j) later += operands[j].letters;
    const Letters keep = Kept(product.letters, operands[i].letters, later);
    QUERN_ASSIGN_OR_RETURN(product, Contract(product, operands[i], keep, std::nullopt));
  }
  return Contract(product, operands.back(), out, output).status();
}

Result<EinsumEquation> EquationOf(const Node& node) {
  std::vector<int> ranks;
  for (const GraphValue* v : node.inputs()) ranks.push_back(v->type().rank());
  return ParseEinsum(node, ranks);
}

class EinsumKernel final : public CpuKernel {
 public:
  EinsumKernel(EinsumEquation equation, const CpuConfig& config) : equation_(std::move(equation)), config_(config) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    auto step = std::make_unique<EinsumStep>(config_, context.inputs[0].dtype, context.concurrency);
    QUERN_RETURN_IF_ERROR(step->Build(equation_, context));
    return std::unique_ptr<CpuStep>(std::move(step));
  }
  bool sums_products() const override { return true; }
  KernelDescription Describe() const override {
    return Described("products over strides", "batch, rows, columns and sums by the letters");
  }
  uint64_t strided_inputs() const override { return ~uint64_t{0}; }

 private:
  EinsumEquation equation_;
  CpuConfig config_;
};

// Products in between may be larger than operands and result: that they are not must be known.
std::string RejectMany(const Node& node, const EinsumEquation& e) {
  constexpr int64_t kMostBetween = int64_t{1} << 24;  // elements, 64 MB
  LetterMap extents;
  extents.fill(1);
  for (size_t i = 0; i < e.inputs.size() && e.inputs.size() > 2; ++i) {
    const Dims& shape = *node.input(static_cast<int>(i))->type().shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!shape[d].is_constant()) return "more than two operands of extents that are not known";
      if (!shape[d].is_constant(1)) extents[e.inputs[i][d]] = shape[d].value();
    }
  }
  Letters product = e.inputs.empty() ? Letters() : e.inputs[0];
  for (size_t i = 1; i + 1 < e.inputs.size(); ++i) {
    Letters later = e.output;
    for (size_t j = i + 1; j < e.inputs.size(); ++j) later += e.inputs[j];
    product = Kept(product, e.inputs[i], later);
    if (product.size() > kMaxRank) return "products of too many dimensions";
    int64_t count = 1;
    for (const char ch : product) {
      if (extents[ch] > kMostBetween / std::max<int64_t>(count, 1)) return "large products of some of the operands";
      count *= extents[ch];
    }
  }
  return {};
}

std::string Reject(const Node& node, const CpuConfig&) {
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {DType::kF32, DType::kF64}); !why.empty()) return why;
  }
  const Result<EinsumEquation> equation = EquationOf(node);
  return equation.ok() ? RejectMany(node, *equation) : equation.status().message();
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  QUERN_ASSIGN_OR_RETURN(EinsumEquation equation, EquationOf(node));
  return std::unique_ptr<CpuKernel>(new EinsumKernel(std::move(equation), *context.config));
}

constexpr CpuOp kOps[] = {{"", "Einsum", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsEinsum = kOps;

}  // namespace quern::cpu
