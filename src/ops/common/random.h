// Random numbers: RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial, Dropout in training.
//
// The generator is the Mersenne twister MT19937. Streams of the same seed are equal on every machine. For whole seeds
// from 0 to 2^32 - 1, Uniform() and Normal() give what NumPy's RandomState of that seed gives: ONNX's reference
// implementation draws from it, and its tests of Dropout expect these very numbers.
#pragma once

#include <cstdint>
#include <random>

#include "ops/common/from_double.h"
#include "ops/op.h"

namespace quern {

// For docs/operators.md.
inline constexpr char kRandomNotes[] = "A seed names the stream of NumPy's RandomState; each run starts it anew.";

class RandomStream {
 public:
  // The stream that attribute 'seed' (a number) names; without the attribute one that no other call gets. Each
  // evaluation of a node with a seed starts its stream anew.
  static RandomStream ForNode(const Node& node);
  explicit RandomStream(double seed);

  // In [0, 1), a multiple of 2^-53.
  double Uniform();
  // Mean 0, standard deviation 1.
  double Normal();

 private:
  explicit RandomStream(std::mt19937 generator) : generator_(generator) {}

  std::mt19937 generator_;
  bool has_spare_ = false;  // Normal() makes two numbers at a time
  double spare_ = 0;
};

// Output 0 of float type `dtype` and `shape`, each element draw().
template <typename F>
Status FillOutput(EvalContext& c, DType dtype, const Shape& shape, F draw) {
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, dtype, shape));
  return DispatchFloat(dtype, [&]<typename T>() {
    for (T& element : y.values<T>()) element = FromDouble<T>(draw());
    return OkStatus();
  });
}

// Infers output 0 of the shape in attribute 'shape' and the type in attribute 'dtype' (float32 when absent).
Status InferRandom(InferContext& context);
// Infers output 0 of input 0's shape and the type in attribute 'dtype' (input 0's when absent).
Status InferRandomLike(InferContext& context);
// Output 0 of the type and shape that `infer` (one of the two above) gives.
Status EvaluateNormal(EvalContext& context, Status (*infer)(InferContext&));
Status EvaluateUniform(EvalContext& context, Status (*infer)(InferContext&));

}  // namespace quern
