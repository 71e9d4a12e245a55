// RunTimeDrivers: products and attentions whose operands come with the run, each made once. Plans for new shapes ask
// for the same ones in every layer of a model.
#pragma once

#include <memory>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/recently_made.h"

namespace quern::kernels {

// For any number of threads at once.
class RunTimeDrivers {
 public:
  explicit RunTimeDrivers(const SelectOptions& options) : options_(options) {}

  const SelectOptions& options() const { return options_; }
  // SelectLayout and MatMul::Create.
  Result<std::shared_ptr<const MatMul>> FindProduct(const GemmProblem& problem);
  // Attention::Create.
  Result<std::shared_ptr<const Attention>> FindAttention(const AttentionSizes& sizes, Precision precision,
                                                         int concurrency);

 private:
  struct AttentionKey {
    AttentionSizes sizes;
    Precision precision;
    int concurrency;
    bool operator==(const AttentionKey&) const = default;
  };
  const SelectOptions options_;
  RecentlyMade<GemmProblem, MatMul> products_{256};
  RecentlyMade<AttentionKey, Attention> attentions_{64};
};

}  // namespace quern::kernels
