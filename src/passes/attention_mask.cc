#include "passes/attention_mask.h"

#include <algorithm>
#include <cmath>

namespace quern {
namespace {

using Kind = MaskTerm::Kind;

// The dimensions with ones before them, as many as `rank` asks for.
Dims Padded(const Dims& dims, size_t rank) {
  Dims padded(rank - std::min(rank, dims.size()), Dim(1));
  padded.insert(padded.end(), dims.begin(), dims.end());
  return padded;
}

// An extent that is neither a number nor one that the model has a name for: a mask was sliced by what a run computes.
bool IsFormula(const Dim& d) { return !d.is_constant() && (d.symbol().empty() || d.has_unknown()); }

// All dimensions but the last are 1 or those of the scores.
bool Fits(const Dims& mask, const Dims& scores) {
  if (mask.size() < 2 || mask.size() > scores.size()) return false;
  for (size_t d = 0; d + 1 < mask.size(); ++d) {
    const bool is_row = d + 2 == mask.size();
    const Dim& to = scores[scores.size() - mask.size() + d];
    if (!mask[d].is_constant(1) && !(mask[d] == to) && !(is_row && IsFormula(mask[d]))) return false;
  }
  return true;
}

// How a mask of scores with other leading dimensions comes to those of the product.
struct Regrouping {
  bool needed = false;
  std::vector<int64_t> expand;   // empty: no Expand
  std::vector<int64_t> reshape;  // the list of the Reshape
  Dims expanded, reshaped;
};

// Nothing where extents would have to be known.
std::optional<Regrouping> Regroup(const MaskTerm& term, const Dims& to) {
  const Dims& from = term.scores;
  size_t kept = 1;
  while (kept < std::min(from.size(), to.size()) && from[from.size() - kept - 1] == to[to.size() - kept - 1]) ++kept;
  const size_t split = from.size() - kept, joined = to.size() - kept;
  if (split == 0 && joined == 0) return Regrouping{};
  const Dims mask = Padded(*term.value->type().shape, from.size());
  const Dims own(mask.begin(), mask.begin() + static_cast<ptrdiff_t>(split));
  const Dims of_from(from.begin(), from.begin() + static_cast<ptrdiff_t>(split));
  const Dims of_to(to.begin(), to.begin() + static_cast<ptrdiff_t>(joined));
  Regrouping r;
  r.needed = true;
  const bool alike = std::all_of(own.begin(), own.end(), [](const Dim& d) { return d.is_constant(1); });
  r.reshaped = alike ? Dims(joined, Dim(1)) : of_to;
  if (!alike) {
    if (!AllConstant(of_from) || !(Product(of_from) == Product(of_to))) return std::nullopt;
    if (own != of_from) {
      for (const Dim& d : of_from) r.expand.push_back(d.value());
      r.expand.resize(from.size(), 1);
      r.expanded = of_from;
      r.expanded.insert(r.expanded.end(), mask.begin() + static_cast<ptrdiff_t>(split), mask.end());
    }
  }
  r.reshaped.insert(r.reshaped.end(), mask.begin() + static_cast<ptrdiff_t>(split), mask.end());
  auto list = ReshapeList(r.reshaped);
  if (!list) return std::nullopt;
  r.reshape = *std::move(list);
  return r;
}

// What two tensors broadcast to, where they do: an extent by another name is the same one.
Dims Broadcast(const Dims& a, const Dims& b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims both = Padded(a, rank);
  const Dims other = Padded(b, rank);
  for (size_t d = 0; d < rank; ++d) {
    if (both[d].is_constant(1)) both[d] = other[d];
  }
  return both;
}

// The type of the masks that are added; nothing where they differ.
std::optional<DType> AddedType(const std::vector<MaskTerm>& terms, DType otherwise) {
  std::optional<DType> type;
  for (const MaskTerm& t : terms) {
    if (t.kind != Kind::kAdded) continue;
    if (type && *type != t.value->type().dtype) return std::nullopt;
    type = t.value->type().dtype;
  }
  return type.value_or(otherwise);
}

class Builder {
 public:
  Builder(Inserter& inserter, DType dtype) : inserter_(inserter), dtype_(dtype) {}

  GraphValue* Floats(const MaskTerm& t) {
    if (t.kind == Kind::kAdded) {
      if (t.number == 1) return t.value;
      return inserter_.Add("Mul", 14, {t.value, inserter_.Number(dtype_, t.number)}, t.value->type());
    }
    GraphValue *zero = inserter_.Number(dtype_, 0), *number = inserter_.Number(dtype_, t.number);
    if (t.kind == Kind::kHidden) std::swap(zero, number);
    return inserter_.Add("Where", 16, {t.value, zero, number}, ValueType::Tensor(dtype_, t.value->type().shape));
  }
  GraphValue* Seen(const MaskTerm& t) {
    return t.kind == Kind::kSeen ? t.value : inserter_.Add("Not", 1, {t.value}, t.value->type());
  }
  GraphValue* Join(const char* op_type, int opset, GraphValue* a, GraphValue* b) {
    const Dims dims = Broadcast(*a->type().shape, *b->type().shape);
    return inserter_.Add(op_type, opset, {a, b}, ValueType::Tensor(a->type().dtype, dims));
  }
  GraphValue* Regrouped(GraphValue* v, const Regrouping& r) {
    if (!r.needed) return v;
    const DType dtype = v->type().dtype;
    if (!r.expand.empty()) {
      v = inserter_.Add("Expand", 13, {v, inserter_.Ints(r.expand)}, ValueType::Tensor(dtype, r.expanded));
    }
    return inserter_.Add("Reshape", 13, {v, inserter_.Ints(r.reshape)}, ValueType::Tensor(dtype, r.reshaped));
  }

 private:
  Inserter& inserter_;
  DType dtype_;
};

}  // namespace

bool MasksFit(const AttentionScores& of, const Dims& scores, DType dtype) {
  const auto added = AddedType(of.terms, dtype);
  if (!added || !(*added == dtype || (of.is_cast && IsFloatType(*added)))) return false;
  return std::all_of(of.terms.begin(), of.terms.end(), [&](const MaskTerm& t) {
    const ValueType& type = t.value->type();
    if (!type.is_tensor() || !type.has_rank()) return false;
    return of.is_reshaped ? Fits(*type.shape, t.scores) && Regroup(t, scores) : Fits(*type.shape, scores);
  });
}

GraphValue* BuildMask(const AttentionScores& of, const Dims& scores, DType dtype, Inserter& inserter) {
  const bool chooses = std::all_of(of.terms.begin(), of.terms.end(),
                                   [](const MaskTerm& t) { return t.kind != Kind::kAdded && std::isinf(t.number); });
  Builder builder(inserter, *AddedType(of.terms, dtype));
  GraphValue* mask = nullptr;
  for (const MaskTerm& t : of.terms) {
    GraphValue* v = chooses ? builder.Seen(t) : builder.Floats(t);
    if (of.is_reshaped) v = builder.Regrouped(v, *Regroup(t, scores));
    mask = mask == nullptr ? v : builder.Join(chooses ? "And" : "Add", chooses ? 7 : 14, mask, v);
  }
  return mask;
}

}  // namespace quern
