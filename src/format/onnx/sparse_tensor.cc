// TensorDecoder::DecodeSparse: the values of a SparseTensorProto at their places in a dense tensor.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked_math.h"
#include "base/packed_bits.h"
#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"
#include "format/onnx/tensor_decoder.h"

namespace quern::onnx {
namespace {

struct SparseParts {
  std::string_view values, indices;
  bool has_values = false, has_indices = false;
  std::vector<int64_t> dims;
};

Result<SparseParts> ReadParts(std::string_view message, const char* base, size_t max_rank) {
  SparseParts parts;
  bool too_many_dims = false;
  FieldReader r(message, base);
  while (r.Next()) {
    switch (r.field()) {
      case SparseTensorField::kValues:
        parts.values = r.Bytes(), parts.has_values = true;
        break;
      case SparseTensorField::kIndices:
        parts.indices = r.Bytes(), parts.has_indices = true;
        break;
      case SparseTensorField::kDims:
        r.Varints([&](uint64_t d) {
          if (parts.dims.size() == max_rank) {
            too_many_dims = true;
          } else {
            parts.dims.push_back(static_cast<int64_t>(d));
          }
        });
        break;
      default:
        r.Skip();
    }
  }
  QUERN_RETURN_IF_ERROR(r.status());
  if (too_many_dims) return ResourceExhausted("more than " + std::to_string(max_rank) + " dimensions");
  return parts;
}

// Where each value goes in row-major order: checked, ascending, each once.
Result<std::vector<int64_t>> Places(const Tensor& indices, int64_t count, const Shape& shape) {
  const int64_t rank = shape.rank();
  const bool is_linear = indices.rank() == 1;
  if (indices.dtype() != DType::kI64) return Corrupt(std::string("indices of type ") + DTypeName(indices.dtype()));
  if ((!is_linear && (indices.rank() != 2 || indices.dim(1) != rank)) || indices.dim(0) != count) {
    return Corrupt("indices of shape " + indices.shape().ToString() + ", " + std::to_string(count) +
                   " values of a tensor of rank " + std::to_string(rank) + " need [" + std::to_string(count) +
                   "] or [" + std::to_string(count) + "," + std::to_string(rank) + "]");
  }
  const int64_t elements = shape.num_elements();
  const int64_t* index = indices.data<int64_t>();
  std::vector<int64_t> places(static_cast<size_t>(count));
  const auto which = [](int64_t i) { return "indices[" + std::to_string(i) + "]"; };
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    if (is_linear) {
      place = index[i];
      if (place < 0 || place >= elements) {
        return Corrupt(which(i) + " is " + std::to_string(place) + ", the tensor has " + std::to_string(elements) +
                       " elements");
      }
    } else {
      for (int d = 0; d < shape.rank(); ++d) {
        const int64_t at = index[i * rank + d];
        if (at < 0 || at >= shape[d]) {
          return Corrupt(which(i) + " is " + std::to_string(at) + " in dimension " + std::to_string(d) +
                         ", whose extent is " + std::to_string(shape[d]));
        }
        place = place * shape[d] + at;
      }
    }
    if (i > 0 && place <= places[static_cast<size_t>(i) - 1]) {
      return Corrupt(which(i) + " does not come after the one before it: indices must ascend, each once");
    }
    places[static_cast<size_t>(i)] = place;
  }
  return places;
}

// Element `from` of one contiguous tensor to element `to` of a zeroed one.
void CopyElement(const Tensor& source, int64_t from, const Tensor& target, int64_t to) {
  const DTypeInfo info = GetDTypeInfo(source.dtype());
  const char* s = static_cast<const char*>(source.raw_data());
  char* t = static_cast<char*>(target.raw_data());
  if (info.block_elements == 1) {
    std::memcpy(t + to * info.block_bytes, s + from * info.block_bytes, info.block_bytes);
    return;
  }
  const int bits = PackedBits(source.dtype());
  StorePacked(reinterpret_cast<uint8_t*>(t), to, bits, LoadPacked(reinterpret_cast<const uint8_t*>(s), from, bits));
}

}  // namespace

Result<Value> TensorDecoder::DecodeSparse(std::string_view message) {
  const size_t max_rank = static_cast<size_t>(std::clamp(limits_.rank, 0, kMaxRank));
  QUERN_ASSIGN_OR_RETURN(const SparseParts parts, ReadParts(message, base_, max_rank));
  if (!parts.has_values) return Corrupt("a sparse tensor without values");
  for (int64_t d : parts.dims) {
    if (d < 0) return Corrupt("dimension " + std::to_string(d) + " is negative");
  }
  const Shape shape{std::span<const int64_t>(parts.dims)};
  if (!CheckedProduct(shape.span())) return Corrupt("shape " + shape.ToString() + " is too large");

  Result<Value> values = Decode(parts.values);
  if (!values.ok()) return values.status().WithContext("values");
  const bool is_strings = values->kind() == ValueKind::kStringTensor;
  const Shape& values_shape = is_strings ? values->strings().shape : values->tensor().shape();
  if (values_shape.rank() != 1) return Corrupt("values of shape " + values_shape.ToString() + " are no list");
  const int64_t count = values_shape[0];
  std::vector<int64_t> places;
  if (parts.has_indices) {
    const Result<Value> indices = Decode(parts.indices);
    if (!indices.ok()) return indices.status().WithContext("indices");
    if (!indices->is_tensor()) return Corrupt("indices of type string");
    QUERN_RETURN_IF_ERROR(Charge(static_cast<size_t>(count) * sizeof(int64_t)));
    QUERN_ASSIGN_OR_RETURN(places, Places(indices->tensor(), count, shape));
  } else if (count > 0) {
    return Corrupt(std::to_string(count) + " values without indices");
  }

  // Only now is memory asked for: the dense form may be far larger than what the file holds.
  const DType dtype = is_strings ? DType::kString : values->tensor().dtype();
  const std::optional<int64_t> string_bytes =
      CheckedMul<int64_t>(shape.num_elements(), static_cast<int64_t>(sizeof(std::string)));
  if (is_strings && !string_bytes) return Corrupt("shape " + shape.ToString() + " is too large");
  size_t bytes = 0;
  if (is_strings) {
    bytes = static_cast<size_t>(*string_bytes);
  } else {
    QUERN_ASSIGN_OR_RETURN(bytes, TensorBytes(dtype, shape));
  }
  if (bytes > static_cast<size_t>(std::max<int64_t>(limits_.tensor_bytes, 0))) {
    return ResourceExhausted(std::string("the dense form, ") + DTypeName(dtype) + shape.ToString() + ", has " +
                             std::to_string(bytes) + " bytes, the limit is " + std::to_string(limits_.tensor_bytes));
  }
  QUERN_RETURN_IF_ERROR(Charge(bytes));
  if (is_strings) {
    StringTensor dense{shape, std::vector<std::string>(static_cast<size_t>(shape.num_elements()))};
    for (size_t i = 0; i < places.size(); ++i) {
      dense.values[static_cast<size_t>(places[i])] = values->strings().values[i];
    }
    return Value(std::move(dense));
  }
  QUERN_ASSIGN_OR_RETURN(Tensor dense, Tensor::Allocate(dtype, shape));
  if (bytes > 0) std::memset(dense.raw_data(), 0, bytes);
  for (size_t i = 0; i < places.size(); ++i) {
    CopyElement(values->tensor(), static_cast<int64_t>(i), dense, places[i]);
  }
  return Value(std::move(dense));
}

}  // namespace quern::onnx
