// Reshape: 0 copies the extent of the input (unless allowzero), -1 is what remains.
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> in = c.input_shape(0);
  const std::optional<Dims> target = c.input_data(1);
  if (!target) {
    const std::optional<int64_t> rank = KnownLength(c, 1);
    if (!rank || *rank > kMaxRank) return InferView(c, std::nullopt);
    return InferView(c, UnknownDims(*rank));
  }
  if (target->size() > kMaxRank)
    return c.Error("a shape of " + std::to_string(target->size()) + " dimensions is too long");
  const bool allow_zero = c.node().GetInt("allowzero", 0) != 0;
  Dims out;
  std::vector<bool> copied(target->size(), false);
  int infer_at = -1;
  bool has_zero = false;
  for (size_t i = 0; i < target->size(); ++i) {
    const Dim& d = (*target)[i];
    if (d.is_constant(-1)) {
      if (infer_at >= 0) return c.Error("shape " + DimsToString(*target) + " has more than one -1");
      infer_at = static_cast<int>(i);
      out.push_back(Dim(1));
    } else if (d.is_constant(0) && !allow_zero) {
      if (in && i >= in->size()) {
        return c.Error("shape " + DimsToString(*target) + " copies dimension " + std::to_string(i) +
                       " but the input has shape " + DimsToString(*in));
      }
      out.push_back(in ? (*in)[i] : Dim::Unknown());
      copied[i] = true;
    } else if (d.is_constant() && d.value() < 0) {
      return c.Error("shape " + DimsToString(*target) + " has the negative extent " + std::to_string(d.value()));
    } else {
      has_zero |= d.is_constant(0);
      // A content that only a run can tell may be -1 there, so it does not name the extent.
      out.push_back(d.has_unknown() ? Dim::Unknown() : d);
    }
  }
  if (infer_at >= 0 && has_zero) return c.Error("shape " + DimsToString(*target) + " has both 0 and -1");
  if (infer_at >= 0) {
    out[infer_at] = Dim::Unknown();
    if (in) {
      // Extents that are copied cancel, also when they are 0 or not known.
      Dims left, right;
      for (size_t i = 0; i < in->size(); ++i) {
        if (i >= copied.size() || !copied[i]) left.push_back((*in)[i]);
      }
      for (size_t i = 0; i < out.size(); ++i) {
        if (!copied[i] && static_cast<int>(i) != infer_at) right.push_back(out[i]);
      }
      const Dim elements = Product(left), rest = Product(right);
      if (elements.is_constant() && rest.is_constant() && (rest.value() == 0 || elements.value() % rest.value() != 0)) {
        return c.Error("input of shape " + DimsToString(*in) + " cannot become " + DimsToString(*target));
      }
      out[infer_at] = Dim::FloorDiv(elements, rest);
    }
  } else if (in) {
    const Dim before = Product(*in), after = Product(out);
    if (before.is_constant() && after.is_constant() && !(before == after)) {
      return c.Error("input of shape " + DimsToString(*in) + " cannot become " + DimsToString(*target));
    }
  }
  return InferView(c, std::move(out));
}

constexpr AttrSpec kAllowZero[] = {{"allowzero", AttrType::kInt, false, "0"}};
template <int kSince>
constexpr Param kInputs[] = {{"data", "T", AnyTypes(kSince)}, {"shape", "", kInt64Type}};
template <int kSince>
constexpr OpVersion kOldVersion = {kSince, kInputs<kSince>, kOutputOfAnyType<kSince>, {}, Infer, EvaluateView<Infer>};
template <int kSince>
constexpr OpVersion kVersion = {kSince,     kInputs<kSince>, kOutputOfAnyType<kSince>,
                                kAllowZero, Infer,           EvaluateView<Infer>};
constexpr OpVersion kVersions[] = {kOldVersion<5>, kOldVersion<13>, kVersion<14>, kVersion<19>,
                                   kVersion<21>,   kVersion<23>,    kVersion<24>, kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpReshape = {"", "Reshape", kVersions};

}  // namespace quern
