// What the operators of ops.h share: options, epilogues, runs, and the account of the choice.
#include "api/ops.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/executor.h"
#include "api/struct_size.h"
#include "api/value.h"
#include "base/checked_math.h"
#include "session/facts.h"

namespace quern::api {
namespace {

using ukernel::EpilogueKind;
using ukernel::EpilogueOp;
using ukernel::Format;
using ukernel::Precision;

// Far more than any operand, and far from overflowing in strides, paddings and the like.
constexpr size_t kMostElements = size_t{1} << 44;

Result<Precision> ReadPrecision(const char* name) {
  if (!name) return Precision::kFp32;
  for (Precision p : {Precision::kFp32, Precision::kFp32Fast, Precision::kFp16, Precision::kBf16}) {
    if (std::string_view(name) == PrecisionName(p)) return p;
  }
  return InvalidArgument("there is no precision '" + std::string(name) + "'; known are fp32, fp32-fast, fp16, bf16");
}

Result<EpilogueOp> ReadActivation(const quern_ops_epilogue& e) {
  EpilogueOp op{.a = e.alpha, .b = e.beta};
  static constexpr std::pair<int32_t, EpilogueKind> kKinds[] = {
      {QUERN_ACTIVATION_RELU, EpilogueKind::kClamp},
      {QUERN_ACTIVATION_CLAMP, EpilogueKind::kClamp},
      {QUERN_ACTIVATION_LEAKY_RELU, EpilogueKind::kLeakyRelu},
      {QUERN_ACTIVATION_HARD_SIGMOID, EpilogueKind::kHardSigmoid},
      {QUERN_ACTIVATION_HARD_SWISH, EpilogueKind::kHardSwish},
      {QUERN_ACTIVATION_SIGMOID, EpilogueKind::kSigmoid},
      {QUERN_ACTIVATION_SILU, EpilogueKind::kSilu},
      {QUERN_ACTIVATION_TANH, EpilogueKind::kTanh},
      {QUERN_ACTIVATION_ELU, EpilogueKind::kElu},
      {QUERN_ACTIVATION_GELU, EpilogueKind::kGelu},
      {QUERN_ACTIVATION_GELU_TANH, EpilogueKind::kGeluTanh},
  };
  const auto* found = std::ranges::find(kKinds, e.activation, &std::pair<int32_t, EpilogueKind>::first);
  if (found == std::end(kKinds)) {
    return InvalidArgument("epilogue.activation is " + std::to_string(e.activation) + ", no quern_activation");
  }
  op.kind = found->second;
  if (e.activation == QUERN_ACTIVATION_RELU) {
    op.a = 0;
    op.b = std::numeric_limits<float>::infinity();
  }
  if (e.activation == QUERN_ACTIVATION_SILU) op.a = 1;
  return op;
}

bool IsByte(DType t) { return t == DType::kI8 || t == DType::kU8; }

}  // namespace

Status CheckDst(DType dst, bool integers) {
  const bool fits =
      dst == DType::kF32 || (integers ? IsByte(dst) || dst == DType::kI32 : dst == DType::kF16 || dst == DType::kBF16);
  if (fits) return OkStatus();
  return InvalidArgument(std::string("dst is ") + DTypeName(dst) + "; products of " +
                         (integers ? "integers give i32, f32, i8 or u8" : "these types give f32, f16 or bf16"));
}

Result<OpsEpilogue> ReadEpilogue(const quern_ops_epilogue* given, size_t n, bool integers, DType dst) {
  QUERN_RETURN_IF_ERROR(CheckDst(dst, integers));
  quern_ops_epilogue e{};
  if (given) {
    QUERN_ASSIGN_OR_RETURN(e, ReadStruct(given, "epilogue"));
  }
  OpsEpilogue made;
  const bool bytes = IsByte(dst), floats = !integers || dst == DType::kF32;
  if (e.residual && !floats) return InvalidArgument("epilogue.residual needs a float result");
  if (e.activation != QUERN_ACTIVATION_NONE && !floats && !(bytes && e.activation == QUERN_ACTIVATION_RELU)) {
    return InvalidArgument(std::string("epilogue.activation ") + std::to_string(e.activation) +
                           " is not there for results of " + DTypeName(dst));
  }
  if (!integers && (e.scales || (e.scale != 0 && e.scale != 1))) {
    return InvalidArgument("epilogue.scale is for products of integers");
  }
  if (dst == DType::kI32 && (e.scales || (e.scale != 0 && e.scale != 1))) {
    return InvalidArgument("epilogue.scale needs a result of f32, i8 or u8");
  }
  if (e.bias && integers) {
    const auto* bias = static_cast<const int32_t*>(e.bias);
    made.integer_bias.assign(bias, bias + n);
    made.ops.push_back({.kind = EpilogueKind::kAddVectorN, .data = made.integer_bias.data()});
  } else if (e.bias) {
    const auto* bias = static_cast<const float*>(e.bias);
    made.bias.assign(bias, bias + n);
    made.ops.push_back({.kind = EpilogueKind::kAddVectorN, .data = made.bias.data()});
  }
  if (e.scales) made.scales.assign(e.scales, e.scales + n);
  const float scale = e.scale == 0 ? 1 : e.scale;
  if (bytes) {
    const int32_t low = dst == DType::kI8 ? -128 : 0, high = dst == DType::kI8 ? 127 : 255;
    if (e.zero_point < low || e.zero_point > high) {
      return InvalidArgument("epilogue.zero_point is " + std::to_string(e.zero_point) + ", no " + DTypeName(dst));
    }
    EpilogueOp op{.kind = EpilogueKind::kRequantize, .format = ukernel::FormatOf(dst), .scale = scale};
    op.data = made.scales.empty() ? nullptr : made.scales.data();
    op.integer = e.zero_point;
    if (e.activation == QUERN_ACTIVATION_RELU) {
      op.a = static_cast<float>(e.zero_point);
      op.b = static_cast<float>(high);
      // A range that holds one number cannot be said so: everything is that number.
      if (!(op.a < op.b)) return InvalidArgument("epilogue.zero_point leaves no room above it for relu");
    }
    made.ops.push_back(op);
    return made;
  }
  if (integers && dst == DType::kF32) {
    made.ops.push_back(made.scales.empty() ? EpilogueOp{.kind = EpilogueKind::kMulScalar, .a = scale}
                                           : EpilogueOp{.kind = EpilogueKind::kMulVectorN, .data = made.scales.data()});
  }
  if (e.residual) {
    made.residual = static_cast<int>(made.ops.size());
    made.ops.push_back({.kind = EpilogueKind::kAddMatrix});
  }
  if (e.activation != QUERN_ACTIVATION_NONE) {
    QUERN_ASSIGN_OR_RETURN(const EpilogueOp op, ReadActivation(e));
    made.ops.push_back(op);
  }
  if (dst == DType::kF16 || dst == DType::kBF16) {
    made.ops.push_back({.kind = EpilogueKind::kConvert, .format = ukernel::FormatOf(dst)});
  }
  return made;
}

Result<std::unique_ptr<quern_op>> NewOp(const quern_ops_options* options) {
  quern_ops_options known{};
  if (options) {
    QUERN_ASSIGN_OR_RETURN(known, ReadStruct(options, "options"));
  }
  auto op = std::make_unique<quern_op>();
  QUERN_ASSIGN_OR_RETURN(op->cpu, known.cpu ? CpuFromSpec(known.cpu) : CpuFromEnvironment());
  QUERN_RETURN_IF_ERROR(CheckCanRun(op->cpu));
  QUERN_ASSIGN_OR_RETURN(op->precision, ReadPrecision(known.precision));
  if (known.kernel) op->kernel = known.kernel;
  op->options.cpu = op->cpu.facts();
  op->options.force_row = op->kernel;
  return op;
}

kernels::Packing OpsPacking(const quern_ops_options* options) {
  static InlineExecutor inline_executor;
  // NewOp has checked the struct.
  const bool given = options && options->struct_size >= offsetof(quern_ops_options, executor) + sizeof(void*);
  quern_executor* executor = given ? options->executor : nullptr;
  return kernels::Packing(executor ? *executor->executor : static_cast<Executor&>(inline_executor));
}

Result<ukernel::Format> ReadFormat(int32_t dtype, const char* field, bool takes_f64) {
  QUERN_ASSIGN_OR_RETURN(const DType type, ReadDType(dtype));
  const Format format = ukernel::FormatOf(type);
  if (format == Format::kNone || format == Format::kI32 || (format == Format::kF64 && !takes_f64)) {
    return InvalidArgument(std::string(field) + " is " + DTypeName(type) + ", which it does not take");
  }
  return format;
}

Status CheckExtents(std::initializer_list<size_t> extents, const char* what) {
  size_t product = 1;
  for (size_t x : extents) {
    const std::optional<size_t> next = CheckedMul(product, std::max<size_t>(x, 1));
    if (!next || *next > kMostElements) return InvalidArgument(std::string(what) + " are too large");
    product = *next;
  }
  return OkStatus();
}

int Concurrency(const quern_executor* executor) { return executor ? executor->executor->concurrency() : 1; }

Result<kernels::RunResources> ReadRun(const quern_ops_run* run, InlineExecutor& inline_executor) {
  QUERN_RETURN_IF_ERROR(RequirePointer(run, "run"));
  QUERN_ASSIGN_OR_RETURN(const quern_ops_run known, ReadStruct(run, "run"));
  if (reinterpret_cast<uintptr_t>(known.workspace) % 64 != 0) {
    return InvalidArgument("run.workspace is not 64-byte aligned");
  }
  if (!known.workspace && known.workspace_bytes) return InvalidArgument("run.workspace is NULL");
  return kernels::RunResources{.executor = known.executor ? known.executor->executor : &inline_executor,
                               .cancel = known.cancel ? &known.cancel->token : nullptr,
                               .workspace = known.workspace,
                               .workspace_bytes = known.workspace_bytes};
}

namespace {

std::string Explain(const quern_op& op, size_t rows) {
  OperatorChoice choice;
  choice.cpu = op.cpu.name;
  choice.options = op.options;
  const auto product = [&](const char* role, const kernels::GemmProblem& problem, const kernels::LayoutChoice& layout,
                           const kernels::GemmKernel* row,
                           size_t m) { choice.products.push_back({role, problem, layout, row, m}); };
  if (const auto* matmul = std::get_if<MatMulOp>(&op.op)) {
    choice.op = "matmul";
    choice.algorithm = "gemm";
    if (matmul->packed) choice.packed_bytes = matmul->packed->packed_bytes();
    product("product", matmul->problem, matmul->driver.layout(), matmul->driver.RowFor(rows), rows);
  } else if (const auto* conv = std::get_if<ConvOp>(&op.op)) {
    const kernels::Convolution& d = conv->driver;
    choice.op = "conv";
    choice.packed_bytes = d.packed_bytes();
    switch (d.algorithm()) {
      case kernels::ConvAlgorithm::kDepthwise:
        choice.algorithm = "depthwise";
        choice.why = "each channel by itself, no product";
        choice.kernel = ukernel::Name(*d.depthwise().row()).text;
        break;
      case kernels::ConvAlgorithm::kGrouped:
        choice.algorithm = "grouped";
        choice.why = "groups of few channels: vectors across groups, no products";
        choice.kernel = ukernel::Name(*d.depthwise().row()).text;
        break;
      case kernels::ConvAlgorithm::kKn2Row:
        choice.algorithm = "kn2row";
        choice.why = d.kn2row().Saving();
        product("product", d.kn2row().gemm_problem(), d.kn2row().weights().choice(), d.kn2row().GemmRowFor(rows), rows);
        break;
      case kernels::ConvAlgorithm::kWinograd:
        choice.algorithm = "winograd";
        choice.why = d.winograd().Saving();
        choice.kernel = ukernel::Name(d.winograd().row()).text;
        product("component", d.winograd().gemm_problem(), d.winograd().weights().choice(),
                d.winograd().GemmRowFor(rows), d.winograd().TilesOf(rows));
        break;
      case kernels::ConvAlgorithm::kDirect:
        choice.algorithm = "direct";
        choice.why = "not winograd: " + d.rejections().winograd + "; not kn2row: " + d.rejections().kn2row;
        product("product", d.direct().gemm_problem(), d.direct().weights().choice(), d.direct().RowFor(rows), rows);
        break;
    }
  } else {
    const auto& attention = std::get<AttentionOp>(op.op);
    choice.op = "attention";
    choice.algorithm = "blocks of queries";
    for (const kernels::MatMul* m : {attention.driver.scores(), attention.driver.values()}) {
      if (!m) continue;
      const size_t block = attention.driver.block_rows();
      product(choice.products.empty() ? "scores" : "values", m->problem(), m->layout(), m->RowFor(block), block);
    }
  }
  return OperatorReport(choice);
}

}  // namespace
}  // namespace quern::api

extern "C" {

void quern_ops_free(quern_op* op) { delete op; }

quern_status quern_ops_explain(const quern_op* op, size_t rows, char** json) {
  return quern::api::Guard([&]() -> quern::Status {
    QUERN_RETURN_IF_ERROR(quern::api::RequirePointer(op, "op"));
    QUERN_RETURN_IF_ERROR(quern::api::RequirePointer(json, "json"));
    *json = quern::api::CopyText(quern::api::Explain(*op, std::max<size_t>(rows, 1)));
    return quern::OkStatus();
  });
}

}  // extern "C"
