// Every operator that the CPU provider claims has random cases: after a run of all tests, those without fail it.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"
#include "provider/cpu/sized/sized_provider.h"

namespace quern::cpu {
namespace {

const size_t kFewestCases = kRounds * 2 / 3;  // of different shapes, types or attributes

class EveryOperatorHasCases final : public testing::Environment {
 public:
  void TearDown() override {
    const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() < tests.total_test_count()) return;  // a filter or a shard
    for (const std::span<const CpuOp>* ops : AllCpuOps()) {
      for (const CpuOp& op : *ops) {
        if (std::string_view(op.domain) != kCpuDomain) Expect(op.domain, op.op_type);
      }
    }
    for (const SizedOp* op : AllSizedOps()) Expect("", op->op_type);
  }

 private:
  static void Expect(const char* domain, const char* op_type) {
    EXPECT_GE(ComparedCases()[std::pair(domain, op_type)].size(), kFewestCases)
        << "different cases of '" << domain << "' " << op_type << " were compared with the reference";
  }
};

const testing::Environment* const kEnvironment = testing::AddGlobalTestEnvironment(new EveryOperatorHasCases);

}  // namespace
}  // namespace quern::cpu
