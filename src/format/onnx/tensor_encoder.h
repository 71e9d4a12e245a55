// Values to TensorProto, and the plan of the file beside a model that holds its large tensors.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "format/onnx/encoded_message.h"
#include "tensor/value.h"

namespace quern::onnx {

// Which tensors go to the external file, and where. Tensors over the same memory share a place.
class ExternalPlan {
 public:
  // Tensors of at least `least_bytes` go there; `location` is the file's name beside the model.
  ExternalPlan(std::string location, uint64_t least_bytes)
      : location_(std::move(location)), least_bytes_(least_bytes) {}

  bool Takes(const Tensor& tensor) const { return tensor.bytes() > 0 && tensor.bytes() >= least_bytes_; }
  // The offset of a contiguous tensor, which the plan keeps.
  uint64_t Place(const Tensor& tensor);
  const std::string& location() const { return location_; }
  uint64_t size() const { return size_; }
  // By offset, which ascends; between them zeros.
  const std::vector<std::pair<uint64_t, Tensor>>& tensors() const { return tensors_; }

 private:
  std::string location_;
  uint64_t least_bytes_;
  uint64_t size_ = 0;
  std::vector<std::pair<uint64_t, Tensor>> tensors_;
  std::map<std::pair<const void*, size_t>, uint64_t> places_;
};

// A TensorProto: raw data (a view of the tensor's memory), strings as string_data, or a reference to the external file
// where `external` (may be null) takes it. kInvalidArgument for values that are no tensors, kUnsupported for block
// types, which ONNX does not have.
Result<EncodedMessage> EncodeTensor(const Value& value, std::string_view name, ExternalPlan* external);

}  // namespace quern::onnx
