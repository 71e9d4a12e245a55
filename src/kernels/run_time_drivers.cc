#include "kernels/run_time_drivers.h"

namespace quern::kernels {

Result<std::shared_ptr<const MatMul>> RunTimeDrivers::FindProduct(const GemmProblem& problem) {
  return products_.Find(problem, [&]() -> Result<MatMul> {
    QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(problem, options_));
    return MatMul::Create(problem, options_, layout);
  });
}

Result<std::shared_ptr<const Attention>> RunTimeDrivers::FindAttention(const AttentionSizes& sizes, Precision precision,
                                                                       int concurrency) {
  return attentions_.Find({sizes, precision, concurrency},
                          [&] { return Attention::Create(sizes, *this, precision, concurrency); });
}

}  // namespace quern::kernels
