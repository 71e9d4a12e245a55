#include "base/sme_units.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace quern {
namespace {

class Root {
 public:
  Root() : path_(std::filesystem::path(testing::TempDir()) / ("quern_sme_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Root() { std::filesystem::remove_all(path_); }
  void Cpu(int id, const std::string& file, const std::string& text) const {
    const std::filesystem::path full = path_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(id)) / file;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << "\n";
  }
  SmeUnits Read(const std::vector<int>& cpus) const { return ReadSmeUnits(path_.string(), cpus); }

 private:
  std::filesystem::path path_;
};

constexpr const char* kSmidr = "regs/identification/smidr_el1";

TEST(SmeUnits, FollowTheAffinityOfSharedUnits) {
  const Root root;
  for (int id = 0; id < 6; ++id) root.Cpu(id, kSmidr, id < 4 ? "0x0000000041006007" : "0x0000000041006008");
  SmeUnits units = root.Read({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(units.count, 2);
  EXPECT_TRUE(units.known);
  EXPECT_EQ(root.Read({1, 2}).count, 1);  // bound to cores of one unit
  // The upper part of the affinity tells units apart, too.
  root.Cpu(0, kSmidr, "0x0000000141006007");
  EXPECT_EQ(root.Read({0, 1, 2, 3, 4, 5}).count, 3);
}

TEST(SmeUnits, CoresMayHaveTheirOwn) {
  const Root root;
  for (int id = 0; id < 4; ++id) root.Cpu(id, kSmidr, id < 2 ? "0x41004000" : "0x41000000");
  EXPECT_EQ(root.Read({0, 1, 2, 3}).count, 4);
  // Without the sharing field, an affinity other than zero is that of a shared unit.
  for (int id = 0; id < 4; ++id) root.Cpu(id, kSmidr, "0x41000001");
  EXPECT_EQ(root.Read({0, 1, 2, 3}).count, 1);
}

TEST(SmeUnits, SlowCoresDoNotCount) {
  const Root root;
  for (int id = 0; id < 4; ++id) {
    root.Cpu(id, kSmidr, "0x41004000");
    root.Cpu(id, "cpu_capacity", id == 0 ? "1024" : id == 1 ? "512" : "500");
  }
  EXPECT_EQ(root.Read({0, 1, 2, 3}).count, 2);
  EXPECT_EQ(root.Read({2, 3}).count, 2);
}

TEST(SmeUnits, GuessOnePerClusterWhereAnyCpuDoesNotTell) {
  const Root root;
  for (int id = 0; id < 6; ++id) {
    root.Cpu(id, "topology/cluster_id", id < 2 ? "0" : id < 4 ? "1" : "2");
    if (id < 5) root.Cpu(id, kSmidr, "0x41004000");
  }
  SmeUnits units = root.Read({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(units.count, 3);
  EXPECT_FALSE(units.known);
  root.Cpu(5, kSmidr, "no number");
  EXPECT_FALSE(root.Read({0, 5}).known);
  units = Root().Read({0, 1});  // nothing there
  EXPECT_EQ(units.count, 1);
  EXPECT_FALSE(units.known);
}

}  // namespace
}  // namespace quern
