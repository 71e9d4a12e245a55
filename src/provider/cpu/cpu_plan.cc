// Plans a compiled cluster for given shapes: views, in-place results, branches, the arena.
#include <algorithm>
#include <cstring>

#include "ops/infer.h"
#include "provider/cpu/cpu_executable.h"
#include "provider/cpu/cpu_infer.h"
#include "provider/cpu/plan_specs.h"
#include "provider/host.h"

namespace quern::cpu {
namespace {

// Parts of parts of parts: as deep as the dense blocks of networks are, not as a hostile model may be.
constexpr int kMostWholes = 100;

}  // namespace

std::vector<TensorSpec> SpecsOf(const std::vector<int>& ids, const std::vector<PlanFacts>& facts) {
  std::vector<TensorSpec> specs;
  specs.reserve(ids.size());
  for (int v : ids) specs.push_back(v < 0 ? TensorSpec{} : facts[v].spec);
  return specs;
}

void NodeSpecs::Set(const CompiledNode& node, const std::vector<PlanFacts>& facts) {
  const auto fill = [&](const std::vector<int>& ids, std::vector<TensorSpec>& specs) {
    specs.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) specs[i] = ids[i] < 0 ? TensorSpec{} : facts[ids[i]].spec;
  };
  fill(node.inputs, in);
  fill(node.outputs, out);
}

bool NodeSpecs::AreOf(const CompiledNode& node, const std::vector<PlanFacts>& facts) const {
  const auto same = [&](const std::vector<int>& ids, const std::vector<TensorSpec>& specs) {
    return std::ranges::equal(
        ids, specs, [&](int v, const TensorSpec& spec) { return v < 0 ? !spec.present() : spec == facts[v].spec; });
  };
  return same(node.inputs, in) && same(node.outputs, out);
}

NodeWork WorkOfStep(const CompiledNode& node, const std::vector<TensorSpec>& in, const std::vector<TensorSpec>& out) {
  const auto types = [](const std::vector<TensorSpec>& specs, uint64_t packed) {
    std::vector<OperandType> list;
    for (size_t i = 0; i < specs.size(); ++i) {
      const bool constant = specs[i].constant != nullptr || (i < 64 && (packed >> i & 1) != 0);
      list.push_back({specs[i].dtype, specs[i].shape, constant});
    }
    return list;
  };
  return WorkOf(*node.node, types(in, node.kernel->packed_inputs()), types(out, 0), node.packed_bytes);
}

// Of a value of this type, and of this content where it is known.
static Result<PlanFacts> FactsOf(const GraphValue& value, const ValueType& type, const std::optional<Dims>& data) {
  if (!type.has_static_shape() || type.dtype == DType::kUndefined) {
    return Internal("value '" + value.name() + "' has type " + TypeToString(type) +
                    " while planning; the CPU provider should not have claimed its producer");
  }
  PlanFacts facts;
  facts.spec.dtype = type.dtype;
  for (const Dim& d : *type.shape) facts.spec.shape.push_back(d.value());
  const Result<size_t> bytes = TensorBytes(facts.spec.dtype, facts.spec.shape);
  if (!bytes.ok()) return bytes.status().WithContext("value '" + value.name() + "'");
  facts.spec.strides = facts.spec.shape.ContiguousStrides();
  if (data && AllConstant(*data)) {
    std::vector<int64_t> content;
    for (const Dim& d : *data) content.push_back(d.value());
    facts.content = std::make_shared<const std::vector<int64_t>>(std::move(content));
  }
  return facts;
}

Status CpuPlan::InferFacts(std::span<const quern_tensor_view> inputs, bool contents, PlanSeed& seed,
                           BoundSteps& bound) const {
  std::vector<ValueType> types;
  std::vector<Value> known;
  for (const quern_tensor_view& v : inputs) {
    // Kernels were compiled for the rank that the model promises, which a branch of an If may break.
    const GraphValue& input = *executable_.graph().inputs()[types.size()];
    if (input.type().has_rank() && input.type().rank() != v.rank) {
      return InvalidArgument("value '" + input.name() + "' is of rank " + std::to_string(v.rank) + ", but of " +
                             std::to_string(input.type().rank()) + " where it is used");
    }
    types.push_back(ValueType::Tensor(static_cast<DType>(v.dtype), Dims(v.dims, v.dims + v.rank)));
    known.emplace_back();
    if (contents && v.data != nullptr) known.back() = TensorOf(v);
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<const GraphValue*> changed,
                         UpdateCluster(executable_.graph(), types, known, seed.shapes));
  for (const GraphValue* v : changed) {
    QUERN_ASSIGN_OR_RETURN(seed.facts[executable_.id(v)], FactsOf(*v, seed.shapes.type(v), seed.shapes.data(v)));
  }
  bound.facts = seed.facts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    PlanFacts& f = bound.facts[executable_.input_value(static_cast<int>(i))];
    f.spec.strides = StridesOf(inputs[i]);
    f.spec.contiguous = IsContiguous(f.spec.shape, f.spec.strides);
  }
  return OkStatus();
}

bool CpuPlan::ReadersTakeStrides(int value, const Shape& shape, const Shape& strides, const BoundSteps& bound,
                                 int depth) const {
  for (int n : executable_.values()[value].readers) {
    const CompiledNode& node = executable_.nodes()[n];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] != value) continue;
      if (!node.kernel->TakesInputStrides(k, shape, strides)) return false;
      if (node.kernel->only_shows() && !ShowsStrides(node, shape, strides, bound, depth)) return false;
    }
  }
  return true;
}

// Whether output 0 of the node is a view of input 0 in memory of these strides, whose readers take it so.
bool CpuPlan::ShowsStrides(const CompiledNode& node, const Shape& shape, const Shape& strides, const BoundSteps& bound,
                           int depth) const {
  constexpr int kMostShown = 8;
  const int y = node.outputs[0];
  if (depth >= kMostShown || y < 0 || executable_.values()[y].output >= 0) return false;
  std::vector<TensorSpec> in = SpecsOf(node.inputs, bound.facts), out = SpecsOf(node.outputs, bound.facts);
  in[0].shape = shape;
  in[0].strides = strides;
  in[0].contiguous = IsContiguous(shape, strides);
  const Placement place = node.kernel->Place({in, out, concurrency_});
  const Placement::View* view = place.ViewOf(0);
  return view && ReadersTakeStrides(y, out[0].shape, view->strides, bound, depth + 1);
}

const Placement::Part* CpuPlan::PartOf(const Placement& place, int input) {
  for (const Placement::Part& p : place.parts) {
    if (p.input == input) return &p;
  }
  return nullptr;
}

// Where a part lies: in the memory of what it is a part of, which may be a part itself.
Location CpuPlan::LocatePart(int v, BoundSteps& bound) const {
  const Decision& d = decisions_[v];
  if (d.kind != Decision::Kind::kPart) return {Location::Base::kWorkspace, 0, d.buffer, 0};
  const CompiledNode& joining = executable_.nodes()[d.whole_node];
  const int whole = joining.outputs[0];
  Location at = LocatePart(whole, bound);
  const std::vector<TensorSpec> in = SpecsOf(joining.inputs, bound.facts), out = SpecsOf({whole}, bound.facts);
  const Placement place = joining.kernel->Place({in, out, concurrency_});
  TensorSpec& spec = bound.facts[v].spec;
  at.offset += PartOf(place, d.whole_input)->offset * static_cast<int64_t>(DTypeBytes(spec.dtype));
  spec.strides = out[0].strides;
  spec.contiguous = IsContiguous(spec.shape, spec.strides);
  return at;
}

bool CpuPlan::MayBePart(int v, const CompiledNode& joining, const Shape& strides, const BoundSteps& bound) const {
  if (v < 0 || decisions_[v].kind != Decision::Kind::kNone || std::ranges::count(joining.inputs, v) != 1) return false;
  const ValueEntry& e = executable_.values()[v];
  const Shape& shape = bound.facts[v].spec.shape;
  if (e.producer < 0 || e.output >= 0 || shape.num_elements() == 0) return false;
  const CompiledNode& producer = executable_.nodes()[e.producer];
  if (!producer.kernel) return false;
  const auto k = static_cast<int>(std::ranges::find(producer.outputs, v) - producer.outputs.begin());
  if (!producer.kernel->TakesOutputStrides(static_cast<size_t>(k), shape, strides)) return false;
  const std::vector<TensorSpec> in = SpecsOf(producer.inputs, bound.facts),
                                out = SpecsOf(producer.outputs, bound.facts);
  if (producer.kernel->Place({in, out, concurrency_}).ViewOf(k)) return false;
  return ReadersTakeStrides(v, shape, strides, bound);
}

// Inputs of nodes that put them side by side are computed at their places, where their producers and readers can do
// with the strides. From the last node on, so that a part of a part finds its place too.
void CpuPlan::DecideParts(BoundSteps& bound) {
  const auto& nodes = executable_.nodes();
  const auto& values = executable_.values();
  for (int n = static_cast<int>(nodes.size()) - 1; n >= 0; --n) {
    const CompiledNode& node = nodes[n];
    if (!node.kernel || !node.kernel->has_parts() || node.outputs.size() != 1 || node.outputs[0] < 0) continue;
    const int whole = node.outputs[0];
    // What is given for an output may be the memory of an input that is still to be read.
    if (values[whole].output >= 0 || decisions_[whole].depth >= kMostWholes) continue;
    specs_.Set(node, bound.facts);
    const TensorSpec& result = specs_.out[0];
    for (const Placement::Part& part : node.kernel->Place({specs_.in, specs_.out, concurrency_}).parts) {
      const int v = node.inputs[part.input];
      if (!MayBePart(v, node, result.strides, bound)) continue;
      if (decisions_[whole].kind == Decision::Kind::kNone) {
        const int last = values[whole].readers.empty() ? n : values[whole].readers.back();
        decisions_[whole] = {.kind = Decision::Kind::kBuffer, .buffer = NewBuffer(BytesOf(result), n, last)};
      }
      decisions_[v] = {.kind = Decision::Kind::kPart,
                       .whole_node = n,
                       .whole_input = part.input,
                       .depth = decisions_[whole].depth + 1};
      ArenaBuffer& b = buffers_[static_cast<size_t>(LocatePart(v, bound).buffer)];
      b.first = std::min(b.first, values[v].producer);
      b.last = std::max(b.last, values[v].readers.back());
    }
  }
}

int CpuPlan::NewBuffer(size_t bytes, int first, int last) {
  buffers_.push_back({bytes, first, last, 0});
  return static_cast<int>(buffers_.size()) - 1;
}

Status CpuPlan::LayoutNode(int n, BoundSteps& bound, std::vector<Location>& locations, bool decide) {
  const CompiledNode& node = executable_.nodes()[n];
  const auto& values = executable_.values();
  specs_.Set(node, bound.facts);
  const Placement place = node.kernel->Place({specs_.in, specs_.out, concurrency_});
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const int v = node.outputs[k];
    if (v < 0) continue;
    Decision& d = decisions_[v];
    PlanFacts& f = bound.facts[v];
    const Placement::View* view = place.ViewOf(static_cast<int>(k));
    const int source = view ? node.inputs[view->input] : -1;
    if (decide && d.kind == Decision::Kind::kNone) {
      const int last = values[v].readers.empty() ? n : std::max(n, values[v].readers.back());
      const bool contiguous = view && IsContiguous(f.spec.shape, view->strides);
      if (view && values[v].output < 0 && locations[source].base != Location::Base::kNone &&
          locations[source].base != Location::Base::kContent &&
          (contiguous || ReadersTakeStrides(v, f.spec.shape, view->strides, bound))) {
        d.kind = Decision::Kind::kView;
        if (locations[source].buffer >= 0) {
          ArenaBuffer& b = buffers_[locations[source].buffer];
          b.last = std::max(b.last, last);
        }
      } else if (values[v].output >= 0) {
        const quern_tensor_view& wanted = planned_outputs_[values[v].output];
        const bool direct = wanted.rank < 0 || node.kernel->TakesOutputStrides(k, f.spec.shape, StridesOf(wanted));
        d.kind = direct ? Decision::Kind::kOutput : Decision::Kind::kBuffer;
        if (!direct) d.buffer = NewBuffer(BytesOf(f.spec), n, last);
      } else {
        d.kind = Decision::Kind::kBuffer;
        const std::vector<int> may = k == 0 ? place.in_place_inputs : std::vector<int>{};
        for (const int i : may) {
          const int u = node.inputs[i];
          if (u < 0 || locations[u].buffer < 0 || locations[u].offset != 0 || !bound.facts[u].spec.contiguous) continue;
          const ArenaBuffer& b = buffers_[locations[u].buffer];
          if (b.last != n || b.bytes != BytesOf(f.spec)) continue;
          // What this branch did not make, another one may still read.
          if (lane_[n] >= 0 && lane_[b.first] != lane_[n]) continue;
          // Another operand may be a view of the same memory, read at other indices, or the same value, read once the
          // result is written.
          bool shared = false;
          for (int o = 0; o < static_cast<int>(node.inputs.size()); ++o) {
            const int w = node.inputs[o];
            const bool alike = w == u && std::find(may.begin(), may.end(), o) != may.end();
            shared |= w >= 0 && !alike && locations[w].buffer == locations[u].buffer;
          }
          if (shared) continue;
          d.buffer = locations[u].buffer;
          buffers_[d.buffer].last = std::max(b.last, last);
          break;
        }
        if (d.buffer < 0) d.buffer = NewBuffer(BytesOf(f.spec), n, last);
      }
    }
    Location& at = locations[v];
    switch (d.kind) {
      case Decision::Kind::kView: {
        if (!view) return Internal(node.node->Describe() + ": a view at the planned shape, not at this one");
        at = locations[source];
        at.offset += view->offset * static_cast<int64_t>(DTypeBytes(f.spec.dtype));
        f.spec.strides = view->strides;
        f.spec.contiguous = IsContiguous(f.spec.shape, f.spec.strides);
        break;
      }
      case Decision::Kind::kPart:
        at = LocatePart(v, bound);
        break;
      case Decision::Kind::kOutput: {
        at = {Location::Base::kOutput, values[v].output, -1, 0};
        const quern_tensor_view& wanted = planned_outputs_[values[v].output];
        if (wanted.rank >= 0) {
          f.spec.strides = StridesOf(wanted);
          f.spec.contiguous = IsContiguous(f.spec.shape, f.spec.strides);
        }
        break;
      }
      default:
        if (BytesOf(f.spec) > buffers_[d.buffer].bytes) {
          return Internal("value '" + values[v].value->name() + "' of shape " + f.spec.shape.ToString() +
                          " is larger than planned");
        }
        at = {Location::Base::kWorkspace, 0, d.buffer, 0};
    }
  }
  return OkStatus();
}

Status CpuPlan::Layout(BoundSteps& bound, std::vector<Location>& locations, bool decide) {
  const auto& values = executable_.values();
  locations.assign(values.size(), {});
  if (decide) decisions_.assign(values.size(), {});
  for (size_t v = 0; v < values.size(); ++v) {
    const ValueEntry& e = values[v];
    if (e.input >= 0) {
      locations[v] = {Location::Base::kInput, e.input, -1, 0};
    } else if (e.value->is_constant()) {
      locations[v] = {Location::Base::kConstant, static_cast<int>(v), -1, 0};
    } else if (e.producer >= 0 && !executable_.nodes()[e.producer].kernel) {
      if (!bound.facts[v].content) {
        return Internal("value '" + e.value->name() + "' should follow from shapes but is not known while planning");
      }
      locations[v] = {Location::Base::kContent, static_cast<int>(v), -1, 0};
    }
    // Strided inputs that some reader cannot take get a contiguous copy before its first reader.
    if (decide && e.input >= 0 && !bound.facts[v].spec.contiguous && !e.readers.empty() &&
        !ReadersTakeStrides(static_cast<int>(v), bound.facts[v].spec.shape, bound.facts[v].spec.strides, bound)) {
      decisions_[v].dense_buffer = NewBuffer(BytesOf(bound.facts[v].spec), e.readers.front(), e.readers.back());
    }
  }
  if (decide) DecideParts(bound);
  for (size_t n = 0; n < executable_.nodes().size(); ++n) {
    if (executable_.nodes()[n].kernel) {
      QUERN_RETURN_IF_ERROR(LayoutNode(static_cast<int>(n), bound, locations, decide));
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<CpuPlan>> CpuPlan::Build(const CpuExecutable& executable, const quern_plan_args& args) {
  std::unique_ptr<CpuPlan> plan(new CpuPlan(executable));
  plan->concurrency_ = args.concurrency;
  plan->planned_inputs_.assign(args.inputs, args.inputs + args.num_inputs);
  plan->planned_outputs_.assign(args.outputs, args.outputs + args.num_outputs);
  BoundSteps& bound = plan->bound_;
  std::unique_ptr<PlanSeed> seed = executable.TakeSeed();
  QUERN_RETURN_IF_ERROR(plan->InferFacts(plan->planned_inputs_, true, *seed, bound));
  plan->DecideBranches(bound);
  std::vector<Location> locations;
  QUERN_RETURN_IF_ERROR(plan->Layout(bound, locations, true));
  QUERN_RETURN_IF_ERROR(plan->BindSteps(locations, *seed, bound));
  executable.GiveBack(std::move(seed));
  for (quern_tensor_view& v : plan->planned_inputs_) v.data = nullptr;  // contents were for now only
  plan->PlaceScratch();
  plan->LayoutBranches();
  const size_t arena = PlanArena(plan->buffers_);
  plan->pointer_table_offset_ = arena;
  plan->workspace_bytes_ = arena + bound.operands.size() * sizeof(void*);
  return plan;
}

}  // namespace quern::cpu
