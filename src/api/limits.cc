// quern_limits: names, defaults and what the library makes of them.
#include <algorithm>
#include <string_view>

#include "api/model.h"
#include "api/struct_size.h"
#include "tensor/shape.h"

namespace quern::api {
namespace {

constexpr struct {
  const char* name;
  uint64_t quern_limits::* field;
} kFields[] = {
    {"model_bytes", &quern_limits::model_bytes},
    {"tensor_bytes", &quern_limits::tensor_bytes},
    {"memory_bytes", &quern_limits::memory_bytes},
    {"folded_bytes", &quern_limits::folded_bytes},
    {"nodes", &quern_limits::nodes},
    {"attribute_elements", &quern_limits::attribute_elements},
    {"loop_iterations", &quern_limits::loop_iterations},
    {"subgraph_depth", &quern_limits::subgraph_depth},
    {"type_depth", &quern_limits::type_depth},
    {"rank", &quern_limits::rank},
};

template <typename Limit>
void Set(uint64_t value, uint64_t most, Limit& limit) {
  if (value != 0) limit = static_cast<Limit>(std::min(value, most));
}

}  // namespace

Result<Limits> ReadLimits(const quern_limits* given) {
  Limits limits;
  if (!given) return limits;
  QUERN_ASSIGN_OR_RETURN(const quern_limits known, ReadStruct(given, "limits"));
  Set(known.model_bytes, INT64_MAX, limits.model_bytes);
  Set(known.tensor_bytes, INT64_MAX, limits.tensor_bytes);
  Set(known.memory_bytes, INT64_MAX, limits.memory_bytes);
  Set(known.folded_bytes, INT64_MAX, limits.folded_bytes);
  Set(known.nodes, INT64_MAX, limits.nodes);
  Set(known.attribute_elements, INT64_MAX, limits.attribute_elements);
  Set(known.loop_iterations, INT64_MAX, limits.loop_iterations);
  Set(known.subgraph_depth, kMaxDepth, limits.subgraph_depth);
  Set(known.type_depth, kMaxDepth, limits.type_depth);
  Set(known.rank, kMaxRank, limits.rank);
  return limits;
}

}  // namespace quern::api

extern "C" {

quern_status quern_limits_set(quern_limits* limits, const char* name, uint64_t value) {
  using quern::Status;
  return quern::api::Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(quern::api::RequirePointer(limits, "limits"));
    QUERN_RETURN_IF_ERROR(quern::api::RequirePointer(name, "name"));
    QUERN_ASSIGN_OR_RETURN(quern_limits known, quern::api::ReadStruct(limits, "limits"));
    std::string names;
    for (const auto& f : quern::api::kFields) {
      if (name != std::string_view(f.name)) {
        names += (names.empty() ? "" : ", ") + std::string(f.name);
        continue;
      }
      known.*f.field = value;
      return quern::api::WriteStruct(known, limits, "limits");
    }
    return quern::InvalidArgument("there is no limit '" + std::string(name) + "'; known are " + names);
  });
}

}  // extern "C"
