// ai.onnx.ml.Binarizer: 1 where an element is above the threshold, else 0.
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

struct IsAbove {
  template <typename T>
  T operator()(T x, const RowParameters& p) const {
    return static_cast<T>(static_cast<double>(x) > p.a);
  }
};

UnaryRow FindRow(const Node& node) {
  return UnaryRowOf<IsAbove{}>(Types<float, double, int64_t, int32_t>{}, node.input(0)->type().dtype);
}

std::string Reject(const Node& node, const CpuConfig&) {
  return FindRow(node) ? std::string() : std::string("type ") + DTypeName(node.input(0)->type().dtype);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return MakePlainUnary({.name = node.op_type(),
                         .from = node.input(0)->type().dtype,
                         .rows = {FindRow(node)},
                         .parameters = {.a = static_cast<double>(node.GetFloat("threshold", 0.0f))}});
}

constexpr CpuOp kOps[] = {{"ai.onnx.ml", "Binarizer", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsBinarizer = kOps;

}  // namespace quern::cpu
