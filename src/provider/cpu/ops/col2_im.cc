// Col2Im: blocks of an image, one column each, added up where they overlap.
#include <algorithm>

#include "ops/common/dispatch.h"
#include "ops/common/elementwise.h"
#include "ops/common/indices.h"
#include "ops/common/window.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// Blocks over actual extents; lists have an entry for each dimension of the image.
struct Blocks {
  Shape image, block, counts, strides, dilations, pads;  // pads: at the beginning
  int64_t plane() const { return image.num_elements(); }
  int64_t columns() const { return block.num_elements() * counts.num_elements(); }  // elements of one plane's blocks
  // The first position of dimension d that element `tap` of a block takes, maybe outside of the image.
  int64_t First(int d, int64_t tap) const { return tap * dilations[d] - pads[d]; }
};

// Adds all blocks to one plane: for each element of a block, rows of blocks along the last dimension.
template <typename T>
void AddBlocks(const Blocks& b, const T* columns, T* plane) {
  const int last = b.image.rank() - 1;
  const int64_t step = b.strides[last], length = b.counts[last];
  const Shape strides = b.image.ContiguousStrides();
  const Shape outer(b.counts.span().first(static_cast<size_t>(last)));
  const int64_t rows = outer.num_elements();
  IndexCounter tap(b.block);
  for (int64_t k = b.block.num_elements(); k > 0; --k, tap.Next()) {
    // Blocks [begin, end) of a row have this element inside the image.
    const int64_t first = b.First(last, tap.index()[last]), past = b.image[last] - first;
    const int64_t begin = first >= 0 ? 0 : (step - 1 - first) / step;
    const int64_t end = past <= 0 ? 0 : std::min(length, (past + step - 1) / step);
    IndexCounter at(outer);
    for (int64_t r = 0; r < rows; ++r, at.Next(), columns += length) {
      int64_t offset = first;
      bool inside = true;
      for (int d = 0; d < last; ++d) {
        const int64_t i = at.index()[d] * b.strides[d] + b.First(d, tap.index()[d]);
        inside = inside && i >= 0 && i < b.image[d];
        offset += inside ? i * strides[d] : 0;
      }
      for (int64_t i = begin; inside && i < end; ++i) {
        plane[offset + i * step] = WrappingAdd(plane[offset + i * step], columns[i]);
      }
    }
  }
}

class Col2ImKernel final : public CpuKernel {
 public:
  explicit Col2ImKernel(const Node& node) : node_(node) {}
  uint64_t plan_time_inputs() const override { return 6; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& out = context.outputs[0].shape;
    if (!context.inputs[2].constant) return Unsupported("the block's shape is not known while planning");
    if (out.num_elements() == 0) return NothingToDo();
    QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> block, ToInt64s(*context.inputs[2].constant));
    const Dims image(out.begin() + 2, out.end());
    QUERN_ASSIGN_OR_RETURN(const Window w, ReadWindow(node_, out.rank() - 2, Dims(block.begin(), block.end())));
    QUERN_ASSIGN_OR_RETURN(const Dims counts, WindowOutput(node_, w, image));
    Blocks b{.image = Shape(out.span().subspan(2)),
             .block = Shape(block),
             .counts = {},
             .strides = Shape(w.strides),
             .dilations = Shape(w.dilations),
             .pads = Shape(w.pads_begin)};
    for (const Dim& d : counts) b.counts.push_back(d.value());
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(
        DispatchType(Types<float, double, int32_t, int64_t>{}, context.inputs[0].dtype, [&]<typename T>() {
          QUERN_ASSIGN_OR_RETURN(step, BindBlocks<T>(b, out[0] * out[1]));
          return OkStatus();
        }));
    return step;
  }
  KernelDescription Describe() const override { return Described("Col2Im", "plain loops by channel"); }

 private:
  template <typename T>
  static Result<std::unique_ptr<CpuStep>> BindBlocks(const Blocks& blocks, int64_t planes) {
    return MakeStep([=](const StepContext& c) {
      return ForItems(c, planes, blocks.plane() + blocks.columns(), kCostlyGrain, [&](int64_t p) {
        T* plane = static_cast<T*>(c.outputs[0]) + p * blocks.plane();
        std::fill_n(plane, blocks.plane(), T{0});
        AddBlocks(blocks, static_cast<const T*>(c.inputs[0]) + p * blocks.columns(), plane);
      });
    });
  }
  const Node& node_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64, DType::kI32, DType::kI64});
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new Col2ImKernel(node));
}

constexpr CpuOp kOps[] = {{"", "Col2Im", Reject, Compile, kAllButData}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsCol2Im = kOps;

}  // namespace quern::cpu
