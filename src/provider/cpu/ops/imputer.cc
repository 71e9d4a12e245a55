// Imputer of ai.onnx.ml: elements that equal one value (or are NaN) become another, which may differ by feature.
#include <cmath>
#include <limits>

#include "ops/common/ml_rows.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

class ImputerKernel final : public CpuKernel {
 public:
  explicit ImputerKernel(const Node& node) : node_(node) {}
  Placement Place(const BindContext&) const override { return {.views = {}, .parts = {}, .in_place_inputs = {0}}; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    switch (context.inputs[0].dtype) {
      case DType::kF32:
        return BindTyped<float, float>(shape, "imputed_value_floats", node_.GetFloat("replaced_value_float", 0));
      case DType::kF64:
        return BindTyped<double, float>(shape, "imputed_value_floats", node_.GetFloat("replaced_value_float", 0));
      case DType::kI64:
        return BindTyped<int64_t, int64_t>(shape, "imputed_value_int64s", node_.GetInt("replaced_value_int64", 0));
      default:
        return BindTyped<int32_t, int64_t>(shape, "imputed_value_int64s", node_.GetInt("replaced_value_int64", 0));
    }
  }
  KernelDescription Describe() const override { return Described("imputer", "plain loop by row"); }

 private:
  // From: what the attributes hold for elements of T.
  template <typename T, typename From>
  Result<std::unique_ptr<CpuStep>> BindTyped(const Shape& shape, const char* name, From replaced) const {
    const std::span<const From> given = ListAttribute<From>(node_, name);
    const int64_t features = shape.rank() == 0 ? 1 : shape.back();
    if (given.empty() || (given.size() > 1 && static_cast<int64_t>(given.size()) != features)) {
      return InvalidArgument(std::string(name) + " has " + std::to_string(given.size()) + " values; 1 or " +
                             std::to_string(features) + ", one per feature, are needed");
    }
    for (const From v : given) {
      if constexpr (std::is_same_v<T, int32_t>) {
        if (v != static_cast<int32_t>(v)) return InvalidArgument(std::to_string(v) + " does not fit element type i32");
      }
    }
    if (shape.num_elements() == 0) return NothingToDo();
    std::vector<T> imputed(static_cast<size_t>(features));
    for (size_t i = 0; i < imputed.size(); ++i) imputed[i] = static_cast<T>(given[given.size() == 1 ? 0 : i]);
    bool of_nan = false, matches = true;
    if constexpr (std::is_floating_point_v<T>) of_nan = std::isnan(replaced);
    if constexpr (std::is_same_v<T, int32_t>) matches = replaced == static_cast<int32_t>(replaced);
    const T wanted = static_cast<T>(replaced);
    return MakeStep([=, imputed = std::move(imputed)](const StepContext& c) {
      return ForItems(c, shape.num_elements() / features, features, kCheapGrain, [&](int64_t row) {
        const T* x = static_cast<const T*>(c.inputs[0]) + row * features;
        T* y = static_cast<T*>(c.outputs[0]) + row * features;
        for (int64_t i = 0; i < features; ++i) {
          const bool missing = (matches & (x[i] == wanted)) | (of_nan & (x[i] != x[i]));
          y[i] = missing ? imputed[static_cast<size_t>(i)] : x[i];
        }
      });
    });
  }
  const Node& node_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64, DType::kI64, DType::kI32});
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new ImputerKernel(node));
}

constexpr CpuOp kOps[] = {{"ai.onnx.ml", "Imputer", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsImputer = kOps;

}  // namespace quern::cpu
