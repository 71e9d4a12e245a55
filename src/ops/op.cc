#include "ops/op.h"

#include <algorithm>
#include <tuple>

namespace quern {
namespace {

std::string DomainName(std::string_view domain) { return domain.empty() ? "ai.onnx" : std::string(domain); }

std::tuple<std::string_view, std::string_view> KeyOf(const OpDefinition* op) { return {op->domain, op->name}; }

const std::vector<const OpDefinition*>& SortedOps() {
  static const std::vector<const OpDefinition*> sorted = [] {
    std::vector<const OpDefinition*> ops(AllOps().begin(), AllOps().end());
    std::sort(ops.begin(), ops.end(), [](auto* a, auto* b) { return KeyOf(a) < KeyOf(b); });
    return ops;
  }();
  return sorted;
}

std::string TypeNames(TypeSet types) {
  std::string names;
  for (int t = 0; t < 128; ++t) {
    const DType dtype = static_cast<DType>(t);
    if (!types.Has(dtype)) continue;
    if (!names.empty()) names += ", ";
    names += DTypeName(dtype);
  }
  return names;
}

const char* AttrTypeName(AttrType type) {
  switch (type) {
    case AttrType::kInt:
      return "int";
    case AttrType::kFloat:
      return "float";
    case AttrType::kString:
      return "string";
    case AttrType::kTensor:
      return "tensor";
    case AttrType::kGraph:
      return "graph";
    case AttrType::kInts:
      return "list of ints";
    case AttrType::kFloats:
      return "list of floats";
    case AttrType::kStrings:
      return "list of strings";
    case AttrType::kTensors:
      return "list of tensors";
    case AttrType::kGraphs:
      return "list of graphs";
    case AttrType::kType:
      return "type";
  }
  return "unknown";
}

AttrType TypeOfAttribute(const Attribute& attribute) {
  static constexpr AttrType kByIndex[] = {AttrType::kInt,     AttrType::kFloat,   AttrType::kString, AttrType::kTensor,
                                          AttrType::kGraph,   AttrType::kType,    AttrType::kInts,   AttrType::kFloats,
                                          AttrType::kStrings, AttrType::kTensors, AttrType::kGraphs};
  static_assert(std::size(kByIndex) == std::variant_size_v<Attribute>);
  return kByIndex[attribute.index()];
}

Status NodeError(const Node& node, std::string message) {
  return InvalidArgument(node.Describe() + ": " + std::move(message));
}

// The parameter that formal input or output i of a list belongs to; the last one when it is variadic.
const Param* ParamAt(std::span<const Param> params, int i) {
  if (i < static_cast<int>(params.size())) return &params[i];
  return !params.empty() && params.back().arity == Arity::kVariadic ? &params.back() : nullptr;
}

Status CheckCount(const Node& node, std::span<const Param> params, const std::vector<GraphValue*>& values,
                  const char* what, int minimum) {
  const int count = static_cast<int>(values.size());
  if (count > 0 && ParamAt(params, count - 1) == nullptr) {
    return NodeError(node, "has " + std::to_string(count) + " " + what + "s, at most " + std::to_string(params.size()) +
                               " are defined for operator set " + std::to_string(node.opset()));
  }
  if (count < minimum) {
    return NodeError(
        node, "has " + std::to_string(count) + " " + what + "s, at least " + std::to_string(minimum) + " are needed");
  }
  return OkStatus();
}

int RequiredCount(std::span<const Param> params) {
  int required = 0;
  for (int i = 0; i < static_cast<int>(params.size()); ++i) {
    const bool may_be_empty = params[i].arity == Arity::kVariadic && i > 0;
    if (params[i].arity != Arity::kOptional && !may_be_empty) required = i + 1;
  }
  return required;
}

}  // namespace

Status InferContext::Error(std::string message) const {
  return InvalidArgument(node().Describe() + ": " + std::move(message));
}
Status EvalContext::Error(std::string message) const {
  return InvalidArgument(node().Describe() + ": " + std::move(message));
}

const OpDefinition* FindOp(std::string_view domain, std::string_view name) {
  const std::vector<const OpDefinition*>& ops = SortedOps();
  const auto key = std::make_tuple(domain, name);
  auto it = std::lower_bound(ops.begin(), ops.end(), key, [](auto* op, const auto& k) { return KeyOf(op) < k; });
  return it != ops.end() && KeyOf(*it) == key ? *it : nullptr;
}

const OpVersion* FindOpVersion(const OpDefinition& op, int opset) {
  const OpVersion* found = nullptr;
  for (const OpVersion& version : op.versions) {
    if (version.since <= opset) found = &version;
  }
  return found;
}

Result<const OpVersion*> FindOpVersion(const Node& node) {
  const std::string full = DomainName(node.domain()) + "." + node.op_type();
  const OpDefinition* op = FindOp(node.domain(), node.op_type());
  if (op == nullptr) {
    return Unsupported(node.Describe() + ": operator " + full +
                       " is not known; replace it in the model by standard operators, or run it with a provider that "
                       "has it");
  }
  const OpVersion* version = FindOpVersion(*op, node.opset());
  if (version == nullptr) {
    return Unsupported(node.Describe() + ": operator " + full + " exists from operator set " +
                       std::to_string(op->versions.front().since) + ", the model follows " +
                       std::to_string(node.opset()) + "; convert the model to a newer operator set");
  }
  return version;
}

Status CheckElementTypes(const Node& node, const OpVersion& version, DType (*dtype_of)(const void* user, int i),
                         const void* user) {
  struct Bound {
    std::string_view var;
    DType dtype;
    int input;
  };
  Bound bound[16];
  int num_bound = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Param* param = ParamAt(version.inputs, i);
    if (param == nullptr || param->kind != ValueKind::kTensor) continue;
    const DType dtype = dtype_of(user, i);
    if (dtype == DType::kUndefined) continue;
    if (!param->types.Has(dtype)) {
      return NodeError(node, std::string("input ") + param->name + " has element type " + DTypeName(dtype) +
                                 "; operator set " + std::to_string(node.opset()) + " takes " +
                                 TypeNames(param->types));
    }
    if (param->type_var[0] == '\0' || (param->arity == Arity::kVariadic && !param->homogeneous)) continue;
    const Bound* end = bound + num_bound;
    const Bound* same =
        std::find_if(bound, bound + num_bound, [&](const Bound& b) { return b.var == param->type_var; });
    if (same == end) {
      if (num_bound < 16) bound[num_bound++] = {param->type_var, dtype, i};
    } else if (same->dtype != dtype) {
      return NodeError(node, std::string("input ") + param->name + " has element type " + DTypeName(dtype) + " but " +
                                 ParamAt(version.inputs, same->input)->name + " has " + DTypeName(same->dtype) +
                                 "; both must be the same");
    }
  }
  return OkStatus();
}

Status CheckNode(const Node& node) {
  QUERN_ASSIGN_OR_RETURN(const OpVersion* version, FindOpVersion(node));
  QUERN_RETURN_IF_ERROR(CheckCount(node, version->inputs, node.inputs(), "input", RequiredCount(version->inputs)));
  QUERN_RETURN_IF_ERROR(CheckCount(node, version->outputs, node.outputs(), "output", version->min_outputs));
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Param* param = ParamAt(version->inputs, i);
    if (node.input(i) == nullptr && param->arity != Arity::kOptional) {
      return NodeError(node, std::string("input ") + param->name + " is omitted but required");
    }
  }
  for (const auto& [name, attribute] : node.attributes()) {
    auto it = std::find_if(version->attributes.begin(), version->attributes.end(),
                           [&](const AttrSpec& spec) { return spec.name == name; });
    if (it == version->attributes.end()) {
      return NodeError(node,
                       "attribute '" + name + "' is not defined for operator set " + std::to_string(node.opset()));
    }
    if (TypeOfAttribute(attribute) != it->type) {
      return NodeError(node, "attribute '" + name + "' is a " + AttrTypeName(TypeOfAttribute(attribute)) +
                                 ", it must be a " + AttrTypeName(it->type));
    }
  }
  for (const AttrSpec& spec : version->attributes) {
    if (spec.required && !node.attributes().contains(spec.name)) {
      return NodeError(node, std::string("attribute '") + spec.name + "' is required");
    }
  }
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Param* param = ParamAt(version->inputs, i);
    if (node.input(i) == nullptr || param->kind == ValueKind::kNone) continue;
    const ValueType& type = node.input(i)->type();
    const bool known = type.kind != ValueKind::kNone && (type.dtype != DType::kUndefined || !type.is_tensor());
    const bool tensor = param->kind == ValueKind::kTensor;
    if (known && (tensor ? !type.is_tensor() : type.kind != param->kind)) {
      return NodeError(node, std::string("input ") + param->name + " is a " + ValueKindName(type.kind) + ", a " +
                                 ValueKindName(param->kind) + " is needed");
    }
  }
  return CheckElementTypes(
      node, *version,
      [](const void* user, int i) {
        const GraphValue* value = static_cast<const Node*>(user)->input(i);
        return value != nullptr && value->type().is_tensor() ? value->type().dtype : DType::kUndefined;
      },
      &node);
}

}  // namespace quern
