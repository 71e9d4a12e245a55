// quern inspect: a model as the file has it, and what each stage of compilation makes of it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "command.h"
#include "feeds.h"
#include "json.h"
#include "table.h"

namespace quern_tool {
namespace {

struct InspectArguments {
  CommonOptions common;
  FeedOptions feeds;
  std::string model;
  std::string stage = "file";
  bool json = false;
  bool no_text = false;
};

void PrintPorts(const char* heading, const Json& ports) {
  std::printf("%s\n", heading);
  for (const Json& p : ports) std::printf("  %s  %s\n", Text(p, "name").c_str(), Text(p, "type").c_str());
}

void PrintOperators(const Json& operators) {
  Table table({">count", "operator"});
  for (const Json& op : operators) table.Add({Text(op, "count"), Operator(op)});
  table.Print();
}

void PrintFile(const Json& doc) {
  PrintPorts("inputs", doc["inputs"]);
  PrintPorts("outputs", doc["outputs"]);
  std::string opsets;
  for (const auto& [domain, version] : doc["opsets"].items()) {
    opsets +=
        (opsets.empty() ? "" : ", ") + (domain.empty() ? std::string("ai.onnx") : domain) + " " + Dump(version, -1);
  }
  std::printf("operator sets  %s\n", opsets.c_str());
  std::printf("operators  %s nodes\n", Text(doc, "nodes").c_str());
  PrintOperators(doc["operators"]);
  const Json& parameters = doc["parameters"];
  std::printf("parameters  %s elements in %s tensors, %s\n", Text(parameters, "elements").c_str(),
              Text(parameters, "tensors").c_str(), FormatBytes(parameters["bytes"].get<double>()).c_str());
  Table by_dtype({"type", ">tensors", ">elements", ">bytes"});
  for (const Json& d : parameters["by_dtype"]) {
    by_dtype.Add({Text(d, "dtype"), Text(d, "tensors"), Text(d, "elements"), FormatBytes(d["bytes"].get<double>())});
  }
  by_dtype.Print();
  if (!doc["metadata"].empty()) {
    std::printf("metadata\n");
    for (const auto& [key, text] : doc["metadata"].items()) {
      std::printf("  %s = %s\n", key.c_str(), text.get<std::string>().substr(0, 200).c_str());
    }
  }
}

void PrintPasses(const Json& passes, const char* indent) {
  Table table({"pass", ">changes", ">time"});
  for (const Json& p : passes) {
    table.Add({Text(p, "name") + (p.contains("skipped") ? " (skipped)" : ""), Text(p, "changes"),
               FormatSeconds(p["seconds"].get<double>())});
  }
  table.Print(indent);
}

void PrintNeutral(const Json& stage) {
  std::printf("neutral passes\n");
  PrintPasses(stage["passes"], "  ");
  std::printf("operators  %s nodes\n", Text(stage, "nodes").c_str());
  PrintOperators(stage["operators"]);
}

// The number of elements of the node's largest output, as far as extents are numbers.
std::string MostElements(const Json& node) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < node["elements"].size(); ++i) {
    const Json& e = node["elements"][i];
    if (e.is_number_integer()) {
      most = std::max(most, e.get<std::int64_t>());
    } else if (node["outputs"][i] != "") {
      return e.is_null() ? "not known" : "symbolic";
    }
  }
  return std::to_string(most);
}

void PrintPartition(const Json& stage) {
  Table table({"node", "operator", ">elements", "provider", ">cluster", "not taken by"});
  for (const Json& n : stage["nodes"]) {
    std::string reasons;
    for (const Json& r : n["rejections"]) {
      reasons += (reasons.empty() ? "" : "; ") + Text(r, "provider") + ": " + Text(r, "reason");
    }
    table.Add({NodeName(n), Operator(n), MostElements(n), Text(n, "provider"), Text(n, "cluster"), reasons});
  }
  table.Print("");
  std::string counts;
  for (const Json& c : stage["clusters"]) {
    counts += (counts.empty() ? "" : ", ") + Text(c, "provider") + " " + Text(c, "nodes");
  }
  std::printf("clusters, with nodes: %s\n", counts.empty() ? "none" : counts.c_str());
}

void PrintCompiled(const Json& stage, bool verbose) {
  Table table({"node", "operator", "provider", "micro-kernel", "why", "layout", ">packed"});
  for (const Json& n : stage["nodes"]) {
    const bool packed = n.contains("packed_bytes") && n["packed_bytes"].get<double>() > 0;
    table.Add({NodeName(n), Operator(n), Text(n, "provider"), Text(n, "kernel"), Text(n, "why"), Text(n, "layout"),
               packed ? FormatBytes(n["packed_bytes"].get<double>()) : ""});
  }
  table.Print("");
  std::printf("packed weights  %s\n", FormatBytes(stage["packed_bytes"].get<double>()).c_str());
  if (!verbose) return;
  std::printf("provider passes\n");
  for (const Json& c : stage["clusters"]) {
    if (!c.contains("passes")) continue;
    std::printf("  %s\n", Text(c, "provider").c_str());
    PrintPasses(c["passes"], "    ");
  }
  for (const Json& n : stage["nodes"]) {
    if (!n.contains("rejected") || n["rejected"].empty()) continue;
    std::printf("not chosen for %s (%s)\n", NodeName(n).c_str(), Operator(n).c_str());
    Table rejected({"kernel", "why not"});
    for (const Json& r : n["rejected"]) rejected.Add({Text(r, "kernel"), Text(r, "reason")});
    rejected.Print();
  }
}

std::string ShapeText(const Json& value) {
  if (!value.contains("shape")) return "not known";
  return Text(value, "dtype") + Dump(value["shape"], -1);
}

void PrintPlan(const Json& stage) {
  if (stage.is_null()) {
    std::printf("no plan: the input shapes are not known; say them with --shape\n");
    return;
  }
  std::printf("inputs\n");
  for (const Json& v : stage["inputs"]) std::printf("  %s  %s\n", Text(v, "name").c_str(), ShapeText(v).c_str());
  double workspace = 0;
  Table table({">step", "provider", "node", "operator", "micro-kernel", ">scratch", "side by side"});
  int step = 0;
  for (const Json& s : stage["steps"]) {
    if (s.contains("workspace_bytes")) workspace += s["workspace_bytes"].get<double>();
    if (!s.contains("steps")) {
      table.Add({std::to_string(step++), Text(s, "provider"), "", "cluster " + Text(s, "cluster"), Text(s, "planned")});
      continue;
    }
    for (const Json& inner : s["steps"]) {
      const std::string node = Text(inner, "node");
      const bool scratch = inner.contains("scratch_bytes") && inner["scratch_bytes"].get<double>() > 0;
      table.Add({std::to_string(step++), Text(s, "provider"), node.empty() ? "=> " + Text(inner, "output") : node,
                 Text(inner, "op"), Text(inner, "kernel"),
                 scratch ? FormatBytes(inner["scratch_bytes"].get<double>()) : "", Text(inner, "side_by_side")});
    }
  }
  table.Print("");
  std::printf("memory  arena %s, of it workspaces %s\n", FormatBytes(stage["arena_bytes"].get<double>()).c_str(),
              FormatBytes(workspace).c_str());
  Table values({"value between clusters", "type", "place", ">bytes"});
  for (const Json& v : stage["values"]) {
    values.Add({Text(v, "name"), ShapeText(v), Text(v, "place"),
                v.contains("bytes") ? FormatBytes(v["bytes"].get<double>()) : ""});
  }
  values.Print("");
}

void PrintStage(const Json& doc, const InspectArguments& args) {
  const Json& stage = doc[args.stage];
  if (args.stage == "neutral") PrintNeutral(stage);
  if (args.stage == "partition") PrintPartition(stage);
  if (args.stage == "compiled") PrintCompiled(stage, args.common.verbose);
  if (args.stage == "plan") PrintPlan(stage);
  if (!doc.contains("subgraphs")) return;
  for (const Json& sub : doc["subgraphs"]) {
    std::printf("\nsubgraph '%s' of %s (%s)\n", Text(sub, "attribute").c_str(), NodeName(sub).c_str(),
                Operator(sub).c_str());
    PrintStage(sub, args);
  }
}

bool HasOpenShapes(const quern::Session& session) {
  for (std::size_t i = 0; i < session.num_inputs(); ++i) {
    const quern_port port = session.input(i);
    if (port.kind != QUERN_KIND_TENSOR || port.rank < 0) return true;
    for (std::int32_t d = 0; d < port.rank; ++d) {
      if (port.dims[d] < 0) return true;
    }
  }
  return false;
}

int Inspect(InspectArguments& args) {
  const quern::Model model = LoadModel(args.model, args.common.limits);
  if (args.stage == "file") {
    Json doc = ParseJson(model.Facts());
    if (args.json) {
      std::puts(Dump(doc).c_str());
      return 0;
    }
    PrintFile(doc);
    if (!args.no_text) std::printf("graph\n%s", model.Text().c_str());
    return 0;
  }
  quern::Session session(model, ToSessionOptions(args.common));
  if (args.stage == "plan" && (!args.feeds.shapes.empty() || HasOpenShapes(session))) {
    // A plan belongs to shapes: a run on made-up inputs (open extents are 1) makes it.
    args.feeds.random = true;
    Progress("running once on random inputs; --shape NAME=... sets their shapes");
    session.Run(MakeFeeds(session, args.feeds));
  }
  const Json doc = ParseJson(session.Facts(args.stage));
  if (args.json) {
    std::puts(Dump(doc).c_str());
    return 0;
  }
  PrintStage(doc, args);
  if (args.stage == "neutral" && !args.no_text) std::printf("graph\n%s", session.Text("neutral").c_str());
  if (args.common.verbose && !args.no_text && (args.stage == "partition" || args.stage == "compiled")) {
    std::printf("%s", session.Text(args.stage).c_str());
  }
  return 0;
}

}  // namespace

void AddInspect(CLI::App& app, int& status) {
  auto args = std::make_shared<InspectArguments>();
  CLI::App* sub = AddCommand(app, "inspect", "Show a model, and the kernel of each node with the reason");
  sub->add_option("model", args->model, "the ONNX model, or a graph in text form")->required()->type_name("MODEL");
  sub->add_option("--stage", args->stage,
                  "file: as it is stored; neutral: after the graph passes; partition: the provider of each node; "
                  "compiled: the micro-kernel of each node; plan: steps and memory for given shapes")
      ->type_name("STAGE")
      ->check(CLI::IsMember({"file", "neutral", "partition", "compiled", "plan"}));
  AddShapeOption(*sub, args->feeds);
  sub->add_flag("--no-text", args->no_text, "leave out the graph as text");
  sub->add_flag("--json", args->json, "print the facts as JSON");
  AddCommonOptions(*sub, args->common);
  sub->footer(
      "Examples:\n"
      "  quern inspect model.onnx\n"
      "  quern inspect model.onnx --stage partition\n"
      "  quern inspect model.onnx --stage compiled -v --cpu haswell\n"
      "  quern inspect model.onnx --stage plan --shape image=4x3x224x224 --json");
  sub->callback([args, &status] { status = Inspect(*args); });
}

}  // namespace quern_tool
