// Decodes the TensorProtos of one model or value file, in place where the bytes allow it.
#pragma once

#include <memory>
#include <string_view>

#include "base/limits.h"
#include "base/status.h"
#include "format/onnx/external_data.h"
#include "tensor/value.h"

namespace quern::onnx {

class TensorDecoder {
 public:
  // `base` is what byte offsets in errors count from. `owner` keeps the messages alive; null means that tensors are
  // copied. `external` may be null: then external data is refused. The references must outlive the decoder.
  TensorDecoder(const char* base, std::shared_ptr<const void> owner, const Limits& limits, ExternalData* external)
      : base_(base), owner_(std::move(owner)), limits_(limits), external_(external) {}

  // A tensor or string tensor; `name` (may be null) gets TensorProto.name, a view of the message.
  Result<Value> Decode(std::string_view message, std::string_view* name = nullptr);

  // The dense form of a SparseTensorProto, with zeros (or empty strings) where it has no value.
  Result<Value> DecodeSparse(std::string_view message);

  // Counts heap memory that reading takes against Limits::memory_bytes, so that a small file cannot ask for much.
  Status Charge(size_t bytes);

  const char* base() const { return base_; }
  const Limits& limits() const { return limits_; }

 private:
  struct Head;
  Result<Head> ReadHead(std::string_view message) const;
  Result<Value> DecodeStrings(std::string_view message, const Head& head, const Shape& shape);
  Result<Tensor> DecodeTyped(std::string_view message, DType dtype, const Shape& shape);
  // A tensor over raw little-endian bytes of the right size, or a copy of them.
  Result<Tensor> FromRaw(DType dtype, const Shape& shape, std::string_view raw, std::shared_ptr<const void> owner);

  const char* base_;
  std::shared_ptr<const void> owner_;
  const Limits& limits_;
  ExternalData* external_;
  int64_t charged_bytes_ = 0;
};

}  // namespace quern::onnx
