// An ONNX operator: schema per version, shape inference, reference evaluation. One file of this folder defines one.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"
#include "tensor/value.h"

namespace quern {

class Executor;

// Element types as a bit set over DType.
class TypeSet {
 public:
  constexpr TypeSet() = default;
  constexpr TypeSet(std::initializer_list<DType> types) {
    for (DType t : types) bits_[static_cast<int>(t) / 64] |= uint64_t{1} << (static_cast<int>(t) % 64);
  }
  constexpr bool Has(DType t) const { return (bits_[static_cast<int>(t) / 64] >> (static_cast<int>(t) % 64)) & 1; }
  constexpr TypeSet operator|(TypeSet o) const {
    TypeSet r = *this;
    r.bits_[0] |= o.bits_[0];
    r.bits_[1] |= o.bits_[1];
    return r;
  }

 private:
  uint64_t bits_[2] = {0, 0};
};

inline constexpr TypeSet kFloatTypes = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
inline constexpr TypeSet kSignedIntTypes = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
inline constexpr TypeSet kUnsignedIntTypes = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
inline constexpr TypeSet kNumericTypes = kFloatTypes | kSignedIntTypes | kUnsignedIntTypes;
inline constexpr TypeSet kAllTensorTypes =
    kNumericTypes | TypeSet{DType::kBool, DType::kString, DType::kC64, DType::kC128};
inline constexpr TypeSet kBlockTypes = {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0};

// A constant array: what std::span is, without what its constructors cost in each of hundreds of files.
template <typename T>
class ConstList {
 public:
  constexpr ConstList() = default;
  template <size_t N>
  constexpr ConstList(const T (&items)[N]) : items_(items), size_(N) {}  // NOLINT: implicit by design
  constexpr const T* begin() const { return items_; }
  constexpr const T* end() const { return items_ + size_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return items_[i]; }
  constexpr const T& front() const { return items_[0]; }
  constexpr const T& back() const { return items_[size_ - 1]; }

 private:
  const T* items_ = nullptr;
  size_t size_ = 0;
};

// Variadic: last of its list, one or more; where it is not the first, maybe none.
enum class Arity : uint8_t { kSingle, kOptional, kVariadic };

// A formal input or output. Parameters that name the same type variable ("T") must have the same element type.
struct Param {
  const char* name;
  const char* type_var;  // "T", "T1", or "" when the types stand alone
  TypeSet types;         // for tensors; ignored for other kinds
  Arity arity = Arity::kSingle;
  ValueKind kind = ValueKind::kTensor;  // kTensor also admits string tensors when types has kString; kNone: any kind
  bool homogeneous = true;              // variadic: all of one element type
};

enum class AttrType : uint8_t {
  kInt,
  kFloat,
  kString,
  kTensor,
  kGraph,
  kInts,
  kFloats,
  kStrings,
  kTensors,
  kGraphs,
  kType
};
struct AttrSpec {
  const char* name;
  AttrType type;
  bool required = false;
  const char* default_text = "";  // for docs/operators.md: "1", "[]", "NOTSET"
};

// A value of concrete or symbolic type during inference.
class InferContext {
 public:
  virtual ~InferContext() = default;
  virtual const Node& node() const = 0;
  int num_inputs() const { return node().num_inputs(); }
  int num_outputs() const { return node().num_outputs(); }
  bool HasInput(int i) const { return node().input(i) != nullptr; }
  // Type of an input; requires HasInput(i).
  virtual const ValueType& input_type(int i) const = 0;
  // The content of a constant input, else null.
  virtual const Value* input_constant(int i) const = 0;
  // Elements of a small integer input (constant or propagated symbolically); nothing when not known.
  virtual std::optional<Dims> input_data(int i) const = 0;
  virtual void SetOutputType(int i, ValueType type) = 0;  // ignored for omitted outputs
  virtual void SetOutputData(int i, Dims data) = 0;       // data propagation, for rank 0 and 1 integer outputs
  // Infers a subgraph of the node for given types of its formal inputs (captures are added by the caller of inference);
  // gives the types of its outputs.
  virtual Result<std::vector<ValueType>> InferSubgraph(std::string_view attribute, std::vector<ValueType> inputs) = 0;

  // Convenience.
  std::optional<Dims> input_shape(int i) const { return HasInput(i) ? input_type(i).shape : std::nullopt; }
  DType input_dtype(int i) const { return HasInput(i) ? input_type(i).dtype : DType::kUndefined; }
  // An error that names the node: InvalidArgument("node 'x' (Conv): " + message).
  Status Error(std::string message) const;
};

// One evaluation with all inputs at hand.
class EvalContext {
 public:
  virtual ~EvalContext() = default;
  virtual const Node& node() const = 0;
  int num_inputs() const { return node().num_inputs(); }
  int num_outputs() const { return node().num_outputs(); }
  virtual bool HasInput(int i) const = 0;
  virtual bool HasOutput(int i) const { return node().output(i) != nullptr; }
  // Requires HasInput(i).
  virtual const Value& input_value(int i) const = 0;
  // The input's tensor; contiguous, as whoever calls an evaluation sees to.
  const Tensor& input(int i) const { return input_value(i).tensor(); }
  // Memory for output i: contiguous, uninitialised; may be placed by the plan. An error when a limit is reached.
  virtual Result<Tensor> AllocateOutput(int i, DType dtype, const Shape& shape) = 0;
  // For outputs that are not tensors, or that share an input's memory.
  virtual void SetOutput(int i, Value value) = 0;
  // Runs a subgraph: formal inputs given here, captures are bound by the callee.
  virtual Result<std::vector<Value>> RunSubgraph(std::string_view attribute, std::vector<Value> inputs) = 0;
  virtual const Limits& limits() const = 0;

  Status Error(std::string message) const;
};

// One version of an operator, in force from operator set `since` until the next version's.
struct OpVersion {
  int since;
  ConstList<Param> inputs;
  ConstList<Param> outputs;
  ConstList<AttrSpec> attributes;
  Status (*infer)(InferContext&);
  Status (*evaluate)(EvalContext&);
  int min_outputs = 1;
};

// What a file of this folder exports: `extern constinit const OpDefinition kOp<Stem>` (generated table: op_table).
struct OpDefinition {
  const char* domain;  // "" is ai.onnx
  const char* name;
  ConstList<OpVersion> versions;  // ascending `since`
  const char* notes = "";         // for docs/operators.md
  bool deterministic = true;      // false: never folded (random generators)
};

// All operators, in a fixed order.
std::span<const OpDefinition* const> AllOps();
// The definition, or null when Quern has no such operator.
const OpDefinition* FindOp(std::string_view domain, std::string_view name);
// The version in force at an operator set; null below the first.
const OpVersion* FindOpVersion(const OpDefinition& op, int opset);
// The version of a node, or an error: "node 'x' (Foo): operator ai.onnx.Foo is not known" and what to do.
Result<const OpVersion*> FindOpVersion(const Node& node);

// Checks the element types of a node's tensor inputs against the schema: each in its parameter's set, equal where they
// share a type variable. `dtype_of(user, i)` gives the type of input i, kUndefined when it is unknown or omitted.
Status CheckElementTypes(const Node& node, const OpVersion& version, DType (*dtype_of)(const void* user, int i),
                         const void* user);
// Checks a node against its schema: counts, attribute names, types and presence, element types where known.
Status CheckNode(const Node& node);

}  // namespace quern
