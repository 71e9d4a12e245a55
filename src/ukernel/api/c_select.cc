// The choice of layouts and kernels behind the C interface.
#include "ukernel/api/c_types.h"

namespace quern::ukernel {
namespace {

int32_t ReasonToC(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return QUERN_UKERNEL_COSTS_MORE;
    case Reason::kLhs:
      return QUERN_UKERNEL_OTHER_LHS;
    case Reason::kArch:
      return QUERN_UKERNEL_OTHER_ARCH;
    case Reason::kFeature:
    case Reason::kDisabled:
      return QUERN_UKERNEL_LACKS_FEATURE;
    case Reason::kNotForced:
    case Reason::kOnlyForced:
      return QUERN_UKERNEL_BY_NAME_ALONE;
    case Reason::kNoBody:
      return QUERN_UKERNEL_NO_BODY;
    case Reason::kPrecision:
      return QUERN_UKERNEL_LESS_PRECISE;
    case Reason::kKDivisor:
      return QUERN_UKERNEL_K_DIVISOR;
    case Reason::kBlockDivisor:
      return QUERN_UKERNEL_BLOCK_DIVISOR;
    case Reason::kLhsForm:
      return QUERN_UKERNEL_OTHER_LHS_FORM;
    case Reason::kLayout:
      return QUERN_UKERNEL_OTHER_LAYOUT;
    case Reason::kSegmentsTransform:
    case Reason::kNoTransform:
      return QUERN_UKERNEL_NO_TRANSFORM;
    default:
      return QUERN_UKERNEL_NO_LAYOUT;
  }
}

// The chosen one first, then by cycles, then the rejected.
bool Before(const quern_ukernel_candidate& a, const quern_ukernel_candidate& b) {
  const auto group = [](const quern_ukernel_candidate& c) {
    return c.reason == QUERN_UKERNEL_CHOSEN ? 0 : c.reason == QUERN_UKERNEL_COSTS_MORE ? 1 : 2;
  };
  return group(a) != group(b) ? group(a) < group(b) : a.cycles < b.cycles;
}

// A list in order that keeps the first `capacity`.
class Candidates {
 public:
  Candidates(quern_ukernel_candidate* first, size_t capacity) : first_(first), capacity_(first ? capacity : 0) {}

  size_t count() const { return count_; }

  void Add(const quern_ukernel_candidate& c) {
    ++count_;
    const size_t kept = count_ <= capacity_ ? count_ : capacity_;
    if (kept == 0 || (count_ > capacity_ && !Before(c, first_[kept - 1]))) return;
    size_t at = kept - 1;
    for (; at > 0 && Before(c, first_[at - 1]); --at) first_[at] = first_[at - 1];
    first_[at] = c;
  }

 private:
  quern_ukernel_candidate* first_;
  size_t capacity_;
  size_t count_ = 0;
};

const PackLayout* ChooseLayout(const GemmProblem& problem, const SelectOptions& options, LayoutScore* scores) {
  const LayoutScores found = ScoreLayouts(problem, options, false, scores);
  return found.best < found.count ? &scores[found.best].layout : nullptr;
}

}  // namespace
}  // namespace quern::ukernel

using namespace quern;
using namespace quern::ukernel;

extern "C" {

quern_ukernel_status quern_ukernel_select_layout(const quern_ukernel_problem* problem, const quern_cpu* cpu,
                                                 quern_ukernel_layout* layout) {
  GemmProblem p;
  SelectOptions options;
  if (!layout) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (const quern_ukernel_status s = FromC(problem, cpu, &p, &options)) return s;
  LayoutScore scores[kMaxLayoutScores];
  const PackLayout* best = ChooseLayout(p, options, scores);
  if (!best) return QUERN_UKERNEL_UNSUPPORTED;
  *layout = ToC(*best);
  return QUERN_UKERNEL_OK;
}

quern_ukernel_status quern_ukernel_select(const quern_ukernel_problem* problem, const quern_cpu* cpu,
                                          const quern_ukernel_layout* layout, size_t m, const quern_ukernel** kernel,
                                          quern_ukernel_candidate* candidates, size_t capacity, size_t* count) {
  GemmProblem p;
  SelectOptions options;
  PackLayout given;
  if (!kernel || (layout && !FromC(*layout, &given))) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (const quern_ukernel_status s = FromC(problem, cpu, &p, &options)) return s;
  LayoutScore scores[kMaxLayoutScores];
  const PackLayout* resident = layout ? &given : ChooseLayout(p, options, scores);
  double fewest = 0;
  const GemmKernel* best = nullptr;
  if (resident && !RejectLayout(*resident, p)) best = ChooseRow(p, options, *resident, m, &fewest);
  *kernel = ToC(best);
  Candidates list(candidates, capacity);
  if (candidates || count) {
    for (size_t i = 0; i < quern_ukernel_count(); ++i) {
      quern_ukernel_candidate c = {};
      c.kernel = quern_ukernel_at(i);
      const GemmKernel& row = *FromC(c.kernel);
      Rejection rejection = RejectRow(row, p, options, resident);
      if (!rejection && resident) rejection = RejectLayout(*resident, p);
      c.reason = &row == best ? QUERN_UKERNEL_CHOSEN : ReasonToC(rejection.reason);
      if (rejection) {
        ReasonText(rejection, c.text, sizeof(c.text));
      } else {
        c.cycles = EstimateCycles(row, p, options.cpu, *resident, m);
        if (&row != best) CostText(c.cycles, fewest, c.text, sizeof(c.text));
      }
      list.Add(c);
    }
  }
  if (count) *count = list.count();
  return best ? QUERN_UKERNEL_OK : QUERN_UKERNEL_UNSUPPORTED;
}

}  // extern "C"
