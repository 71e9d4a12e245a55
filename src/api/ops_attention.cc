// Attention of ops.h.
#include <algorithm>
#include <cmath>

#include "api/ops.h"
#include "api/struct_size.h"
#include "kernels/run_time_drivers.h"
#include "ukernel/convert.h"

namespace quern::api {
namespace {

using kernels::AttentionSizes;
using kernels::HeadStrides;

HeadStrides ReadStrides(const ptrdiff_t (&given)[3], int64_t heads, int64_t rows, int64_t size) {
  if (!given[0] && !given[1] && !given[2]) return {heads * rows * size, rows * size, size, 1};
  return {given[0], given[1], given[2], 1};
}

// The mask of a call, and the keys that a query sees.
class Mask final : public kernels::ScoreRules {
 public:
  Mask(const AttentionSizes& sizes, const float* mask, const ptrdiff_t* strides)
      : sizes_(sizes), mask_(mask), strides_(strides) {}

  Row RowOf(int64_t b, int64_t h, int64_t i, const Keys& keys, float*) const override {
    Row row{.first = 0, .end = sizes_.keys};
    if (sizes_.reach != AttentionSizes::kAll) row.end = std::min(sizes_.keys, sizes_.reach + i + 1);
    if (mask_) row.add[0] = mask_ + b * strides_[0] + h * strides_[1] + i * strides_[2] + keys.begin;
    return row;
  }

 private:
  const AttentionSizes& sizes_;
  const float* mask_;
  const ptrdiff_t* strides_;
};

Result<kernels::AttentionTypes> ReadTypes(const quern_attention_spec& s) {
  const auto read = [](int32_t given, int32_t usual, const char* field) -> Result<ukernel::Format> {
    QUERN_ASSIGN_OR_RETURN(const ukernel::Format f, ReadFormat(given ? given : usual, field));
    if (!ukernel::IsFloatFormat(f)) return InvalidArgument(std::string(field) + " is no float32, float16 or bfloat16");
    return f;
  };
  const int32_t q = s.q_type ? s.q_type : static_cast<int32_t>(QUERN_F32);
  kernels::AttentionTypes types;
  QUERN_ASSIGN_OR_RETURN(types.q, read(q, q, "spec.q_type"));
  QUERN_ASSIGN_OR_RETURN(types.kv, read(s.kv_type, q, "spec.kv_type"));
  QUERN_ASSIGN_OR_RETURN(types.y, read(s.y_type, q, "spec.y_type"));
  return types;
}

Result<AttentionSizes> ReadSizes(const quern_attention_spec& s) {
  const size_t value_size = s.value_size ? s.value_size : s.head_size;
  const size_t kv_heads = s.kv_heads ? s.kv_heads : s.heads;
  if (s.heads == 0 || s.heads % kv_heads) return InvalidArgument("spec.kv_heads does not divide spec.heads");
  const size_t widest = std::max({s.head_size, value_size, size_t{1}});
  QUERN_RETURN_IF_ERROR(CheckExtents({s.batch, s.heads, s.queries, widest}, "the queries' extents"));
  QUERN_RETURN_IF_ERROR(CheckExtents({s.batch, s.heads, s.keys, widest}, "the keys' extents"));
  const auto number = [](size_t x) { return static_cast<int64_t>(x); };
  AttentionSizes sizes;
  QUERN_ASSIGN_OR_RETURN(sizes.types, ReadTypes(s));
  sizes.batch = number(s.batch);
  sizes.heads = number(s.heads);
  sizes.kv_heads = number(kv_heads);
  sizes.queries = number(s.queries);
  sizes.keys = number(s.keys);
  sizes.size = number(s.head_size);
  sizes.value_size = number(value_size);
  sizes.softcap = s.softcap;
  sizes.q = ReadStrides(s.q_strides, sizes.heads, sizes.queries, sizes.size);
  sizes.k = ReadStrides(s.k_strides, sizes.kv_heads, sizes.keys, sizes.size);
  sizes.v = ReadStrides(s.v_strides, sizes.kv_heads, sizes.keys, sizes.value_size);
  sizes.y = ReadStrides(s.y_strides, sizes.heads, sizes.queries, sizes.value_size);
  sizes.scale = s.scale != 0 ? s.scale : 1.0f / std::sqrt(static_cast<float>(std::max<size_t>(s.head_size, 1)));
  if (s.causal) sizes.reach = sizes.keys - sizes.queries;
  return sizes;
}

}  // namespace
}  // namespace quern::api

using quern::InvalidArgument;
using quern::OkStatus;
using quern::Status;
using namespace quern::api;

extern "C" {

quern_status quern_ops_attention_create(const quern_attention_spec* spec, const quern_ops_options* options,
                                        quern_op** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(spec, "spec"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(const quern_attention_spec s, ReadStruct(spec, "spec"));
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<quern_op> op, NewOp(options));
    AttentionOp a;
    QUERN_ASSIGN_OR_RETURN(a.sizes, ReadSizes(s));
    if (s.concurrency < 0) return InvalidArgument("spec.concurrency is negative");
    a.concurrency = std::max(s.concurrency, 1);
    quern::kernels::RunTimeDrivers drivers(op->options);
    QUERN_ASSIGN_OR_RETURN(a.driver, quern::kernels::Attention::Create(a.sizes, drivers, op->precision, a.concurrency));
    op->op = std::move(a);
    *out = op.release();
    return OkStatus();
  });
}

quern_status quern_ops_attention_workspace(const quern_op* op, size_t* bytes) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(bytes, "bytes"));
    QUERN_ASSIGN_OR_RETURN(const AttentionOp* a, ReadOp<AttentionOp>(op, "attention"));
    *bytes = a->driver.workspace_bytes();
    return OkStatus();
  });
}

quern_status quern_ops_attention_run(const quern_op* op, const quern_attention_args* args, const quern_ops_run* run) {
  return Guard([&]() -> Status {
    QUERN_ASSIGN_OR_RETURN(const AttentionOp* a, ReadOp<AttentionOp>(op, "attention"));
    QUERN_RETURN_IF_ERROR(RequirePointer(args, "args"));
    QUERN_ASSIGN_OR_RETURN(const quern_attention_args given, ReadStruct(args, "args"));
    quern::InlineExecutor inline_executor;
    QUERN_ASSIGN_OR_RETURN(const quern::kernels::RunResources resources, ReadRun(run, inline_executor));
    const quern::kernels::AttentionSizes& s = a->sizes;
    if (s.batch == 0 || s.queries == 0 || s.value_size == 0) return OkStatus();
    QUERN_RETURN_IF_ERROR(RequirePointer(given.y, "args.y"));
    if (s.keys && s.size) {
      QUERN_RETURN_IF_ERROR(RequirePointer(given.q, "args.q"));
      QUERN_RETURN_IF_ERROR(RequirePointer(given.k, "args.k"));
    }
    if (s.keys) QUERN_RETURN_IF_ERROR(RequirePointer(given.v, "args.v"));
    return a->driver.Run({.q = given.q, .k = given.k, .v = given.v, .y = given.y},
                         Mask(s, given.mask, given.mask_strides), resources);
  });
}

}  // extern "C"
