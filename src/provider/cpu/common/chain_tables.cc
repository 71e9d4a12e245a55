#include "provider/cpu/common/chain_tables.h"

#include <algorithm>
#include <span>

namespace quern::cpu {
namespace {

using Form = ChainFunction::Form;

constexpr int kNothing = -1, kSeveral = -2;  // what a value depends on, where that is not one byte

class Tabulator {
 public:
  explicit Tabulator(const Chain& chain) : chain_(chain), origins_(static_cast<size_t>(chain.num_values()), kNothing) {
    std::fill_n(origins_.begin(), chain.num_inputs, kSeveral);
    for (const ChainStep& s : chain.steps) {
      const int bytes = s.operands[0];
      if (s.function.form == Form::kDequantize && bytes < chain.num_inputs) OriginOf(bytes) = bytes;
    }
    for (int v = chain.first_step(); v < chain.num_values(); ++v) {
      for (const int operand : OperandsOf(v)) OriginOf(v) = Joined(OriginOf(v), OriginOf(operand));
      // Bytes of several operands are what others may depend on.
      if (StepOf(v).function.form == Form::kQuantize && OriginOf(v) == kSeveral) OriginOf(v) = v;
    }
  }

  Result<Chain> Run(const std::function<Result<ByteTable>(const Chain&)>& evaluate) const {
    const std::vector<bool> needed = Needed();
    Chain made{.num_inputs = chain_.num_inputs, .numbers = chain_.numbers, .steps = {}};
    std::vector<int> places(origins_.size());
    for (int v = 0; v < chain_.num_values(); ++v) {
      const bool is_step = v >= chain_.first_step();
      places[static_cast<size_t>(v)] = is_step ? made.num_values() : v;
      if (!is_step || !needed[static_cast<size_t>(v)]) continue;
      ChainStep step = StepOf(v);
      for (int& operand : step.operands) operand = places[static_cast<size_t>(operand)];
      if (IsTable(v)) {
        QUERN_ASSIGN_OR_RETURN(const ByteTable table, evaluate(PartFor(v)));
        step = {.name = "Table", .function = {.form = Form::kTable, .to = step.function.to}};
        step.operands[0] = places[static_cast<size_t>(OriginOf(v))];
        step.table = std::make_shared<const ByteTable>(table);
      }
      made.steps.push_back(std::move(step));
    }
    return made;
  }

 private:
  static int Joined(int a, int b) {
    if (a == kNothing) return b;
    return b == kNothing || a == b ? a : kSeveral;
  }
  int& OriginOf(int v) { return origins_[static_cast<size_t>(v)]; }
  int OriginOf(int v) const { return origins_[static_cast<size_t>(v)]; }
  const ChainStep& StepOf(int v) const { return chain_.steps[static_cast<size_t>(v - chain_.first_step())]; }
  std::span<const int> OperandsOf(int v) const {
    return {StepOf(v).operands.data(), static_cast<size_t>(StepOf(v).function.num_operands())};
  }
  bool IsTable(int v) const {
    return StepOf(v).function.form == Form::kQuantize && OriginOf(v) >= 0 && OriginOf(v) != v;
  }

  // Which steps the result needs, where tables stand for what is between two bytes.
  std::vector<bool> Needed() const {
    std::vector<bool> needed(origins_.size());
    needed.back() = true;
    for (int v = chain_.num_values() - 1; v >= chain_.first_step(); --v) {
      if (!needed[static_cast<size_t>(v)]) continue;
      if (IsTable(v)) {
        needed[static_cast<size_t>(OriginOf(v))] = true;
      } else {
        for (const int operand : OperandsOf(v)) needed[static_cast<size_t>(operand)] = true;
      }
    }
    return needed;
  }

  // The steps from the byte on which value `last` depends, as a chain with that input.
  Chain PartFor(int last) const {
    const int origin = OriginOf(last);
    std::vector<bool> used(origins_.size());
    used[static_cast<size_t>(last)] = true;
    for (int v = last; v >= chain_.first_step(); --v) {
      if (!used[static_cast<size_t>(v)] || v == origin) continue;
      for (const int operand : OperandsOf(v)) used[static_cast<size_t>(operand)] = true;
    }
    Chain part{.num_inputs = 1, .numbers = chain_.numbers, .steps = {}};
    std::vector<int> places(origins_.size());
    for (int v = chain_.num_inputs; v < chain_.first_step(); ++v) {
      places[static_cast<size_t>(v)] = v - chain_.num_inputs + part.num_inputs;
    }
    for (int v = chain_.first_step(); v <= last; ++v) {
      if (!used[static_cast<size_t>(v)] || v == origin) continue;
      ChainStep step = StepOf(v);
      for (int& operand : step.operands) operand = places[static_cast<size_t>(operand)];
      places[static_cast<size_t>(v)] = part.num_values();
      part.steps.push_back(std::move(step));
    }
    return part;
  }

  const Chain& chain_;
  std::vector<int> origins_;  // of each value: the one byte that it depends on
};

}  // namespace

Result<Chain> WithTables(const Chain& chain, const std::function<Result<ByteTable>(const Chain&)>& evaluate) {
  return Tabulator(chain).Run(evaluate);
}

}  // namespace quern::cpu
