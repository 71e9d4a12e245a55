#include "session/plan.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "ops/infer.h"
#include "session/execution.h"

namespace quern {
namespace {

// Feeds the key's words of a run to `word`; stops when it returns false.
template <typename F>
bool ForEachWord(std::span<const Value> inputs, std::span<const Value> outputs, std::span<const Shape> dims, F&& word) {
  auto tensor = [&](const Tensor& t, const Shape& shape) {
    if (!word(static_cast<int64_t>(t.dtype())) || !word(shape.rank())) return false;
    for (int64_t d : shape) {
      if (!word(d)) return false;
    }
    if (t.is_contiguous()) return word(0);
    for (int64_t s : t.strides()) {
      if (!word(s)) return false;
    }
    return word(1);
  };
  // Of strings and containers, what inference is told: the extents that all elements share decide shapes, too.
  auto type = [&](const ValueType& t, auto& self) -> bool {
    if (!word(static_cast<int64_t>(t.kind)) || !word(static_cast<int64_t>(t.dtype))) return false;
    if (!word(t.shape ? t.rank() : -1)) return false;
    for (int d = 0; t.shape && d < t.rank(); ++d) {
      if (!word((*t.shape)[d].is_constant() ? (*t.shape)[d].value() : -1)) return false;
    }
    return word(t.element != nullptr) && (!t.element || self(*t.element, self));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) {
      if (!type(TypeOf(inputs[i]), type)) return false;
      continue;
    }
    if (!word(static_cast<int64_t>(ValueKind::kTensor))) return false;
    if (!tensor(inputs[i].tensor(), dims.empty() ? inputs[i].tensor().shape() : dims[i])) return false;
  }
  for (const Value& v : outputs) {
    const bool strided = v.is_tensor() && !v.tensor().is_contiguous();
    if (!word(strided)) return false;
    if (!strided) continue;
    for (int64_t s : v.tensor().strides()) {
      if (!word(s)) return false;
    }
  }
  return true;
}

Shape DimsToShape(const Dims& dims) {
  Shape s;
  for (const Dim& d : dims) s.push_back(d.value());
  return s;
}

}  // namespace

std::string DescribeSlot(const Slot& slot) {
  const Node* producer = slot.value->producer();
  return "value '" + slot.value->name() + "'" + (producer ? " of " + producer->Describe() : "");
}

PlanKey::PlanKey(std::span<const Value> inputs, std::span<const Value> outputs, std::span<const Shape> dims)
    : hash_(Hash(inputs, outputs, dims)) {
  ForEachWord(inputs, outputs, dims, [&](int64_t w) {
    words_.push_back(w);
    return true;
  });
}

uint64_t PlanKey::Hash(std::span<const Value> inputs, std::span<const Value> outputs, std::span<const Shape> dims) {
  uint64_t hash = 0;
  ForEachWord(inputs, outputs, dims, [&](int64_t w) {
    hash = (std::rotl(hash, 23) ^ static_cast<uint64_t>(w)) * 0x9e3779b97f4a7c15;  // odd: loses nothing
    return true;
  });
  return hash;
}

bool PlanKey::Matches(uint64_t hash, std::span<const Value> inputs, std::span<const Value> outputs,
                      std::span<const Shape> dims) const {
  if (hash != hash_) return false;
  size_t at = 0;
  const bool prefix =
      ForEachWord(inputs, outputs, dims, [&](int64_t w) { return at < words_.size() && words_[at++] == w; });
  return prefix && at == words_.size();
}

// What the inputs alone say.
static std::vector<SlotType> GivenSlots(const Executable& executable, std::span<const Value> inputs,
                                        std::span<const Shape> dims) {
  std::vector<SlotType> result(executable.slots().size());
  for (size_t s = 0; s < result.size(); ++s) {
    const int input = executable.slots()[s].input_index;
    if (input < 0 || !inputs[input].is_tensor()) continue;
    const Tensor& given = inputs[input].tensor();
    result[s].dtype = given.dtype();
    result[s].shape = dims.empty() ? given.shape() : dims[input];
  }
  return result;
}

Result<std::vector<SlotType>> InferSlots(const Executable& executable, std::span<const Value> inputs,
                                         std::span<const Shape> dims) {
  std::vector<ValueType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].has_value()) {
      types.push_back(executable.graph().inputs()[i]->type());
      continue;
    }
    ValueType t = TypeOf(inputs[i]);
    if (!dims.empty() && inputs[i].is_tensor()) t.shape = Dims(dims[i].begin(), dims[i].end());
    types.push_back(std::move(t));
  }
  std::unique_ptr<ShapeTable> kept = executable.inferred().Take();
  if (!kept) kept = std::make_unique<ShapeTable>();
  QUERN_RETURN_IF_ERROR(UpdateConcrete(executable.graph(), types, {}, {}, *kept).status());
  const ShapeTable& table = *kept;
  std::vector<SlotType> result(executable.slots().size());
  for (size_t s = 0; s < result.size(); ++s) {
    const GraphValue* value = executable.slots()[s].value;
    const ValueType& type = table.type(value);
    if (type.kind != ValueKind::kTensor) continue;
    result[s].dtype = type.dtype;
    if (type.has_static_shape() && type.dtype != DType::kUndefined) result[s].shape = DimsToShape(*type.shape);
    const std::optional<Dims>& data = table.data(value);
    if (data && AllConstant(*data)) {
      for (const Dim& d : *data) result[s].content.push_back(d.value());
    }
  }
  const bool fixed = std::ranges::all_of(executable.graph().inputs(),
                                         [](const GraphValue* v) { return v->type().has_static_shape(); });
  if (!fixed) executable.inferred().GiveBack(std::move(kept));
  return result;
}

SessionPlan::SessionPlan(const Executable& executable, PlanKey key) : executable_(executable), key_(std::move(key)) {}

SessionPlan::~SessionPlan() {
  idle_.clear();
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].plan) continue;
    const quern_provider& abi = executable_.steps()[i].provider->abi();
    abi.destroy_plan(abi.self, steps_[i].plan);
  }
}

Status SessionPlan::Build(std::span<const Value> inputs, std::span<const Value> outputs, std::span<const Shape> dims) {
  const auto& slot_info = executable_.slots();
  // A single step tells all that there is to know of what is not given. But it asks for the strides that results are
  // to have, for which their shapes count.
  const bool alone =
      executable_.steps().size() == 1 &&
      std::ranges::all_of(slot_info, [](const Slot& s) { return s.input_index >= 0 || s.producer >= 0; }) &&
      std::ranges::none_of(outputs, [](const Value& v) { return v.is_tensor() && !v.tensor().is_contiguous(); });
  std::vector<SlotType> types;
  if (alone) {
    types = GivenSlots(executable_, inputs, dims);
  } else {
    QUERN_ASSIGN_OR_RETURN(types, InferSlots(executable_, inputs, dims));
  }
  slots_.resize(slot_info.size());
  steps_.resize(executable_.steps().size());
  for (size_t s = 0; s < slots_.size(); ++s) {
    SlotPlan& slot = slots_[s];
    if (slot_info[s].input_index >= 0) slot.place = SlotPlan::Place::kInput;
    slot.known_content = std::move(types[s].content);
    if (types[s].shape) QUERN_RETURN_IF_ERROR(SetType(static_cast<int>(s), types[s].dtype, *types[s].shape));
  }

  std::vector<ArenaBuffer> buffers;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const CompiledStep& step = executable_.steps()[i];
    const bool plannable = std::all_of(step.inputs.begin(), step.inputs.end(), [&](int s) {
      return slots_[s].known || !slot_info[s].value->type().is_tensor() ||
             slot_info[s].value->type().kind == ValueKind::kStringTensor;
    });
    if (plannable) QUERN_RETURN_IF_ERROR(PlanStep(static_cast<int>(i), inputs, outputs, buffers));
  }
  arena_bytes_ = PlanArena(buffers);
  if (static_cast<int64_t>(arena_bytes_) > executable_.env().limits.memory_bytes) return TooLarge();
  for (SlotPlan& slot : slots_) {
    if (slot.arena_buffer >= 0) slot.offset = buffers[slot.arena_buffer].offset;
  }
  for (StepPlan& step : steps_) {
    if (step.workspace_bytes > 0) step.workspace_offset = buffers[step.workspace_offset].offset;
  }
  return OkStatus();
}

Status SessionPlan::SetType(int index, DType dtype, const Shape& shape) {
  SlotPlan& slot = slots_[index];
  const Slot& info = executable_.slots()[index];
  const Result<size_t> bytes = TensorBytes(dtype, shape);
  if (!bytes.ok()) return bytes.status().WithContext(DescribeSlot(info));
  const int64_t limit = executable_.env().limits.tensor_bytes;
  if (static_cast<int64_t>(*bytes) > limit) {
    return ResourceExhausted(DescribeSlot(info) + " of shape " + shape.ToString() + " takes " + std::to_string(*bytes) +
                             " bytes; the limit for one tensor is " + std::to_string(limit));
  }
  slot.known = true;
  slot.dtype = dtype;
  slot.shape = shape;
  slot.bytes = *bytes;
  return OkStatus();
}

Status SessionPlan::PlanStep(int index, std::span<const Value> inputs, std::span<const Value> outputs,
                             std::vector<ArenaBuffer>& buffers) {
  const CompiledStep& step = executable_.steps()[index];
  const auto& slot_info = executable_.slots();
  std::vector<quern_tensor_view> in(step.inputs.size()), out(step.outputs.size());
  std::vector<Tensor> contents(step.inputs.size());
  for (size_t k = 0; k < in.size(); ++k) {
    const SlotPlan& slot = slots_[step.inputs[k]];
    const int input = slot_info[step.inputs[k]].input_index;
    if (!slot.known) continue;
    const Tensor* given = input >= 0 && inputs[input].is_tensor() ? &inputs[input].tensor() : nullptr;
    SetShape(in[k], slot.dtype, slot.shape,
             given && !given->is_contiguous() ? given->strides() : slot.shape.ContiguousStrides());
    if (slot.known_content.empty()) continue;
    QUERN_ASSIGN_OR_RETURN(contents[k], FromInt64s(slot.dtype, slot.shape, slot.known_content));
    in[k].data = contents[k].raw_data();
  }
  for (size_t k = 0; k < out.size(); ++k) {
    const SlotPlan& slot = slots_[step.outputs[k]];
    const int output = slot_info[step.outputs[k]].output_index;
    out[k].rank = -1;
    if (output < 0 || !outputs[output].is_tensor() || outputs[output].tensor().is_contiguous()) continue;
    if (!slot.known || !step.provider->strided()) continue;
    SetShape(out[k], slot.dtype, slot.shape, outputs[output].tensor().strides());
  }
  quern_plan_sink sink;
  sink.outputs.resize(out.size());
  const quern_plan_args args{.struct_size = sizeof(quern_plan_args),
                             .num_inputs = static_cast<int32_t>(in.size()),
                             .inputs = in.data(),
                             .concurrency = executable_.env().concurrency,
                             .num_outputs = static_cast<int32_t>(out.size()),
                             .outputs = out.data()};
  QUERN_RETURN_IF_ERROR(step.provider->Plan(step.executable, args, sink, &steps_[index].plan));
  steps_[index].workspace_bytes = sink.workspace_bytes;
  if (sink.workspace_bytes > 0) {
    steps_[index].workspace_offset = buffers.size();  // index for now
    const int last = step.provider->may_defer() ? static_cast<int>(steps_.size()) : index;
    buffers.push_back({sink.workspace_bytes, index, last});
  }
  return PlaceOutputs(index, sink, buffers);
}

Status SessionPlan::PlaceOutputs(int index, const quern_plan_sink& sink, std::vector<ArenaBuffer>& buffers) {
  const CompiledStep& step = executable_.steps()[index];
  std::vector<int> overwritten;  // inputs whose memory an output has taken
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    const Slot& info = executable_.slots()[step.outputs[k]];
    SlotPlan& slot = slots_[step.outputs[k]];
    const quern_plan_sink::Output& o = sink.outputs[k];
    if (!o.known) continue;  // placed when the step runs, even if inference knows the shape
    QUERN_RETURN_IF_ERROR(SetType(step.outputs[k], o.dtype, o.shape));
    if (info.home) {
      slot.place = SlotPlan::Place::kHome;
      continue;
    }
    if (info.output_index >= 0) {
      slot.place = SlotPlan::Place::kOutput;
      continue;
    }
    slot.place = SlotPlan::Place::kArena;
    const int over = o.in_place >= 0 && o.in_place < static_cast<int>(step.inputs.size()) ? o.in_place : -1;
    if (over >= 0 && slots_[step.inputs[over]].bytes == slot.bytes && !step.device_inputs[over] &&
        !step.device_outputs[k] && MayOverwrite(step.inputs[over], index) &&
        std::find(overwritten.begin(), overwritten.end(), over) == overwritten.end()) {
      overwritten.push_back(over);
      slot.arena_buffer = slots_[step.inputs[over]].arena_buffer;
      ArenaBuffer& buffer = buffers[slot.arena_buffer];
      buffer.last = std::max(buffer.last, info.last_use);
      continue;
    }
    slot.arena_buffer = static_cast<int>(buffers.size());
    buffers.push_back({slot.bytes, index, info.last_use});
  }
  return OkStatus();
}

bool SessionPlan::MayOverwrite(int slot, int step) const {
  if (slots_[slot].place != SlotPlan::Place::kArena || executable_.slots()[slot].last_reader != step) return false;
  for (int i = 0; i < step; ++i) {  // an earlier reader may still be at work
    const CompiledStep& other = executable_.steps()[i];
    if (other.provider->may_defer() &&
        std::find(other.inputs.begin(), other.inputs.end(), slot) != other.inputs.end()) {
      return false;
    }
  }
  return true;
}

Status SessionPlan::TooLarge() const {
  std::string largest;
  size_t bytes = 0;
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].arena_buffer < 0 || slots_[s].bytes <= bytes) continue;
    bytes = slots_[s].bytes;
    largest = DescribeSlot(executable_.slots()[s]);
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].workspace_bytes <= bytes) continue;
    bytes = steps_[i].workspace_bytes;
    largest = "the workspace of the cluster at " + executable_.steps()[i].cluster.nodes.front()->Describe();
  }
  return ResourceExhausted("a run for these shapes needs " + std::to_string(arena_bytes_) + " bytes, " +
                           std::to_string(bytes) + " of them for " + largest + "; the limit is " +
                           std::to_string(executable_.env().limits.memory_bytes));
}

Result<std::unique_ptr<ExecutionContext>> SessionPlan::Acquire() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<ExecutionContext> context = std::move(idle_.back());
      idle_.pop_back();
      return context;
    }
  }
  return ExecutionContext::Create(executable_, *this);
}

void SessionPlan::Release(std::unique_ptr<ExecutionContext> context) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
}

}  // namespace quern
