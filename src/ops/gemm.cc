// Gemm: alpha * A * B + beta * C, A and B optionally transposed; B may be in a block format (with transB).
#include "ops/common/gemm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) { return EvaluateGemm(c, nullptr); }

constexpr Param kInputs6[] = {
    {"A", "T", kOldFloatTypes}, {"B", "TB", kOldFloatTypes | kBlockTypes}, {"C", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes6[] = {{"alpha", AttrType::kFloat, false, "1"},
                                     {"beta", AttrType::kFloat, false, "1"},
                                     {"broadcast", AttrType::kInt, false, "0"},
                                     {"transA", AttrType::kInt, false, "0"},
                                     {"transB", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes7[] = {{"alpha", AttrType::kFloat, false, "1"},
                                     {"beta", AttrType::kFloat, false, "1"},
                                     {"transA", AttrType::kInt, false, "0"},
                                     {"transB", AttrType::kInt, false, "0"}};
constexpr Param kInputs9[] = {
    {"A", "T", kOldMathTypes}, {"B", "TB", kOldMathTypes | kBlockTypes}, {"C", "T", kOldMathTypes}};
constexpr Param kOutputs9[] = {{"Y", "T", kOldMathTypes}};
constexpr Param kInputs11[] = {
    {"A", "T", kOldMathTypes}, {"B", "TB", kOldMathTypes | kBlockTypes}, {"C", "T", kOldMathTypes, Arity::kOptional}};
constexpr Param kInputs13[] = {
    {"A", "T", kMathTypes}, {"B", "TB", kMathTypes | kBlockTypes}, {"C", "T", kMathTypes, Arity::kOptional}};
constexpr Param kOutputs13[] = {{"Y", "T", kMathTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes6, InferGemm, Evaluate},
                                   {7, kInputs6, kOutputs6, kAttributes7, InferGemm, Evaluate},
                                   {9, kInputs9, kOutputs9, kAttributes7, InferGemm, Evaluate},
                                   {11, kInputs11, kOutputs9, kAttributes7, InferGemm, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes7, InferGemm, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpGemm = {"", "Gemm", kVersions};

}  // namespace quern
