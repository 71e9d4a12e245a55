#include "format/onnx/tensor_encoder.h"

#include "format/onnx/fields.h"

namespace quern::onnx {

uint64_t ExternalPlan::Place(const Tensor& tensor) {
  const auto [place, is_new] = places_.try_emplace({tensor.raw_data(), tensor.bytes()}, 0);
  if (is_new) {
    // Whole pages where padding does not matter, as ONNX advises for mapping; else what any kernel may want.
    constexpr uint64_t kLarge = 1 << 20, kPage = 4096, kCacheLine = 64;
    const uint64_t alignment = tensor.bytes() >= kLarge ? kPage : kCacheLine;
    place->second = (size_ + alignment - 1) / alignment * alignment;
    size_ = place->second + tensor.bytes();
    tensors_.emplace_back(place->second, tensor);
  }
  return place->second;
}

Result<EncodedMessage> EncodeTensor(const Value& value, std::string_view name, ExternalPlan* external) {
  EncodedMessage out;
  const auto add_head = [&](const Shape& shape, DType dtype) {
    for (int64_t d : shape.span()) out.Fields().add_int64(TensorField::kDims, d);
    out.Fields().add_int32(TensorField::kDataType, static_cast<int>(dtype));
    if (!name.empty()) out.Fields().add_string(TensorField::kName, name.data(), name.size());
  };
  if (value.kind() == ValueKind::kStringTensor) {
    add_head(value.strings().shape, DType::kString);
    for (const std::string& s : value.strings().values) out.Fields().add_bytes(TensorField::kStringData, s);
    return out;
  }
  if (!value.is_tensor()) return InvalidArgument(std::string("a ") + ValueKindName(value.kind()) + " is no tensor");
  const DType dtype = value.tensor().dtype();
  if (IsBlockType(dtype) || dtype == DType::kUndefined) {
    return Unsupported(std::string("ONNX has no element type ") + DTypeName(dtype));
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor tensor, value.tensor().Contiguous());
  add_head(tensor.shape(), dtype);
  if (external != nullptr && external->Takes(tensor)) {
    const std::pair<const char*, std::string> entries[] = {{"location", external->location()},
                                                           {"offset", std::to_string(external->Place(tensor))},
                                                           {"length", std::to_string(tensor.bytes())}};
    for (const auto& [key, text] : entries) {
      EncodedMessage entry;
      entry.Fields().add_string(EntryField::kKey, key);
      entry.Fields().add_string(EntryField::kValue, text);
      out.AddMessage(TensorField::kExternalData, std::move(entry));
    }
    constexpr int kExternal = 1;
    out.Fields().add_int32(TensorField::kDataLocation, kExternal);
    return out;
  }
  out.AddView(TensorField::kRawData, {static_cast<const char*>(tensor.raw_data()), tensor.bytes()}, tensor.owner());
  return out;
}

}  // namespace quern::onnx
