#include "provider/cpu/cpu_op.h"

#include <map>
#include <utility>

namespace quern::cpu {

const CpuOp* FindCpuOp(std::string_view domain, std::string_view op_type) {
  using Key = std::pair<std::string_view, std::string_view>;
  static const std::map<Key, const CpuOp*> index = [] {
    std::map<Key, const CpuOp*> m;
    for (const std::span<const CpuOp>* ops : AllCpuOps()) {
      for (const CpuOp& op : *ops) m.emplace(Key(op.domain, op.op_type), &op);
    }
    return m;
  }();
  auto it = index.find({domain, op_type});
  return it == index.end() ? nullptr : it->second;
}

}  // namespace quern::cpu
