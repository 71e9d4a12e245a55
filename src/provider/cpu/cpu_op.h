// How the CPU provider computes a node: CpuOp (claim, compile) -> CpuKernel (any shapes) -> CpuStep (one set of
// shapes). One file of provider/cpu/ops/ defines one operator or one family; the table is generated from the file
// names.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "graph/graph.h"
#include "kernels/packed_store.h"
#include "kernels/select.h"
#include "ops/op.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "tensor/tensor.h"

namespace quern::kernels {
class CalibratedRows;
class RunTimeDrivers;
}  // namespace quern::kernels

namespace quern::cpu {

// Domain of the operators that only this provider's own passes make (fused and NHWC forms).
inline constexpr char kCpuDomain[] = "quern.cpu";

// What the provider was made for.
struct CpuConfig {
  CpuInfo cpu;
  std::string precision = "fp32";                                        // "fp32", "fp32-fast", "bf16"
  kernels::RowTable gemm_rows = ukernel::AllGemmKernels();               // tests put rows of their own
  std::shared_ptr<const kernels::CalibratedRows> calibration = nullptr;  // holds gemm_rows where they are measured
  Limits limits = {};                                                    // of the session
  std::shared_ptr<kernels::PackedStore> packed_store = nullptr;  // of weights that were packed before; may be null
  std::shared_ptr<kernels::RunTimeDrivers> run_time_drivers = nullptr;  // of the provider; null: none are kept
  std::set<std::string> skip_passes = {};                               // names of passes to leave out
  bool serial_branches = false;                                         // steps run one after another, always
  bool keep_denormals = false;                                          // where products are summed too
};

// An operand as a plan knows it.
struct TensorSpec {
  DType dtype = DType::kUndefined;  // kUndefined: omitted
  Shape shape;
  Shape strides;  // elements
  bool contiguous = true;
  const Tensor* constant = nullptr;  // content of a constant, alive as long as the kernel; else null
  bool present() const { return dtype != DType::kUndefined; }
  bool operator==(const TensorSpec&) const = default;
};

// Where outputs may lie instead of memory of their own; asked once shapes are known, before memory is planned.
struct Placement {
  // Output `output` is the memory of input `input` seen with other shape or strides: nothing is computed when every
  // output is a view. Strides in elements; the plan falls back to a copy (Bind with separate memory) where a reader
  // or the graph's border needs contiguous memory and the view is not.
  struct View {
    int output, input;
    int64_t offset = 0;  // elements from the input's first
    Shape strides;
  };
  std::vector<View> views;  // at most one of an output
  // The other way round: input `input` stands in output 0 as it is, from this element of it on and with its strides.
  // What computes the input may write it there; Bind then finds both at one place, and the run skips the copy.
  struct Part {
    int input;
    int64_t offset = 0;
  };
  std::vector<Part> parts;
  // Output 0 may overwrite one of these inputs (same bytes, read elementwise before written at the same index), be it
  // given at several of these places.
  std::vector<int> in_place_inputs;

  const View* ViewOf(int output) const {
    for (const View& v : views) {
      if (v.output == output) return &v;
    }
    return nullptr;
  }
};

// For `quern inspect` and the facts.
struct KernelDescription {
  std::string kernel;  // name from the descriptor whose run is called, or "copy", "view", "add (f32)"
  std::string why;     // one line on the choice
  std::vector<std::pair<std::string, std::string>> rejected;  // row -> reason
  std::string layout;                                         // resident layout of the weights
  size_t packed_bytes = 0;
};

// The run of one step. Pointers to inputs and outputs are at their first element.
struct StepContext {
  std::span<void* const> inputs;  // null: omitted
  std::span<void* const> outputs;
  void* scratch = nullptr;       // scratch_bytes() of the step, 64-byte aligned
  Executor* executor = nullptr;  // at most `concurrency` slots
  const CancelToken* cancel = nullptr;
};

// A node bound to shapes. Immutable: several threads may run it at once, each with its own memory. Run allocates
// nothing.
class CpuStep {
 public:
  virtual ~CpuStep() = default;
  virtual Status Run(const StepContext& context) const = 0;
  virtual size_t scratch_bytes() const { return 0; }
  // What runs for these shapes, for reports; an empty `kernel` means the CpuKernel's own description holds.
  virtual KernelDescription Describe() const { return {}; }
};

struct BindContext {
  std::span<const TensorSpec> inputs;  // as many as the node lists; its operator may have more
  std::span<const TensorSpec> outputs;
  int concurrency = 1;

  // Whether the operand is there; none has a negative index.
  bool has_input(int i) const { return i >= 0 && i < static_cast<int>(inputs.size()) && inputs[i].present(); }
  bool has_output(int i) const { return i >= 0 && i < static_cast<int>(outputs.size()) && outputs[i].present(); }
};

// A compiled node: holds packed weights and attributes, knows no shapes.
class CpuKernel {
 public:
  virtual ~CpuKernel() = default;
  virtual Placement Place(const BindContext&) const { return {}; }
  virtual Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const = 0;
  virtual KernelDescription Describe() const = 0;
  // Bit i: input i may be strided in any way (else the plan hands contiguous memory). Likewise outputs.
  virtual uint64_t strided_inputs() const { return 0; }
  virtual uint64_t strided_outputs() const { return 0; }
  // Whether operand i of this shape may lie in memory of these strides, which then holds for smaller extents in the
  // same memory too; else the plan has it copied.
  virtual bool TakesInputStrides(size_t i, const Shape& /*shape*/, const Shape& /*strides*/) const {
    return i < 64 && (strided_inputs() >> i & 1) != 0;
  }
  virtual bool TakesOutputStrides(size_t i, const Shape& /*shape*/, const Shape& /*strides*/) const {
    return i < 64 && (strided_outputs() >> i & 1) != 0;
  }
  // Whether a strided input 0 is of use only where output 0 is a view of it that goes on to readers which take strides.
  // Else each such node would copy what one node before them copies.
  virtual bool only_shows() const { return false; }
  // Whether Place may name parts; asked first, as few kernels do.
  virtual bool has_parts() const { return false; }
  // Bit i: input i is only looked at when planning (shapes, axes): its memory may be missing at run time.
  virtual uint64_t plan_time_inputs() const { return 0; }
  // Bit i: input i may be unaligned for its type (a constant of a file): it is only copied from. At large tables, so
  // that they stay in the file.
  virtual uint64_t unaligned_inputs() const { return 0; }
  // Whether it sums products: denormal numbers count as 0 there (not those of float64) unless the config keeps them.
  // They come of gates that are shut and the like, and count only in sums that are of the order of 1e-38 themselves.
  virtual bool sums_products() const { return false; }
  // Bit i: input i, a constant, was packed when the node was compiled: neither plans nor runs look at it.
  virtual uint64_t packed_inputs() const { return 0; }
};

struct CompileContext {
  const CpuConfig* config = nullptr;
  Executor* executor = nullptr;  // for packing; never null
  const Graph* graph = nullptr;  // whose mapped files are read

  kernels::Packing packing() const {
    return {*executor, config->packed_store.get(), [g = graph] { g->DropFilePages(); }};
  }
};

// CpuOp::planned_inputs of operators whose first input is data and whose others are sizes, axes, indices.
inline constexpr uint32_t kAllButData = ~uint32_t{1};

struct CpuOp {
  const char* domain;
  const char* op_type;
  // Empty when this provider computes the node, else the reason ("type f64", "4-D pooling").
  std::string (*reject)(const Node& node, const CpuConfig& config);
  Result<std::unique_ptr<CpuKernel>> (*compile)(const Node& node, const CompileContext& context);
  // Bit i: input i decides the output's shape or meaning, so its content must be known when a run is planned (a
  // declared output shape does not make it known). Nodes for which it comes with the run are left to others.
  uint32_t planned_inputs = 0;
  // Shape inference, for operators of kCpuDomain only; null elsewhere.
  Status (*infer)(InferContext&) = nullptr;
};

// Every operator of this provider, from the generated table.
std::span<const std::span<const CpuOp>* const> AllCpuOps();
// Null when there is none.
const CpuOp* FindCpuOp(std::string_view domain, std::string_view op_type);

}  // namespace quern::cpu
