// Nodes whose result is known before any run become constants, computed by the reference evaluation:
//   %c = Add(%a, %b)                    (%a, %b constants)  ->  const %c = f32[2] {3.0, 4.0}
//   %s: i64[2] data [2,3] = Shape(%x)                       ->  const %s = i64[2] {2, 3}
// Not folded: random operators, nodes with subgraphs, results much larger than what they come from (the model would
// grow), large weights that are transposed for products, DequantizeLinear (providers use the quantized weights), block
// formats, sequences and optionals (an empty one does not tell what it holds), and nodes whose evaluation fails (a run
// says so).
#include <algorithm>

#include "base/mapped_file.h"
#include "ops/evaluate.h"
#include "ops/op.h"
#include "passes/formula.h"
#include "passes/passes.h"

namespace quern {
namespace {

// A result may be this much larger than its inputs: room for scalars, index vectors and small masks.
constexpr int64_t kFreeBytes = int64_t{64} << 10;
// What all results beyond that may add to the model: biases by relative position, gathered from a table for all pairs.
constexpr int64_t kGrowthBytes = int64_t{16} << 20;

// Repeats what others can read where it lies; whatever the constants are, nothing is gained.
bool OnlyRepeats(const Node& n) { return n.Is("Expand") || n.Is("Tile") || n.Is("ConstantOfShape"); }

// The constant that the propagated elements of an integer value spell, if all are numbers.
std::optional<Value> FromData(const GraphValue& v) {
  if (!v.data() || !AllConstant(*v.data()) || !v.type().has_static_shape()) return std::nullopt;
  const Dims& extents = *v.type().shape;
  const int64_t count = static_cast<int64_t>(v.data()->size());
  if (extents.size() > 1 || (extents.empty() ? count != 1 : !extents[0].is_constant(count))) return std::nullopt;
  Shape shape;
  if (!extents.empty()) shape.push_back(count);
  Result<Tensor> t = Status(StatusCode::kUnsupported, "type");
  if (v.type().dtype == DType::kI64 || v.type().dtype == DType::kI32) t = Tensor::Allocate(v.type().dtype, shape);
  if (!t.ok()) return std::nullopt;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t x = (*v.data())[static_cast<size_t>(i)].value();
    if (v.type().dtype == DType::kI64) {
      t->data<int64_t>()[i] = x;
    } else {
      if (x < INT32_MIN || x > INT32_MAX) return std::nullopt;
      t->data<int32_t>()[i] = static_cast<int32_t>(x);
    }
  }
  return Value(std::move(t).value());
}

int64_t BytesOf(const Value& v) {
  switch (v.kind()) {
    case ValueKind::kTensor:
      return static_cast<int64_t>(v.tensor().bytes());
    case ValueKind::kStringTensor: {
      int64_t bytes = 0;
      for (const std::string& s : v.strings().values) bytes += static_cast<int64_t>(s.size() + sizeof s);
      return bytes;
    }
    default:
      return 0;
  }
}

// The inputs, if all are constants that may be folded.
std::optional<std::vector<Value>> ConstantInputs(const Node& n) {
  std::vector<Value> inputs;
  for (const GraphValue* v : n.inputs()) {
    if (v == nullptr) {
      inputs.emplace_back();
      continue;
    }
    const Value* content = v->constant();
    if (content == nullptr || (content->is_tensor() && IsBlockType(content->tensor().dtype()))) return std::nullopt;
    inputs.push_back(*content);
  }
  return inputs;
}

bool MayFold(const Node& n) {
  if (!n.captures().empty() || !n.subgraphs().empty() || n.Is("DequantizeLinear")) return false;
  const OpDefinition* op = FindOp(n.domain(), n.op_type());
  return op != nullptr && op->deterministic;
}

// Large weights that are transposed for products alone: kernels pack them either way round, and a transposed copy would
// be kept beside the file's.
bool IsTransposedForProducts(const Node& n) {
  constexpr size_t kLarge = size_t{1} << 20;
  if (!IsWhole(n, "Transpose") || !n.input(0)->is_constant() || !n.input(0)->constant()->is_tensor()) return false;
  const Tensor& t = n.input(0)->constant()->tensor();
  if (t.rank() != 2 || t.bytes() < kLarge || !IsFloatType(t.dtype())) return false;
  const std::span<const Use> uses = n.output(0)->uses();
  return !uses.empty() && std::ranges::all_of(uses, [](const Use& u) {
    return u.node != nullptr && u.index == 1 && u.node->Is("MatMul");
  });
}

// The results in the order of the outputs, or nothing when the node stays. `growth` is what is left of kGrowthBytes.
std::optional<std::vector<Value>> Fold(const Node& n, const Limits& limits, int64_t& growth) {
  if (!MayFold(n) || IsTransposedForProducts(n)) return std::nullopt;
  const std::optional<std::vector<Value>> inputs = ConstantInputs(n);
  if (!inputs) return std::nullopt;
  int64_t allowed = kFreeBytes;
  for (const Value& v : *inputs) allowed += BytesOf(v);
  for (const auto& [name, attribute] : n.attributes()) {
    if (const Value* v = std::get_if<Value>(&attribute)) allowed += BytesOf(*v);
  }
  const int64_t free = allowed;
  allowed = std::min(allowed + (OnlyRepeats(n) ? 0 : growth), limits.folded_bytes);
  for (const GraphValue* v : n.outputs()) {  // before any work, where the shape is known
    if (v == nullptr) continue;
    if (!v->type().is_tensor()) return std::nullopt;
    if (!v->type().has_static_shape()) continue;
    const Result<int64_t> count = Product(*v->type().shape).Evaluate([](std::string_view) { return std::nullopt; });
    if (!count.ok() || *count / 4 > allowed) return std::nullopt;  // the smallest elements have 2 bits
  }
  Limits evaluation = limits;
  evaluation.tensor_bytes = std::min(limits.tensor_bytes, allowed);
  Result<std::vector<Value>> outputs = EvaluateNode(n, *inputs, evaluation);
  if (!outputs.ok() || outputs->size() != static_cast<size_t>(n.num_outputs())) return std::nullopt;
  int64_t bytes = 0;
  for (int i = 0; i < n.num_outputs(); ++i) {
    const Value& v = (*outputs)[static_cast<size_t>(i)];
    if (n.output(i) != nullptr && !v.has_value()) return std::nullopt;
    bytes += BytesOf(v);
  }
  if (bytes > allowed) return std::nullopt;
  growth -= std::max<int64_t>(0, bytes - free);
  return std::move(outputs).value();
}

Result<int> Run(Graph& graph, const void* context) {
  const Limits limits = LimitsOf(context);
  int changes = 0;
  int64_t growth = kGrowthBytes;
  bool evaluated = false;
  for (Node* n = graph.first_node(); n != nullptr;) {
    Node* next = n->next();
    std::vector<GraphValue*> outputs;
    for (GraphValue* v : n->outputs()) {
      if (v != nullptr) outputs.push_back(v);
    }
    if (std::optional<std::vector<Value>> folded = outputs.empty() ? std::nullopt : Fold(*n, limits, growth)) {
      evaluated = true;
      std::vector<Value> contents;
      for (const GraphValue* v : outputs) contents.push_back((*folded)[static_cast<size_t>(v->producer_index())]);
      // Unused outputs would go with the node while the loop still holds them.
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!outputs[i]->uses().empty()) continue;
        graph.OmitOutput(n, outputs[i]->producer_index());
        outputs[i] = nullptr;
      }
      const size_t used = static_cast<size_t>(
          std::count_if(outputs.begin(), outputs.end(), [](const GraphValue* v) { return v != nullptr; }));
      if (used == 0) graph.Remove(n);
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] != nullptr) graph.TurnIntoConstant(outputs[i], contents[i]);
      }
      ++changes;
    } else if (outputs.size() == 1 && !outputs[0]->uses().empty() && MayFold(*n)) {
      if (std::optional<Value> content = FromData(*outputs[0])) {
        graph.TurnIntoConstant(outputs[0], *content);
        ++changes;
      }
    }
    n = next;
  }
  if (evaluated) {  // the constants may view files that shrank meanwhile
    for (const auto& file : graph.mapped_files) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  }
  return changes;
}

}  // namespace

extern const Pass kFoldConstants = {"fold_constants", "compute what is known before any run", Run};

}  // namespace quern
