// The masks of scores as the one mask that Attention takes.
#pragma once

#include "passes/attention_scores.h"
#include "passes/inserter.h"

namespace quern {

// Whether BuildMask can: every mask broadcasts to the scores without changing them, masks that are added have one type
// of floats, and where leading dimensions were split the extents are known as far as the mask needs them. The last
// dimension, and rows whose number is a formula, are taken to go with the scores.
bool MasksFit(const AttentionScores& of, const Dims& scores, DType dtype);

// The sum of the masks, with as many columns as `scores` has or one; booleans where all only choose between a score and
// -infinity. Null without masks. MasksFit() holds.
GraphValue* BuildMask(const AttentionScores& of, const Dims& scores, DType dtype, Inserter& inserter);

}  // namespace quern
