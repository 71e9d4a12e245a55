// Field numbers of onnx.proto (ONNX 1.23, IR version 14), as the reader and writer use them.
#pragma once

namespace quern::onnx {

struct ModelField {
  enum : int {
    kIrVersion = 1,
    kProducerName = 2,
    kProducerVersion = 3,
    kDomain = 4,
    kModelVersion = 5,
    kDocString = 6,
    kGraph = 7,
    kOpsetImport = 8,
    kMetadataProps = 14,
    kFunctions = 25
  };
};
struct OperatorSetIdField {
  enum : int { kDomain = 1, kVersion = 2 };
};
struct EntryField {  // StringStringEntryProto
  enum : int { kKey = 1, kValue = 2 };
};
struct FunctionField {
  enum : int {
    kName = 1,
    kInput = 4,
    kOutput = 5,
    kAttribute = 6,
    kNode = 7,
    kOpsetImport = 9,
    kDomain = 10,
    kAttributeProto = 11,
    kValueInfo = 12,
    kOverload = 13
  };
};
struct GraphField {
  enum : int {
    kNode = 1,
    kName = 2,
    kInitializer = 5,
    kInput = 11,
    kOutput = 12,
    kValueInfo = 13,
    kSparseInitializer = 15,
    kMetadataProps = 16
  };
};
struct NodeField {
  enum : int { kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDomain = 7, kOverload = 8 };
};
struct AttributeField {
  enum : int {
    kName = 1,
    kFloat = 2,
    kInt = 3,
    kString = 4,
    kTensor = 5,
    kGraph = 6,
    kFloats = 7,
    kInts = 8,
    kStrings = 9,
    kTensors = 10,
    kGraphs = 11,
    kTypeProto = 14,
    kTypeProtos = 15,
    kType = 20,
    kRefAttrName = 21,
    kSparseTensor = 22,
    kSparseTensors = 23
  };
};
// Values of AttributeProto.type.
struct AttributeKind {
  enum : int {
    kUndefined = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kSparseTensor = 11,
    kSparseTensors = 12,
    kTypeProto = 13,
    kTypeProtos = 14
  };
};
struct TensorField {
  enum : int {
    kDims = 1,
    kDataType = 2,
    kSegment = 3,
    kFloatData = 4,
    kInt32Data = 5,
    kStringData = 6,
    kInt64Data = 7,
    kName = 8,
    kRawData = 9,
    kDoubleData = 10,
    kUint64Data = 11,
    kExternalData = 13,
    kDataLocation = 14
  };
};
struct SparseTensorField {
  enum : int { kValues = 1, kIndices = 2, kDims = 3 };
};
struct ValueInfoField {
  enum : int { kName = 1, kType = 2 };
};
struct TypeField {
  enum : int { kTensor = 1, kSequence = 4, kMap = 5, kOpaque = 7, kSparseTensor = 8, kOptional = 9 };
};
struct TypeTensorField {
  enum : int { kElemType = 1, kShape = 2 };
};
struct TypeElementField {  // TypeProto.Sequence and TypeProto.Optional
  enum : int { kElemType = 1 };
};
struct TypeMapField {
  enum : int { kKeyType = 1, kValueType = 2 };
};
struct ShapeField {
  enum : int { kDim = 1 };
};
struct DimField {
  enum : int { kValue = 1, kParam = 2 };
};
struct SequenceField {
  enum : int { kName = 1, kElemType = 2, kTensors = 3, kSparseTensors = 4, kSequences = 5, kMaps = 6, kOptionals = 7 };
};
struct OptionalField {
  enum : int { kName = 1, kElemType = 2, kTensor = 3, kSparseTensor = 4, kSequence = 5, kMap = 6, kOptional = 7 };
};
struct MapField {
  enum : int { kName = 1, kKeyType = 2, kKeys = 3, kStringKeys = 4, kValues = 5 };
};
// Values of SequenceProto.elem_type and OptionalProto.elem_type.
struct ElementKind {
  enum : int { kUndefined = 0, kTensor = 1, kSparseTensor = 2, kSequence = 3, kMap = 4, kOptional = 5 };
};

}  // namespace quern::onnx
