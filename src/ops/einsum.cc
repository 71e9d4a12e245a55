// Einsum: sums of products over repeated letters, as numpy.einsum.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ops/common/dispatch.h"
#include "ops/common/einsum_equation.h"
#include "ops/common/eval_infer.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  std::vector<int> ranks;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.input_shape(i)) {
      c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0)));
      return OkStatus();
    }
    ranks.push_back(static_cast<int>(c.input_shape(i)->size()));
  }
  QUERN_ASSIGN_OR_RETURN(const EinsumEquation e, ParseEinsum(c.node(), ranks));
  std::map<char, Dim> extents;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Dims shape = *c.input_shape(i);
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto [it, is_new] = extents.emplace(e.inputs[i][d], shape[d]);
      if (is_new || shape[d].is_constant(1)) continue;
      if (it->second.is_constant() && shape[d].is_constant() && it->second.value() != 1 && !(it->second == shape[d])) {
        return c.Error(std::string("'") + e.inputs[i][d] + "' is " + it->second.ToString() + " and " +
                       shape[d].ToString());
      }
      if (shape[d].is_constant() || it->second.is_constant(1)) it->second = shape[d];
    }
  }
  Dims output;
  for (const char ch : e.output) output.push_back(extents.at(ch));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(output)));
  return OkStatus();
}

// Sums, in Acc, the products of the operands over all letters that the output lacks.
template <typename T, typename Acc>
void Contract(EvalContext& c, const EinsumEquation& e, const Tensor& out) {
  const int operands = c.num_inputs();
  std::string letters = e.output;
  for (const std::string& s : e.inputs) {
    for (const char ch : s) {
      if (letters.find(ch) == std::string::npos) letters += ch;
    }
  }
  std::vector<int64_t> extents(letters.size(), 1);
  std::vector<std::vector<int64_t>> strides(operands, std::vector<int64_t>(letters.size(), 0));
  std::vector<const T*> data(operands);
  for (int i = 0; i < operands; ++i) {
    const Tensor& x = c.input(i);
    data[i] = static_cast<const T*>(x.raw_data());
    for (int d = 0; d < x.rank(); ++d) {
      const size_t letter = letters.find(e.inputs[i][d]);
      if (x.dim(d) == 1) continue;  // repeated as often as the others say, not at all where they are empty
      extents[letter] = x.dim(d);
      strides[i][letter] += x.strides()[d];
    }
  }
  int64_t inner = 1;
  for (size_t l = e.output.size(); l < letters.size(); ++l) inner *= extents[l];
  std::vector<int64_t> index(letters.size(), 0), offset(operands, 0);
  const auto advance = [&](size_t from) {
    for (size_t l = letters.size(); l-- > from;) {
      ++index[l];
      for (int i = 0; i < operands; ++i) offset[i] += strides[i][l];
      if (index[l] < extents[l]) return;
      for (int i = 0; i < operands; ++i) offset[i] -= strides[i][l] * extents[l];
      index[l] = 0;
    }
  };
  T* y = static_cast<T*>(out.raw_data());
  for (int64_t o = 0; o < out.num_elements(); ++o) {
    Acc sum{0};
    for (int64_t k = 0; k < inner; ++k) {
      Acc product{1};
      for (int i = 0; i < operands; ++i) product *= static_cast<Acc>(static_cast<ComputeType<T>>(data[i][offset[i]]));
      sum += product;
      advance(k + 1 < inner ? e.output.size() : 0);
    }
    y[o] = static_cast<T>(static_cast<ComputeType<T>>(sum));
  }
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  std::vector<int> ranks;
  for (int i = 0; i < c.num_inputs(); ++i) ranks.push_back(c.input(i).rank());
  QUERN_ASSIGN_OR_RETURN(const EinsumEquation e, ParseEinsum(c.node(), ranks));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  return DispatchNumeric(y.dtype(),
                         [&]<typename T>() {
                           if constexpr (std::is_integral_v<T>) {
                             Contract<T, uint64_t>(c, e, y);  // sums wrap around
                           } else {
                             Contract<T, double>(c, e, y);
                           }
                           return OkStatus();
                         })
      .WithContext(c.node().Describe());
}

constexpr Param kInputs12[] = {{"Inputs", "T", kOldNumericTypes, Arity::kVariadic}};
constexpr Param kOutputs12[] = {{"Output", "T", kOldNumericTypes}};
constexpr AttrSpec kAttributes[] = {{"equation", AttrType::kString, true}};
constexpr Param kInputs28[] = {{"Inputs", "T", kNumericTypes, Arity::kVariadic}};
constexpr Param kOutputs28[] = {{"Output", "T", kNumericTypes}};
constexpr OpVersion kVersions[] = {{12, kInputs12, kOutputs12, kAttributes, Infer, Evaluate},
                                   {28, kInputs28, kOutputs28, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpEinsum = {"", "Einsum", kVersions};

}  // namespace quern
