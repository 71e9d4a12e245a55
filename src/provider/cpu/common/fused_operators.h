// What the claims on com.microsoft's fused operators and the pass that splits them share.
#pragma once

#include "graph/graph.h"

namespace quern::cpu {

// An activation as an operator of its own: parameters are its attributes alpha and beta, or Clip's bounds.
struct FusedActivation {
  const char* name;
  const char* op_type;
  int opset, parameters;
  float defaults[2];
};
// That of attribute 'activation'; null for none, and for one that is not known.
const FusedActivation* FindFusedActivation(const Node& node);

}  // namespace quern::cpu
