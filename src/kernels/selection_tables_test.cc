// What selection chooses on CPUs of every kind, from the shipped cost data, compared with tests/selection/<cpu>.txt on
// any host. QUERN_WRITE_SELECTION=1 writes the files anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/cpu.h"
#include "kernels/problem_kinds.h"
#include "kernels/select.h"

namespace quern::kernels {
namespace {

constexpr size_t kMs[] = {1, 4, 16, 128, 1024};
constexpr size_t kExtents[] = {64, 512, 4096};

// The layout, and the row for each M: "M 1 4: row".
std::string ChoiceText(const GemmProblem& p, const SelectOptions& options) {
  const Result<LayoutChoice> layout = SelectLayout(p, options);
  if (!layout.ok()) return "  no row\n";
  const std::vector<const GemmKernel*> rows = EligibleRows(p, options, *layout);
  std::string text = "  " + LayoutName(layout->layout) + "\n";
  const GemmKernel* last = nullptr;
  std::string ms;
  const auto flush = [&] {
    if (last) text += "    M" + ms + ": " + ukernel::Name(*last).text + "\n";
    ms.clear();
  };
  for (size_t m : kMs) {
    const GemmKernel* row = SelectRow(rows, p, options.cpu, layout->layout, m);
    if (row != last) flush();
    last = row;
    ms += " " + std::to_string(m);
  }
  flush();
  return text;
}

// Shapes with the same choices stand together, in the order of their first.
std::string Table(std::string_view cpu) {
  SelectOptions options;
  options.cpu = CpuFromSpec(cpu).value().facts();
  options.ignore_missing_bodies = true;
  std::ostringstream out;
  for (ProblemKind kind : ProblemKinds()) {
    out << kind.name << "\n";
    std::vector<std::pair<std::string, std::string>> groups;  // choice, shapes
    for (size_t n : kExtents) {
      for (size_t k : kExtents) {
        kind.problem.n = n;
        kind.problem.k = k;
        const std::string choice = ChoiceText(kind.problem, options);
        const std::string shape = " " + std::to_string(n) + "x" + std::to_string(k);
        auto group = groups.begin();
        while (group != groups.end() && group->first != choice) ++group;
        if (group == groups.end()) group = groups.insert(group, {choice, ""});
        group->second += shape;
      }
    }
    for (const auto& [choice, shapes] : groups) {
      out << "  NxK" << (groups.size() == 1 ? " any" : shapes) << "\n  " << choice;
    }
  }
  return out.str();
}

class SelectionTables : public testing::TestWithParam<const char*> {};

TEST_P(SelectionTables, AreAsCommitted) {
  const std::string path = std::string(QUERN_SELECTION_TABLES "/") + GetParam() + ".txt";
  const std::string table = Table(GetParam());
  if (std::getenv("QUERN_WRITE_SELECTION")) std::ofstream(path) << table;
  std::ifstream file(path);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  std::istringstream new_lines(table), old_lines(there);
  std::string kind, now, before;
  while (now == before && std::getline(new_lines, now)) {
    std::getline(old_lines, before);
    if (!now.empty() && now[0] != ' ') kind = now;
  }
  // The first difference alone: whole tables are long.
  EXPECT_TRUE(there == table) << path << ", " << kind << ": '" << before << "' became '" << now
                              << "'; where that is meant, run this test with QUERN_WRITE_SELECTION=1";
}

std::string TestName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Selection, SelectionTables,
                         testing::Values("haswell", "alderlake", "skylake-avx512", "icelake", "sapphirerapids",
                                         "granite-rapids", "sierra-forest", "zen4", "zen5", "cortex-a53", "graviton2",
                                         "graviton3", "graviton4", "grace", "yitian710", "tensor-g3",
                                         "snapdragon-8-gen1", "dimensity-9000", "apple-m1", "apple-m4", "sme2-128",
                                         "sme2-256", "sme2-512"),
                         TestName);

}  // namespace
}  // namespace quern::kernels
