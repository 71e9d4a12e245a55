// Winograd convolution: transformed weights, blocks of tiles, products by component, epilogues.
#include "kernels/winograd.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/aligned_buffer.h"
#include "kernels/conv_cost.h"
#include "kernels/packed_key.h"
#include "ukernel/pack.h"
#include "ukernel/vector.h"

namespace quern::kernels {
namespace {

using ukernel::CeilDiv;
using ukernel::kMostWinogradComponents;
using ukernel::kMostWinogradTile;
using ukernel::RoundUp;
using ukernel::WinogradComponents;
using ukernel::WinogradPatch;

// What a form costs.
struct Form {
  size_t tile;
  // Cycles per tile and vector of channels, measured from L2: of 2 x 2 outputs 16 loads, 32 additions and 16 stores; 16
  // loads, 24 additions, 4 stores and the epilogue's pass over these.
  double input_cycles, output_cycles;
  double tile_cycles;  // where the pixels of a tile and its patch are
  // The channels come in so many equal parts, which are summed one by one, and there are at least so many: otherwise
  // the error can be above that of a sequential sum over all taps (one sum of 3 x 3 outputs has up to 1.3 times as
  // much). The last is for transforms whose multiply-adds round twice.
  size_t sums, least_channels, least_unfused;
};
constexpr Form kForms[] = {{2, 48, 44, 250, 1, 1, 1}, {3, 100, 110, 350, 2, 64, 128}};
// Of a vector that has fewer channels than any, per tile; to begin a block's product.
constexpr double kPartCycles = 300, kProductCycles = 500;
const Form& FormOf(size_t tile) { return kForms[tile - kForms[0].tile]; }
constexpr size_t kLineFloats = 16;  // of a cache line
constexpr size_t kMostTilePixels = kMostWinogradTile * kMostWinogradTile;
constexpr size_t kLeastTiles = 32, kMostTiles = 96;  // of a block that has more after it
// Weights of so many times L2, which each block reads, are not asked for ahead of products that are short.
constexpr size_t kNearL2 = 2;
// Multiply-adds of a block that three regions of threads are worth: about 60 us of one core.
constexpr double kTogetherOperations = 5e6;
// Of weights that are transformed before they are packed.
constexpr size_t kDerivedBytes = size_t{2} << 20;
// Of smaller images, many windows lie at the borders, where a sequential sum is over fewer taps and has less error.
constexpr size_t kSmallSide = 14;

// Element `tap` (of 3 x 3) of output channel o and input channel i.
float WeightAt(const ConvWeights& w, size_t o, size_t i, size_t tap) {
  float value;
  std::memcpy(&value,
              static_cast<const char*>(w.data) + static_cast<ptrdiff_t>(o) * w.o_stride +
                  static_cast<ptrdiff_t>(i) * w.i_stride + static_cast<ptrdiff_t>(tap / 3) * w.h_stride +
                  static_cast<ptrdiff_t>(tap % 3) * w.w_stride,
              sizeof value);
  return value;
}

// The components of the kernels of output channel o and of `count` input channels from i on, each `stride` floats after
// the one before.
void TransformWeights(const ConvWeights& w, size_t tile, size_t o, size_t i, size_t count, float* to, size_t stride) {
  using ukernel::kWinogradKernels;
  for (size_t at = 0; at < count; at += kWinogradKernels) {
    const size_t some = std::min(kWinogradKernels, count - at);
    ukernel::WinogradKernels taps[9] = {}, components[kMostWinogradComponents];
    for (size_t k = 0; k < some; ++k) {
      for (size_t t = 0; t < 9; ++t) taps[t][k] = static_cast<double>(WeightAt(w, o, i + at + k, t));
    }
    ukernel::TransformWinogradWeights(tile, taps, components);
    for (size_t x = 0; x < WinogradComponents(tile); ++x) {
      for (size_t k = 0; k < some; ++k) to[x * stride + at + k] = static_cast<float>(components[x][k]);
    }
  }
}

// No component is more than nine times the largest weight.
bool HaveFiniteComponents(const ConvProblem& p, const ConvWeights& w) {
  constexpr float kMost = std::numeric_limits<float>::max() / 9;
  bool all = true;
  for (size_t o = 0; o < p.out_channels; ++o) {
    for (size_t i = 0; i < p.in_channels; ++i) {
      for (size_t t = 0; t < 9; ++t) all &= std::fabs(WeightAt(w, o, i, t)) <= kMost;
    }
  }
  return all;
}

std::string CannotServe(const ConvProblem& p, const ConvWeights& w) {
  if (p.kernel_d != 1 || p.kernel_h != 3 || p.kernel_w != 3) return "a kernel that is not 3 x 3";
  if (p.stride_d != 1 || p.stride_h != 1 || p.stride_w != 1) return "strides";
  if (p.pad_front != 0 || p.pad_back != 0) return "slices of padding";
  if (p.groups != 1) return "groups";
  if (p.lhs != Format::kF32 || p.rhs != Format::kF32) return "types other than float32";
  if (!w.data) return "weights that come with the run";
  return {};
}

// Along a side of so many pixels, of which a dilation makes several interleaved images.
size_t TilesAlong(size_t pixels, size_t dilation, size_t tile) {
  return dilation * CeilDiv(CeilDiv(pixels, dilation), tile);
}

// Of a square image.
size_t ExpectedSide(const ConvProblem& p) {
  return static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(ExpectedPixels(p)))));
}
size_t ExpectedTiles(const ConvProblem& p, size_t tile) {
  const size_t side = ExpectedSide(p);
  return TilesAlong(side, p.dilation_h, tile) * TilesAlong(side, p.dilation_w, tile);
}

// Cycles by a form; 0 without a row for its products.
double FormCycles(const ConvProblem& p, const SelectOptions& options, const Form& form) {
  const size_t tiles = ExpectedTiles(p, form.tile), components = WinogradComponents(form.tile);
  const double part = ProductCycles(ProductOf(p, tiles, p.in_channels / form.sums), options);
  if (part == 0) return 0;
  // Fewer channels than lanes are taken in shorter vectors.
  const auto transform = [&](size_t channels, double cycles) {
    size_t lanes = ukernel::SelectWinogradRow(options.cpu)->lanes;
    while (lanes > 4 && channels < lanes) lanes /= 2;
    return static_cast<double>(CeilDiv(channels, lanes)) * cycles + (channels % 4 ? kPartCycles : 0);
  };
  const double transforms =
      static_cast<double>(tiles) *
      (form.tile_cycles + transform(p.in_channels, form.input_cycles) + transform(p.out_channels, form.output_cycles));
  const auto products = static_cast<double>(components * form.sums);
  const auto blocks = static_cast<double>(CeilDiv(tiles, kMostTiles));
  return WithWeights(products * (part + blocks * kProductCycles) + transforms, components, p, options);
}

// The form that is expected to be the fastest, and its cycles; 0 without a row for its products.
struct FormChoice {
  size_t tile = 2;
  double cycles = 0;
};
FormChoice ChooseForm(const ConvProblem& p, const SelectOptions& options) {
  FormChoice best;
  for (const Form& form : kForms) {
    const size_t least = WinogradConv::LeastChannels(form.tile, ExpectedSide(p), options.cpu);
    if (p.in_channels % form.sums != 0 || p.in_channels < least) continue;
    const double cycles = FormCycles(p, options, form);
    if (cycles != 0 && (best.cycles == 0 || cycles < best.cycles)) best = {form.tile, cycles};
  }
  return best;
}

// Rows whose distance is a multiple of the page size would fall into few sets of the caches.
size_t RowFloats(size_t channels) {
  const size_t floats = RoundUp(channels, kLineFloats);
  return floats % 1024 == 0 ? floats + kLineFloats : floats;
}

// An odd number of cache lines: the components of a tile, which are stored and loaded together, fall into different
// sets.
size_t ComponentFloats(size_t floats) { return (CeilDiv(floats, kLineFloats) | 1) * kLineFloats; }

// Tile `index` of an image: its first output pixel. Tiles of the interleaved images that a dilation makes take turns,
// so that those of a line, and each `dilation_w` of them, are of neighbouring pixels.
struct TilePlace {
  size_t y, x;
};
TilePlace PlaceOf(const WinogradPlan& p, const ConvProblem& c, size_t index) {
  const size_t in_line = p.tiles_w * c.dilation_w, line = index / in_line, along = index % in_line;
  return {line % c.dilation_h + line / c.dilation_h * p.tile * c.dilation_h,
          along % c.dilation_w + along / c.dilation_w * p.tile * c.dilation_w};
}

// Runs the blocks of an image; here each slice of a volume is an image of its own.
class WinogradRun {
 public:
  WinogradRun(const ConvProblem& problem, const ukernel::WinogradKernel& row, const PackedRhs& weights,
              const WinogradPlan& plan, const ConvArgs& args, const RunResources& resources)
      : c_(problem),
        weights_(weights),
        p_(plan),
        transforms_(row.OfTile(plan.tile)),
        components_(WinogradComponents(plan.tile)),
        a_(args),
        r_(resources) {}

  void Run(size_t image, size_t block, size_t slot) const {
    char* area = static_cast<char*>(r_.workspace) + p_.area_offset + slot * p_.area_stride;
    auto* input = reinterpret_cast<float*>(area + p_.input_offset);
    auto* output = reinterpret_cast<float*>(area + p_.output_offset);
    const size_t first = block * p_.block_tiles, count = std::min(p_.block_tiles, p_.tiles - first);
    TransformInput(image, first, count, input);
    for (size_t i = 0; i < components_; ++i) Multiply(i, count, input, output, area + p_.core_offset);
    TransformOutput(image, first, count, output);
  }

  // The same by all slots together.
  Status RunTogether(size_t image, size_t block) const {
    char* area = static_cast<char*>(r_.workspace) + p_.area_offset;
    auto* input = reinterpret_cast<float*>(area + p_.input_offset);
    auto* output = reinterpret_cast<float*>(area + p_.output_offset);
    const size_t first = block * p_.block_tiles, count = std::min(p_.block_tiles, p_.tiles - first);
    const size_t share = RoundUp(CeilDiv(count, static_cast<size_t>(p_.slots)), c_.dilation_w);
    const auto region = [&](size_t total, size_t grain, Task task) {
      if (r_.counters) r_.counters->regions.fetch_add(1, std::memory_order_relaxed);
      return r_.executor->ParallelFor(static_cast<int64_t>(total), static_cast<int64_t>(grain), task, r_.cancel,
                                      p_.slots);
    };
    QUERN_RETURN_IF_ERROR(region(count, share, [&](int, int64_t begin, int64_t end) {
      const auto from = static_cast<size_t>(begin);
      TransformInput(image, first + from, static_cast<size_t>(end - begin), input + from * p_.input_stride);
    }));
    QUERN_RETURN_IF_ERROR(region(components_, 1, [&](int slot, int64_t begin, int64_t end) {
      char* core = area + p_.core_offset + static_cast<size_t>(slot) * p_.core_stride;
      for (int64_t i = begin; i < end; ++i) Multiply(static_cast<size_t>(i), count, input, output, core);
    }));
    return region(count, share, [&](int, int64_t begin, int64_t end) {
      const auto from = static_cast<size_t>(begin);
      TransformOutput(image, first + from, static_cast<size_t>(end - begin), output + from * p_.output_stride);
    });
  }

 private:
  // Component i of a block's products. The first of two parts goes to the core and is added to the second.
  void Multiply(size_t i, size_t count, const float* input, float* output, char* core) const {
    const GemmPlan& gemm = count == p_.block_tiles ? p_.gemm : p_.last_gemm;
    RunResources inner = r_;
    inner.executor = nullptr;
    inner.cancel = nullptr;
    inner.workspace = core + p_.part_bytes;
    inner.workspace_bytes = gemm.workspace_bytes;
    const EpilogueOp add{
        .kind = ukernel::EpilogueKind::kAddMatrix, .data = core, .row_stride = p_.output_stride * sizeof(float)};
    GemmOperands g;
    g.lhs = input + i * p_.input_component;
    g.lhs_row_stride = static_cast<ptrdiff_t>(p_.input_stride * sizeof(float));
    g.dst_row_stride = p_.output_stride * sizeof(float);
    for (size_t part = 0; part < p_.sums; ++part) {
      const size_t batch = i * p_.sums + part;
      g.rhs = weights_.data(batch);
      g.next_rhs = batch + 1 < components_ * p_.sums ? weights_.data(batch + 1) : nullptr;
      g.dst = part + 1 < p_.sums ? reinterpret_cast<float*>(core) : output + i * p_.output_component;
      g.ops = &add;
      g.op_count = part;
      // Nothing can fail here: sizes were checked, and there is no executor to be cancelled.
      (void)RunGemm(gemm, g, inner).ok();
      g.lhs = static_cast<const float*>(g.lhs) + gemm.k;
    }
  }

  void TransformInput(size_t image, size_t first, size_t count, float* to) const {
    const auto* zeros = reinterpret_cast<const float*>(static_cast<const char*>(r_.workspace) + p_.zero_row_offset);
    for (size_t t = 0; t < count; ++t) {
      const TilePlace at = PlaceOf(p_, c_, first + t);
      const float* pixels[kMostWinogradComponents];
      for (size_t r = 0, i = 0; r < WinogradPatch(p_.tile); ++r) {
        for (size_t s = 0; s < WinogradPatch(p_.tile); ++s, ++i) {
          const float* pixel = InputAt(image, at.y + r * c_.dilation_h, at.x + s * c_.dilation_w);
          pixels[i] = pixel ? pixel : zeros;
        }
      }
      transforms_.input(
          {.pixels = pixels, .channels = c_.in_channels, .to = to + t * p_.input_stride, .stride = p_.input_component});
    }
  }

  void TransformOutput(size_t image, size_t first, size_t count, const float* from) const {
    const size_t volume = image / p_.slices, before = image % p_.slices * p_.out_h * p_.out_w;
    EpilogueOp ops[ukernel::kMaxEpilogueOps];
    for (size_t i = 0; i < a_.op_count; ++i) ops[i] = OpOfImage(a_, i, volume);
    char* base = static_cast<char*>(a_.dst) + static_cast<ptrdiff_t>(volume) * a_.dst_image_stride +
                 static_cast<ptrdiff_t>(before) * a_.dst_pixel_stride;
    const auto pixel = [&](size_t y, size_t x) {
      return base + static_cast<ptrdiff_t>(y * p_.out_w + x) * a_.dst_pixel_stride;
    };
    TilePlace begin{};  // of the tiles of a line, whose pixels lie side by side
    size_t run = 0;     // how many they are
    const auto finish = [&] {
      if (a_.op_count == 0 || begin.x >= p_.out_w) return;
      for (size_t y = begin.y; y < p_.out_h && y < begin.y + p_.tile * c_.dilation_h; y += c_.dilation_h) {
        p_.epilogue(ops, a_.op_count,
                    {.m = std::min(run * p_.tile, p_.out_w - begin.x),
                     .n = c_.out_channels,
                     .m0 = before + y * p_.out_w + begin.x,
                     .n0 = 0,
                     .src = pixel(y, begin.x),
                     .src_row_stride = static_cast<size_t>(a_.dst_pixel_stride),
                     .src_format = Format::kF32,
                     .dst = pixel(y, begin.x),
                     .dst_row_stride = static_cast<size_t>(a_.dst_pixel_stride)});
      }
    };
    for (size_t t = 0; t < count; ++t) {
      const TilePlace at = PlaceOf(p_, c_, first + t);
      float* pixels[kMostTilePixels];
      for (size_t r = 0, i = 0; r < p_.tile; ++r) {
        for (size_t s = 0; s < p_.tile; ++s, ++i) {
          const size_t y = at.y + r * c_.dilation_h, x = at.x + s * c_.dilation_w;
          pixels[i] = y < p_.out_h && x < p_.out_w ? reinterpret_cast<float*>(pixel(y, x)) : nullptr;
        }
      }
      const bool finite = transforms_.output({.from = from + t * p_.output_stride,
                                              .stride = p_.output_component,
                                              .channels = c_.out_channels,
                                              .pixels = pixels});
      if (!finite) ComputeDirectly(image, at, pixels);
      if (run > 0 && at.y == begin.y) {
        ++run;
        continue;
      }
      if (run > 0) finish();
      begin = at;
      run = 1;
    }
    if (run > 0) finish();
  }

  // The pixel of the input at (y, x) of the padded image; null in the padding.
  const float* InputAt(size_t image, size_t y, size_t x) const {
    y -= c_.pad_top;  // wraps above the image
    x -= c_.pad_left;
    if (y >= a_.in_h || x >= a_.in_w) return nullptr;
    const size_t line = image % p_.slices * a_.in_h + y;
    return reinterpret_cast<const float*>(
        static_cast<const char*>(a_.input) + static_cast<ptrdiff_t>(image / p_.slices) * a_.in_image_stride +
        static_cast<ptrdiff_t>(line) * a_.in_row_stride + static_cast<ptrdiff_t>(x) * a_.in_pixel_stride);
  }

  // The outputs of a tile with infinities, or with sums that overflow only on Winograd's way. Slow: it is rare.
  void ComputeDirectly(size_t image, const TilePlace& at, float* const* pixels) const {
    const float* taps[kMostTilePixels][9];  // null in the padding
    bool nan[kMostTilePixels] = {};
    const size_t count = p_.tile * p_.tile;
    for (size_t p = 0; p < count; ++p) {
      const size_t y = at.y + p / p_.tile * c_.dilation_h, x = at.x + p % p_.tile * c_.dilation_w;
      for (size_t t = 0; t < 9; ++t) {
        taps[p][t] = InputAt(image, y + t / 3 * c_.dilation_h, x + t % 3 * c_.dilation_w);
        for (size_t i = 0; taps[p][t] && i < c_.in_channels; ++i) nan[p] |= std::isnan(taps[p][t][i]);
      }
    }
    for (size_t o = 0; o < c_.out_channels; ++o) {
      double sums[kMostTilePixels] = {};
      for (size_t i = 0; i < c_.in_channels; ++i) {
        double components[kMostWinogradComponents], weights[9];
        for (size_t x = 0; x < components_; ++x) {
          const std::byte* part = weights_.data(x * p_.sums + i / p_.gemm.k);
          components[x] = static_cast<double>(
              ukernel::UnpackRhsElement(weights_.layout(), weights_.shape(), part, i % p_.gemm.k, o));
        }
        ukernel::RestoreWinogradWeights(p_.tile, components, weights);
        for (size_t p = 0; p < count; ++p) {
          if (!pixels[p] || nan[p]) continue;
          for (size_t t = 0; t < 9; ++t) {
            if (taps[p][t]) sums[p] += static_cast<double>(taps[p][t][i]) * weights[t];
          }
        }
      }
      for (size_t p = 0; p < count; ++p) {
        if (pixels[p]) pixels[p][o] = nan[p] ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(sums[p]);
      }
    }
  }

  const ConvProblem& c_;
  const PackedRhs& weights_;
  const WinogradPlan& p_;
  const ukernel::WinogradTransforms& transforms_;
  const size_t components_;
  const ConvArgs& a_;
  const RunResources& r_;
};

}  // namespace

double WinogradConv::Cycles(const ConvProblem& problem, const SelectOptions& options) {
  return ChooseForm(problem, options).cycles;
}

std::string WinogradConv::RejectionReason(const ConvProblem& problem, const SelectOptions& options,
                                          const ConvWeights& weights) {
  if (options.cpu.IsDisabled(KernelGroup::kWinograd)) return "winograd is switched off";
  if (std::string why = CannotServe(problem, weights); !why.empty()) return why;
  const double cost = Cycles(problem, options), direct = DirectCycles(problem, options);
  if (direct == 0 || cost == 0) return "no row for its products";
  if (cost >= kWorthwhileShare * direct) return CostReason(cost, direct) + ", the direct algorithm";
  // Last, as it reads all weights.
  return HaveFiniteComponents(problem, weights) ? std::string() : "weights whose sums are no finite numbers";
}

size_t WinogradConv::LeastChannels(size_t tile, size_t side, const CpuFacts& cpu) {
  const Form& form = FormOf(tile);
  const size_t least = ukernel::SelectWinogradRow(cpu)->fused ? form.least_channels : form.least_unfused;
  return side < kSmallSide ? 2 * least : least;
}

size_t WinogradConv::TileFor(const ConvProblem& problem, const SelectOptions& options) {
  return ChooseForm(problem, options).tile;
}

Result<WinogradConv> WinogradConv::Create(const ConvProblem& problem, const SelectOptions& options,
                                          const ConvWeights& weights, const Packing& packing, size_t tile) {
  if (const std::string why = CannotServe(problem, weights); !why.empty())
    return InvalidArgument("Winograd convolution: " + why);
  if (tile == 0) tile = TileFor(problem, options);
  const size_t sums = FormOf(tile).sums;
  if (problem.in_channels % sums != 0) return InvalidArgument("Winograd convolution: an odd number of channels");
  WinogradConv c;
  c.problem_ = problem;
  c.tile_ = tile;
  c.cpu_ = options.cpu;
  c.row_ = ukernel::SelectWinogradRow(options.cpu);
  c.gemm_ = ProductOf(problem, ExpectedTiles(problem, tile), problem.in_channels / sums);
  QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(c.gemm_, options));
  c.eligible_ = EligibleRows(c.gemm_, options, layout);
  const auto element = static_cast<ptrdiff_t>(sizeof(float));
  const size_t n = problem.out_channels, k = problem.in_channels, part = c.gemm_.k;
  const size_t batches = WinogradComponents(tile) * sums;  // a component's parts follow each other
  AlignedBuffer components;  // of some output channels: [batch][output channel][input channel of the part]
  const auto derive = [&](size_t n0, size_t n1) -> Result<PackedRhs::Columns> {
    const size_t columns = n1 - n0, batch = columns * part;
    if (const size_t bytes = batches * batch * sizeof(float); components.size_bytes() < bytes) {
      QUERN_ASSIGN_OR_RETURN(components, AlignedBuffer::Allocate(bytes));
    }
    auto* to = components.as<float>();
    const auto transform = [&](int, int64_t begin, int64_t end) {
      for (auto o = static_cast<size_t>(begin); o < static_cast<size_t>(end); ++o) {
        for (size_t p = 0; p < sums; ++p) {
          TransformWeights(weights, tile, n0 + o, p * part, part, to + p * batch + o * part, sums * batch);
        }
      }
    };
    QUERN_RETURN_IF_ERROR(packing.executor.ParallelFor(static_cast<int64_t>(columns), 8, transform, nullptr));
    const auto n_stride = static_cast<ptrdiff_t>(part * sizeof(float));
    return PackedRhs::Columns{
        .source = {.format = Format::kF32,
                   .data = reinterpret_cast<const char*>(to) - static_cast<ptrdiff_t>(n0) * n_stride,
                   .k_stride = element,
                   .n_stride = n_stride},
        .batch_stride = static_cast<ptrdiff_t>(batch) * element};
  };
  std::optional<ContentKey> key;
  if (packing.store != nullptr) {
    ContentHash hash = StartPackedKey(packing, layout.layout, RhsShapeOf(c.gemm_, layout.vector_bytes), batches);
    hash.AddText("winograd");
    const StridedExtent extents[] = {
        {n, weights.o_stride}, {k, weights.i_stride}, {3, weights.h_stride}, {3, weights.w_stride}};
    if (AddStrided(hash, weights.data, sizeof(float), extents, packing)) key = hash.Finish();
  }
  QUERN_ASSIGN_OR_RETURN(
      c.weights_, PackedRhs::PackDerived(c.gemm_, layout, key, derive, packing, options.cpu, batches, kDerivedBytes));
  return c;
}

const GemmKernel* WinogradConv::GemmRowFor(size_t pixels) const {
  return SelectRow(eligible_, gemm_, cpu_, weights_.layout(), TilesOf(pixels));
}

std::string WinogradConv::Saving() const {
  const std::string side = std::to_string(tile_);
  return std::to_string(WinogradComponents(tile_)) + " products instead of " + std::to_string(9 * tile_ * tile_) +
         " for " + side + " x " + side + " outputs";
}

WinogradPlan WinogradConv::Plan(const ConvArgs& args, int concurrency) const {
  WinogradPlan p;
  const ConvProblem& c = problem_;
  const size_t components = WinogradComponents(tile_);
  p.tile = tile_;
  p.sums = FormOf(tile_).sums;
  p.slices = args.in_d;
  const size_t images = args.images * p.slices;
  p.out_h = OutExtent(args.in_h, c.pad_top, c.pad_bottom, 3, c.dilation_h, 1);
  p.out_w = OutExtent(args.in_w, c.pad_left, c.pad_right, 3, c.dilation_w, 1);
  p.tiles_h = TilesAlong(p.out_h, c.dilation_h, tile_) / c.dilation_h;
  p.tiles_w = TilesAlong(p.out_w, c.dilation_w, tile_) / c.dilation_w;
  p.tiles = c.dilation_h * c.dilation_w * p.tiles_h * p.tiles_w;
  p.input_stride = RowFloats(c.in_channels);
  p.output_stride = RowFloats(c.out_channels);
  p.epilogue = ukernel::SelectVectorRow(cpu_)->epilogue;
  if (p.tiles == 0) return p;
  // Components of both sides lie in L2, where that are not so few tiles that most of the time goes into reading the
  // weights, which each block does. Blocks are the same for every number of threads, as the results' bits depend on
  // them, and short enough that there are several of most images.
  const size_t tile_bytes = components * (p.input_stride + p.output_stride) * sizeof(float);
  const size_t most = std::clamp(cpu_.l2_bytes / tile_bytes, kLeastTiles, kMostTiles);
  p.blocks = CeilDiv(p.tiles, most);
  if (p.blocks > 1) p.blocks = RoundUp(p.blocks, size_t{2});  // the last round has work for two threads
  p.block_tiles = RoundUp(CeilDiv(p.tiles, p.blocks), c.dilation_w);
  p.blocks = CeilDiv(p.tiles, p.block_tiles);
  const bool reduces =
      std::any_of(args.ops, args.ops + args.op_count, [](const EpilogueOp& op) { return IsReduction(op.kind); });
  concurrency = RowConcurrency(*SelectRow(eligible_, gemm_, cpu_, weights_.layout(), p.block_tiles), cpu_, concurrency);
  const auto threads = static_cast<size_t>(reduces ? 1 : std::max(concurrency, 1));
  const double operations = static_cast<double>(components * p.tiles) * static_cast<double>(c.in_channels) *
                            static_cast<double>(c.out_channels);
  p.together = p.blocks * images < threads && operations > kTogetherOperations;
  p.slots = static_cast<int>(std::min(threads, p.together ? components : std::max<size_t>(1, p.blocks * images)));
  // The first part of a component's channels is added to the second.
  const EpilogueOp add{.kind = ukernel::EpilogueKind::kAddMatrix, .row_stride = p.output_stride * sizeof(float)};
  const auto plan = [&](size_t m) {
    const GemmKernel& row = *SelectRow(eligible_, gemm_, cpu_, weights_.layout(), m);
    return PlanGemm(gemm_, cpu_, weights_.choice(), row, nullptr,
                    {.m = m,
                     .rhs_near = weights_.packed_bytes() <= kNearL2 * cpu_.l2_bytes,
                     .ops = &add,
                     .op_count = p.sums > 1 ? 1u : 0u},
                    1);
  };
  p.gemm = plan(p.block_tiles);
  p.last_gemm = plan(p.tiles - (p.blocks - 1) * p.block_tiles);
  size_t at = 0;
  const auto take = [&](size_t bytes) {
    const size_t begin = at;
    at = RoundUp(at + bytes, ukernel::kPackAlignment);
    return begin;
  };
  p.zero_row_offset = take(c.in_channels * sizeof(float));
  p.area_offset = at;
  at = 0;
  p.input_component = ComponentFloats(p.block_tiles * p.input_stride);
  p.output_component = ComponentFloats(p.block_tiles * p.output_stride);
  p.input_offset = take(components * p.input_component * sizeof(float));
  p.output_offset = take(components * p.output_component * sizeof(float));
  p.part_bytes = p.sums > 1 ? RoundUp(p.block_tiles * p.output_stride * sizeof(float), ukernel::kPackAlignment) : 0;
  p.core_stride =
      p.part_bytes + RoundUp(std::max(p.gemm.workspace_bytes, p.last_gemm.workspace_bytes), ukernel::kPackAlignment);
  p.core_offset = take(p.core_stride * static_cast<size_t>(p.together ? p.slots : 1));
  p.area_stride = RoundUp(at, 4096) + ukernel::kPackAlignment;
  p.workspace_bytes = p.area_offset + p.area_stride * static_cast<size_t>(p.together ? 1 : p.slots);
  return p;
}

Status WinogradConv::Run(const WinogradPlan& plan, const ConvArgs& args, const RunResources& resources) const {
  if (resources.workspace_bytes < plan.workspace_bytes) {
    return InvalidArgument("the workspace has " + std::to_string(resources.workspace_bytes) +
                           " bytes, the plan needs " + std::to_string(plan.workspace_bytes));
  }
  if (plan.tiles == 0 || args.images * plan.slices == 0) return OkStatus();
  std::memset(static_cast<char*>(resources.workspace) + plan.zero_row_offset, 0, problem_.in_channels * sizeof(float));
  const WinogradRun run(problem_, *row_, weights_, plan, args, resources);
  const size_t items = plan.blocks * args.images * plan.slices;
  if (plan.together) {
    for (size_t i = 0; i < items; ++i) QUERN_RETURN_IF_ERROR(run.RunTogether(i / plan.blocks, i % plan.blocks));
    return OkStatus();
  }
  return ForEachBySlot(resources, plan.slots, items, 1, [&](size_t slot, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) run.Run(i / plan.blocks, i % plan.blocks, slot);
  });
}

}  // namespace quern::kernels
