#include "format/onnx/writer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <set>
#include <vector>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "format/onnx/encoded_message.h"
#include "format/onnx/fields.h"
#include "format/onnx/graph_encoder.h"
#include "format/onnx/tensor_encoder.h"
#include "format/onnx/type_proto.h"
#include "graph/verifier.h"
#include "ops/infer.h"
#include "ops/op.h"

namespace quern {
namespace {

using onnx::EncodedMessage;
using onnx::EntryField;
using onnx::ExternalPlan;
using onnx::ModelField;
using onnx::OperatorSetIdField;
using Imports = std::map<std::string, int>;

constexpr uint64_t kLongestModel = std::numeric_limits<int32_t>::max();  // what protobuf readers accept
constexpr int kFirstIrOfInternalInitializers = 4;                        // before, each initializer is an input too

// Operator sets that follow the versions in `imports`: where one node says another, an operator of the same meaning.
class ImportChooser {
 public:
  Result<Imports> Choose(const Graph& graph) {
    Imports imports = graph.opset_imports;
    QUERN_RETURN_IF_ERROR(Collect(graph));
    for (const auto& [domain, operators] : used_) {
      QUERN_ASSIGN_OR_RETURN(imports[domain], Common(domain, operators, graph.opset(domain)));
    }
    constexpr int kAny = 17;
    if (imports.empty()) imports[""] = kAny;  // a model imports at least one
    return imports;
  }

 private:
  // Each operator and version that occurs, with a node.
  using Operators = std::map<std::pair<std::string, int>, const Node*>;

  Status Collect(const Graph& graph) {
    for (const Node* n = graph.first_node(); n != nullptr; n = n->next()) {
      if (n->opset() < 1) {
        return InvalidArgument(n->Describe() + ": no version of the operator set '" +
                               (n->domain().empty() ? "ai.onnx" : n->domain()) + "' is known");
      }
      used_[n->domain()].emplace(std::pair(n->op_type(), n->opset()), n);
      for (const auto& [name, subgraph] : n->subgraphs()) QUERN_RETURN_IF_ERROR(Collect(*subgraph));
    }
    return OkStatus();
  }

  static bool MeansTheSame(const Node& node, int version) {
    if (node.opset() == version) return true;
    const OpDefinition* op = FindOp(node.domain(), node.op_type());
    if (op == nullptr) return false;
    const OpVersion* is = FindOpVersion(*op, node.opset());
    return is != nullptr && is == FindOpVersion(*op, version);
  }

  static Result<int> Common(const std::string& domain, const Operators& operators, int preferred) {
    std::set<int, std::greater<>> versions;
    for (const auto& [key, node] : operators) versions.insert(key.second);
    const auto suits = [&](int version) {
      return std::all_of(operators.begin(), operators.end(),
                         [&](const auto& entry) { return MeansTheSame(*entry.second, version); });
    };
    if (preferred > 0 && suits(preferred)) return preferred;
    for (int version : versions) {
      if (suits(version)) return version;
    }
    const int newest = *versions.begin();
    const Node* other = nullptr;
    for (const auto& [key, node] : operators) {
      if (!MeansTheSame(*node, newest)) other = node;
    }
    return Unsupported(other->Describe() + " follows operator set " + std::to_string(other->opset()) + " of " +
                       (domain.empty() ? "ai.onnx" : domain) + ", other nodes " + std::to_string(newest) +
                       ", which changed the operator: a model has one version of each");
  }

  std::map<std::string, Operators> used_;
};

// The IR version that the onnx package gives to models of an operator set.
int DefaultIrVersion(const Imports& imports) {
  struct Row {
    const char* domain;
    int opset, ir_version;  // from this operator set on
  };
  constexpr Row kRows[] = {{"", 1, 3},           {"", 9, 4},           {"", 10, 5},          {"", 11, 6},
                           {"", 12, 7},          {"", 15, 8},          {"", 19, 9},          {"", 21, 10},
                           {"", 23, 11},         {"", 24, 12},         {"", 25, 13},         {"", 28, 14},
                           {"ai.onnx.ml", 3, 8}, {"ai.onnx.ml", 4, 9}, {"ai.onnx.ml", 5, 10}};
  int version = kFirstIrOfInternalInitializers;
  for (const Row& row : kRows) {
    const auto import = imports.find(row.domain);
    if (import != imports.end() && import->second >= row.opset) version = std::max(version, row.ir_version);
  }
  return version;
}

Result<int64_t> Number(const std::string& key, const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("metadata '" + key + "' is '" + text.substr(0, 100) + "', not a number");
  }
  return number;
}

Result<int64_t> IrVersion(const Graph& graph, const Imports& imports) {
  const auto given = graph.metadata.find("onnx.ir_version");
  if (given == graph.metadata.end()) return static_cast<int64_t>(DefaultIrVersion(imports));
  QUERN_ASSIGN_OR_RETURN(const int64_t version, Number(given->first, given->second));
  if (version < 1 || version > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("metadata 'onnx.ir_version' is " + given->second);
  }
  std::set<std::string_view> inputs;
  for (const auto& [name, type] : graph.overridable) inputs.insert(name);
  bool all_inputs = true;
  for (const GraphValue* v : graph.constants()) all_inputs = all_inputs && inputs.count(v->name()) != 0;
  const auto has_constants = [](const Graph& g, const auto& self) -> bool {
    for (const Node* n = g.first_node(); n != nullptr; n = n->next()) {
      for (const auto& [name, subgraph] : n->subgraphs()) {
        if (!subgraph->constants().empty() || self(*subgraph, self)) return true;
      }
    }
    return false;
  };
  if (all_inputs && !has_constants(graph, has_constants)) return version;
  return std::max<int64_t>(version, kFirstIrOfInternalInitializers);
}

// The types to write for the outputs: inference fills in what the graph does not know.
std::vector<ValueType> OutputTypes(const Graph& graph, const Limits& limits) {
  std::vector<ValueType> types;
  bool complete = true;
  for (const GraphValue* v : graph.outputs()) {
    types.push_back(v->type());
    complete = complete && onnx::HasElementTypes(v->type()) && (!v->type().is_tensor() || v->type().has_rank());
  }
  if (complete) return types;
  const std::unique_ptr<Graph> copy = graph.Clone();
  InferOptions options;
  options.limits = limits;
  if (!InferShapes(*copy, options).ok()) return types;  // runs say what is wrong
  for (size_t i = 0; i < types.size(); ++i) {
    Result<ValueType> merged = MergeTypes(types[i], copy->outputs()[i]->type());
    if (merged.ok()) types[i] = std::move(merged).value();
  }
  return types;
}

EncodedMessage Entry(std::string_view key, std::string_view value) {
  EncodedMessage entry;
  entry.Fields().add_string(EntryField::kKey, key.data(), key.size());
  entry.Fields().add_string(EntryField::kValue, value.data(), value.size());
  return entry;
}

Status AddFacts(const Graph& graph, const OnnxWriteOptions& options, EncodedMessage* model) {
  constexpr std::pair<const char*, int> kTexts[] = {{"onnx.producer_name", ModelField::kProducerName},
                                                    {"onnx.producer_version", ModelField::kProducerVersion},
                                                    {"onnx.domain", ModelField::kDomain},
                                                    {"onnx.doc_string", ModelField::kDocString}};
  for (const auto& [key, value] : graph.metadata) {
    const auto text = std::find_if(std::begin(kTexts), std::end(kTexts), [&](const auto& t) { return key == t.first; });
    if (text != std::end(kTexts)) {
      model->Fields().add_string(static_cast<protozero::pbf_tag_type>(text->second), value);
    } else if (key == "onnx.model_version") {
      QUERN_ASSIGN_OR_RETURN(const int64_t version, Number(key, value));
      model->Fields().add_int64(ModelField::kModelVersion, version);
    } else if (key != "onnx.ir_version") {
      model->AddMessage(ModelField::kMetadataProps, Entry(key, value));
    }
  }
  if (graph.metadata.count("onnx.ir_version") != 0) return OkStatus();
  if (!options.producer_name.empty() && graph.metadata.count("onnx.producer_name") == 0) {
    model->Fields().add_string(ModelField::kProducerName, options.producer_name);
    model->Fields().add_string(ModelField::kProducerVersion, options.producer_version);
  }
  return OkStatus();
}

Result<EncodedMessage> EncodeModel(const Graph& graph, const OnnxWriteOptions& options, ExternalPlan* external) {
  QUERN_RETURN_IF_ERROR(Verify(graph, options.limits));
  QUERN_ASSIGN_OR_RETURN(const Imports imports, ImportChooser().Choose(graph));
  QUERN_ASSIGN_OR_RETURN(const int64_t ir_version, IrVersion(graph, imports));
  EncodedMessage model;
  model.Fields().add_int64(ModelField::kIrVersion, ir_version);
  for (const auto& [domain, version] : imports) {
    EncodedMessage import;
    import.Fields().add_string(OperatorSetIdField::kDomain, domain);
    import.Fields().add_int64(OperatorSetIdField::kVersion, version);
    model.AddMessage(ModelField::kOpsetImport, std::move(import));
  }
  QUERN_RETURN_IF_ERROR(AddFacts(graph, options, &model));
  QUERN_ASSIGN_OR_RETURN(EncodedMessage body, onnx::EncodeGraph(graph, OutputTypes(graph, options.limits), external));
  model.AddMessage(ModelField::kGraph, std::move(body));
  if (model.size() > kLongestModel) {
    return ResourceExhausted("the model has " + std::to_string(model.size()) +
                             " bytes, protobuf ends at 2 GB: write large tensors as external data");
  }
  return model;
}

Status CheckIntact(const Graph& graph) {
  for (const auto& file : graph.mapped_files) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  return OkStatus();
}

Status WriteTensors(const ExternalPlan& external, OutputFile* file) {
  for (const auto& [offset, tensor] : external.tensors()) {
    QUERN_RETURN_IF_ERROR(file->WriteZeros(offset - file->size()));
    QUERN_RETURN_IF_ERROR(file->Write({static_cast<const char*>(tensor.raw_data()), tensor.bytes()}));
  }
  return file->Close();
}

Result<ExternalPlan> PlanExternal(const std::string& path, const OnnxWriteOptions& options) {
  const std::string model = std::filesystem::path(path).filename().string();
  const std::string name = options.external_name.empty() ? model + ".data" : options.external_name;
  if (name == "." || name == ".." || name == model || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return InvalidArgument("the external data '" + name + "' must be a file beside the model, with a name of its own");
  }
  return ExternalPlan(name, options.external_bytes);
}

}  // namespace

Status WriteOnnxFile(const Graph& graph, const std::string& path, const OnnxWriteOptions& options) {
  std::optional<ExternalPlan> external;
  if (options.external_data) {
    QUERN_ASSIGN_OR_RETURN(external, PlanExternal(path, options));
  }
  Result<EncodedMessage> model = EncodeModel(graph, options, external ? &*external : nullptr);
  if (!model.ok()) return model.status().WithContext(path);
  QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  std::unique_ptr<OutputFile> data;
  Status status;
  if (external && external->size() > 0) {
    const std::filesystem::path beside = std::filesystem::path(path).parent_path() / external->location();
    QUERN_ASSIGN_OR_RETURN(data, OutputFile::Create(beside.string()));
    status = WriteTensors(*external, data.get());
  }
  if (status.ok()) status = model->ForEachPiece([&](std::string_view bytes) { return file->Write(bytes); });
  if (status.ok()) status = file->Close();
  // First: a file that was cut short while it was read explains a failed write, and zeros would look like weights.
  QUERN_RETURN_IF_ERROR(CheckIntact(graph));
  QUERN_RETURN_IF_ERROR(status);
  if (data) {
    // Between the two an older model must not be seen with the new tensors.
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    QUERN_RETURN_IF_ERROR(data->Publish());
  }
  return file->Publish();
}

Result<std::string> WriteOnnx(const Graph& graph, const OnnxWriteOptions& options) {
  QUERN_ASSIGN_OR_RETURN(EncodedMessage model, EncodeModel(graph, options, nullptr));
  std::string bytes = std::move(model).ToString();
  QUERN_RETURN_IF_ERROR(CheckIntact(graph));
  return bytes;
}

}  // namespace quern
