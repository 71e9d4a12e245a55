// Convolution of ops.h: channels last as the drivers have it, channels first through the workspace.
#include <algorithm>

#include "api/ops.h"
#include "api/struct_size.h"
#include "api/value.h"
#include "ukernel/vector.h"

namespace quern::api {
namespace {

using kernels::ConvArgs;
using kernels::ConvProblem;

// Extents of the spatial dimensions in the order depth, height, width.
struct Extents {
  size_t d = 1, h = 1, w = 1;
  size_t pixels() const { return d * h * w; }
};
Extents ReadExtents(const size_t* given, int spatial) {
  Extents e;
  e.w = given[spatial - 1];
  if (spatial > 1) e.h = given[spatial - 2];
  if (spatial > 2) e.d = given[0];
  return e;
}

size_t OrOne(size_t x) { return x ? x : 1; }

Result<ConvProblem> ReadProblem(const quern_conv_spec& s, int spatial) {
  ConvProblem p;
  QUERN_ASSIGN_OR_RETURN(p.lhs, ReadFormat(s.input, "spec.input"));
  QUERN_ASSIGN_OR_RETURN(p.rhs, ReadFormat(s.filters, "spec.filters"));
  p.in_channels = s.in_channels;
  p.out_channels = s.out_channels;
  p.groups = OrOne(s.groups);
  const auto read = [&](const size_t(&list)[3], size_t& d, size_t& h, size_t& w) {
    w = OrOne(list[spatial - 1]);
    if (spatial > 1) h = OrOne(list[spatial - 2]);
    if (spatial > 2) d = OrOne(list[0]);
  };
  const auto read_pads = [&](const size_t(&list)[3], size_t& d, size_t& h, size_t& w) {
    w = list[spatial - 1];
    if (spatial > 1) h = list[spatial - 2];
    if (spatial > 2) d = list[0];
  };
  read(s.kernel, p.kernel_d, p.kernel_h, p.kernel_w);
  read(s.stride, p.stride_d, p.stride_h, p.stride_w);
  read(s.dilation, p.dilation_d, p.dilation_h, p.dilation_w);
  read_pads(s.pad_begin, p.pad_front, p.pad_top, p.pad_left);
  read_pads(s.pad_end, p.pad_back, p.pad_bottom, p.pad_right);
  p.expected_pixels = s.expected_pixels;
  if (p.in_channels == 0 || p.out_channels == 0)
    return InvalidArgument("spec.in_channels and out_channels must not be 0");
  if (p.in_channels % p.groups || p.out_channels % p.groups) {
    return InvalidArgument("spec.groups does not divide the channels");
  }
  QUERN_RETURN_IF_ERROR(
      CheckExtents({p.in_channels, p.out_channels, p.kernel_d, p.kernel_h, p.kernel_w}, "the filters' extents"));
  for (const auto& list : {s.stride, s.dilation, s.pad_begin, s.pad_end}) {
    for (int i = 0; i < spatial; ++i) {
      if (list[i] > (size_t{1} << 20)) return InvalidArgument("a stride, dilation or padding of spec is above 2^20");
    }
  }
  return p;
}

kernels::ConvWeights ReadFilters(const quern_conv_spec& s, const ConvProblem& p, int spatial) {
  const auto element = static_cast<ptrdiff_t>(FormatBytes(p.rhs));
  kernels::ConvWeights w{.data = s.filter_data};
  w.zero_point = s.filter_zero_point;
  w.zero_points = s.filter_zero_points;
  const auto* strides = s.filter_strides;
  if (std::all_of(strides, strides + 5, [](ptrdiff_t x) { return x == 0; })) {
    w.w_stride = element;
    w.h_stride = static_cast<ptrdiff_t>(p.kernel_w) * element;
    w.d_stride = static_cast<ptrdiff_t>(p.kernel_h) * w.h_stride;
    w.i_stride = static_cast<ptrdiff_t>(p.kernel_d) * w.d_stride;
    w.o_stride = static_cast<ptrdiff_t>(p.in_channels / p.groups) * w.i_stride;
    return w;
  }
  w.o_stride = strides[0] * element;
  w.i_stride = strides[1] * element;
  w.w_stride = strides[1 + spatial] * element;
  if (spatial > 1) w.h_stride = strides[spatial] * element;
  if (spatial > 2) w.d_stride = strides[2] * element;
  return w;
}

// One call: the driver's arguments, and the copies of tensors with the channels first.
struct Call {
  ConvArgs args;
  ukernel::EpilogueOp ops[ukernel::kMaxEpilogueOps];
  Extents in, out;
  kernels::ConvolutionPlan plan;
  // In the workspace, behind the driver's.
  size_t input_offset = 0, dst_offset = 0, residual_offset = 0, workspace_bytes = 0;
  bool empty = false;
  const void* input = nullptr;
  void* dst = nullptr;
  const float* residual = nullptr;
};

Extents OutputExtents(const ConvProblem& p, const Extents& in) {
  Extents out;
  out.d = kernels::OutExtent(in.d, p.pad_front, p.pad_back, p.kernel_d, p.dilation_d, p.stride_d);
  out.h = kernels::OutExtent(in.h, p.pad_top, p.pad_bottom, p.kernel_h, p.dilation_h, p.stride_h);
  out.w = kernels::OutExtent(in.w, p.pad_left, p.pad_right, p.kernel_w, p.dilation_w, p.stride_w);
  return out;
}

Status ReadCall(const quern_op& op, const ConvOp& c, const quern_conv_args* given, int concurrency, Call& call) {
  QUERN_RETURN_IF_ERROR(RequirePointer(given, "args"));
  QUERN_ASSIGN_OR_RETURN(const quern_conv_args a, ReadStruct(given, "args"));
  const ConvProblem& p = c.problem;
  call.in = ReadExtents(a.in, c.spatial);
  QUERN_RETURN_IF_ERROR(
      CheckExtents({a.images, call.in.d, call.in.h, call.in.w, p.in_channels}, "the input's extents"));
  call.out = OutputExtents(p, call.in);
  if (call.out.pixels() == 0) return InvalidArgument("the kernel does not fit in the input");
  QUERN_RETURN_IF_ERROR(
      CheckExtents({a.images, call.out.d, call.out.h, call.out.w, p.out_channels}, "the output's extents"));
  if (c.channels_first && (a.in_pixel_stride || a.dst_pixel_stride)) {
    return InvalidArgument("args.in_pixel_stride and dst_pixel_stride are for NHWC");
  }
  const auto in_channels = static_cast<ptrdiff_t>(p.in_channels), out_channels = static_cast<ptrdiff_t>(p.out_channels);
  const auto in_bytes = static_cast<ptrdiff_t>(c.in_bytes), dst_bytes = static_cast<ptrdiff_t>(DTypeBytes(op.dst));
  if (a.in_pixel_stride && a.in_pixel_stride < in_channels)
    return InvalidArgument("args.in_pixel_stride is below the channels");
  if (a.dst_pixel_stride && a.dst_pixel_stride < out_channels)
    return InvalidArgument("args.dst_pixel_stride is below the channels");
  ConvArgs& to = call.args;
  to.images = a.images;
  to.in_d = call.in.d;
  to.in_h = call.in.h;
  to.in_w = call.in.w;
  to.in_pixel_stride = (a.in_pixel_stride ? a.in_pixel_stride : in_channels) * in_bytes;
  to.in_row_stride = static_cast<ptrdiff_t>(call.in.w) * to.in_pixel_stride;
  to.in_image_stride = static_cast<ptrdiff_t>(call.in.pixels()) * to.in_pixel_stride;
  to.dst_pixel_stride = (a.dst_pixel_stride ? a.dst_pixel_stride : out_channels) * dst_bytes;
  to.dst_image_stride = static_cast<ptrdiff_t>(call.out.pixels()) * to.dst_pixel_stride;
  if (c.stores_channels_first()) {
    to.dst_pixel_stride = dst_bytes;
    to.dst_channel_stride = static_cast<ptrdiff_t>(call.out.pixels()) * dst_bytes;
  }
  to.input_zero_point = c.input_zero_point;
  to.weight_zero_point = c.filter_zero_point;
  if (!c.filter_zero_points.empty()) to.weight_zero_points = c.filter_zero_points.data();
  std::copy(op.epilogue.ops.begin(), op.epilogue.ops.end(), call.ops);
  to.ops = call.ops;
  to.op_count = op.epilogue.ops.size();
  if (op.epilogue.residual >= 0) {
    const ptrdiff_t pixel = out_channels * static_cast<ptrdiff_t>(sizeof(float));
    call.ops[op.epilogue.residual].row_stride = static_cast<size_t>(pixel);
    call.ops[op.epilogue.residual].data = a.residual;
    to.op_image_strides[op.epilogue.residual] = static_cast<ptrdiff_t>(call.out.pixels()) * pixel;
  }
  call.input = to.input = a.input;
  call.dst = to.dst = a.dst;
  call.residual = a.residual;
  call.empty = a.images == 0;
  if (call.empty) return OkStatus();
  call.plan = c.driver.Plan(to, concurrency);
  size_t at = ukernel::RoundUp(call.plan.workspace_bytes, ukernel::kPackAlignment);
  const auto take = [&](size_t bytes) {
    const size_t begin = at;
    at = ukernel::RoundUp(at + bytes, ukernel::kPackAlignment);
    return begin;
  };
  if (c.channels_first) {
    call.input_offset = take(a.images * static_cast<size_t>(to.in_image_stride));
    if (!c.stores_channels_first()) call.dst_offset = take(a.images * static_cast<size_t>(to.dst_image_stride));
    if (op.epilogue.residual >= 0)
      call.residual_offset = take(a.images * call.out.pixels() * p.out_channels * sizeof(float));
  }
  call.workspace_bytes = c.channels_first ? at : call.plan.workspace_bytes;
  return OkStatus();
}

// Channels first to last, or back: images of so many pixels by threads.
Status Transpose(const kernels::RunResources& r, const CpuFacts& cpu, size_t images, size_t pixels, size_t channels,
                 size_t element_bytes, bool to_last, const void* from, void* to) {
  constexpr size_t kBlock = 256;  // pixels
  const ukernel::VectorKernel* row = ukernel::SelectVectorRow(cpu);
  const size_t blocks = ukernel::CeilDiv(pixels, kBlock), image_bytes = pixels * channels * element_bytes;
  return kernels::ForEach(
      r, r.executor->concurrency(), images * blocks, 1 + 65536 / (kBlock * channels), [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          const size_t image = i / blocks, first = i % blocks * kBlock, count = std::min(kBlock, pixels - first);
          const char* x = static_cast<const char*>(from) + image * image_bytes;
          char* y = static_cast<char*>(to) + image * image_bytes;
          const size_t planes = first * element_bytes, rows = first * channels * element_bytes;
          if (to_last) {
            row->transpose({.element_bytes = element_bytes,
                            .rows = count,
                            .cols = channels,
                            .x = x + planes,
                            .x_col = static_cast<ptrdiff_t>(pixels),
                            .y = y + rows,
                            .y_row = static_cast<ptrdiff_t>(channels)});
          } else {
            row->transpose({.element_bytes = element_bytes,
                            .rows = channels,
                            .cols = count,
                            .x = x + rows,
                            .x_col = static_cast<ptrdiff_t>(channels),
                            .y = y + planes,
                            .y_row = static_cast<ptrdiff_t>(pixels)});
          }
        }
      });
}

}  // namespace
}  // namespace quern::api

using quern::InvalidArgument;
using quern::OkStatus;
using quern::Status;
using namespace quern::api;

extern "C" {

quern_status quern_ops_conv_create(const quern_conv_spec* spec, const quern_ops_options* options, quern_op** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(spec, "spec"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(const quern_conv_spec s, ReadStruct(spec, "spec"));
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<quern_op> op, NewOp(options));
    QUERN_ASSIGN_OR_RETURN(op->dst, ReadDType(s.dst));
    ConvOp c;
    c.spatial = s.spatial ? s.spatial : 2;
    if (c.spatial < 1 || c.spatial > 3) return InvalidArgument("spec.spatial is not 1, 2 or 3");
    if (s.layout != QUERN_NHWC && s.layout != QUERN_NCHW) return InvalidArgument("spec.layout is no quern_conv_layout");
    c.channels_first = s.layout == QUERN_NCHW;
    QUERN_RETURN_IF_ERROR(RequirePointer(s.filter_data, "spec.filter_data"));
    QUERN_ASSIGN_OR_RETURN(c.problem, ReadProblem(s, c.spatial));
    const bool integers = quern::ukernel::IsInt8(c.problem.lhs);
    c.problem.precision = integers ? quern::ukernel::Precision::kExact : op->precision;
    QUERN_ASSIGN_OR_RETURN(op->epilogue, ReadEpilogue(s.epilogue, s.out_channels, integers, op->dst));
    QUERN_ASSIGN_OR_RETURN(
        c.driver, quern::kernels::Convolution::Create(c.problem, c.spatial < 3, op->options,
                                                      ReadFilters(s, c.problem, c.spatial), OpsPacking(options)));
    c.in_bytes = quern::ukernel::FormatBytes(c.problem.lhs);
    c.input_zero_point = s.input_zero_point;
    c.filter_zero_point = s.filter_zero_point;
    if (s.filter_zero_points && integers) {
      c.filter_zero_points.assign(s.filter_zero_points, s.filter_zero_points + s.out_channels);
    }
    op->op = std::move(c);
    *out = op.release();
    return OkStatus();
  });
}

quern_status quern_ops_conv_output(const quern_op* op, const size_t* in, size_t* out) {
  return Guard([&]() -> Status {
    QUERN_ASSIGN_OR_RETURN(const ConvOp* c, ReadOp<ConvOp>(op, "convolution"));
    QUERN_RETURN_IF_ERROR(RequirePointer(in, "in"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    const Extents e = ReadExtents(in, c->spatial);
    QUERN_RETURN_IF_ERROR(CheckExtents({e.d, e.h, e.w}, "the input's extents"));
    const Extents o = OutputExtents(c->problem, e);
    if (o.pixels() == 0) return InvalidArgument("the kernel does not fit in the input");
    const size_t list[3] = {o.d, o.h, o.w};
    std::copy(list + 3 - c->spatial, list + 3, out);
    return OkStatus();
  });
}

quern_status quern_ops_conv_workspace(const quern_op* op, const quern_conv_args* args, const quern_executor* executor,
                                      size_t* bytes) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(bytes, "bytes"));
    QUERN_ASSIGN_OR_RETURN(const ConvOp* c, ReadOp<ConvOp>(op, "convolution"));
    Call call;
    QUERN_RETURN_IF_ERROR(ReadCall(*op, *c, args, Concurrency(executor), call));
    *bytes = call.workspace_bytes;
    return OkStatus();
  });
}

quern_status quern_ops_conv_run(const quern_op* op, const quern_conv_args* args, const quern_ops_run* run) {
  return Guard([&]() -> Status {
    QUERN_ASSIGN_OR_RETURN(const ConvOp* c, ReadOp<ConvOp>(op, "convolution"));
    quern::InlineExecutor inline_executor;
    QUERN_ASSIGN_OR_RETURN(quern::kernels::RunResources resources, ReadRun(run, inline_executor));
    Call call;
    QUERN_RETURN_IF_ERROR(ReadCall(*op, *c, args, resources.executor->concurrency(), call));
    if (call.empty) return OkStatus();
    QUERN_RETURN_IF_ERROR(RequirePointer(call.input, "args.input"));
    QUERN_RETURN_IF_ERROR(RequirePointer(call.dst, "args.dst"));
    const bool residual = op->epilogue.residual >= 0;
    if (residual) QUERN_RETURN_IF_ERROR(RequirePointer(call.residual, "args.residual"));
    if (resources.workspace_bytes < call.workspace_bytes) {
      return InvalidArgument("run.workspace has " + std::to_string(resources.workspace_bytes) +
                             " bytes, the call needs " + std::to_string(call.workspace_bytes));
    }
    if (!c->channels_first) return c->driver.Run(call.plan, call.args, resources);
    const quern::CpuFacts& cpu = op->options.cpu;
    const size_t images = call.args.images, in_pixels = call.in.pixels(), out_pixels = call.out.pixels();
    const size_t out_channels = c->problem.out_channels;
    char* base = static_cast<char*>(resources.workspace);
    QUERN_RETURN_IF_ERROR(Transpose(resources, cpu, images, in_pixels, c->problem.in_channels, c->in_bytes, true,
                                    call.input, base + call.input_offset));
    if (residual) {
      QUERN_RETURN_IF_ERROR(Transpose(resources, cpu, images, out_pixels, out_channels, sizeof(float), true,
                                      call.residual, base + call.residual_offset));
      call.ops[op->epilogue.residual].data = base + call.residual_offset;
    }
    call.args.input = base + call.input_offset;
    if (!c->stores_channels_first()) call.args.dst = base + call.dst_offset;
    quern::kernels::RunResources inner = resources;
    inner.workspace_bytes = call.plan.workspace_bytes;
    QUERN_RETURN_IF_ERROR(c->driver.Run(call.plan, call.args, inner));
    if (c->stores_channels_first()) return OkStatus();
    return Transpose(resources, cpu, images, out_pixels, out_channels, quern::DTypeBytes(op->dst), false, call.args.dst,
                     call.dst);
  });
}

}  // extern "C"
