// Calibration files: what they say is taken, what is wrong with them is told; and terms are found from times.
#include "kernels/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "kernels/check_selection.h"

namespace quern::kernels {
namespace {

using testing::HasSubstr;

constexpr const char* kFirst = "gemm_f32_f32_f32_6x16x1_avx2";
constexpr const char* kSecond = "gemm_f32_f32_f32_2x32x1_avx2";

Calibration Example() {
  Calibration c{.l2_read = 40, .l3_read = 12, .memory_read = 3.5f, .rows = {}};
  ukernel::GemmCost cost;
  cost.step_row = 1.25f;
  cost.step_load = 0.5f;
  cost.step_min = 3;
  cost.row = 7;
  cost.tile = 11;
  cost.call = 13;
  cost.read = 17;
  c.rows = {{kFirst, cost}, {kSecond, cost}};
  c.rows[1].cost.step_row = 99;
  return c;
}

CpuInfo Host() { return CpuFromSpec("haswell").value(); }

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST(Calibration, TextComesBack) {
  const Calibration want = Example();
  const Result<Calibration> got = ParseCalibration(CalibrationText(want, Host()), Host(), ukernel::AllGemmKernels());
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->l2_read, want.l2_read);
  EXPECT_EQ(got->l3_read, want.l3_read);
  EXPECT_EQ(got->memory_read, want.memory_read);
  ASSERT_EQ(got->rows.size(), want.rows.size());
  for (size_t i = 0; i < want.rows.size(); ++i) {
    const ukernel::GemmCost &a = got->rows[i].cost, &b = want.rows[i].cost;
    EXPECT_EQ(got->rows[i].name, want.rows[i].name);
    EXPECT_EQ(a.step_row, b.step_row);
    EXPECT_EQ(a.step_load, b.step_load);
    EXPECT_EQ(a.step_min, b.step_min);
    EXPECT_EQ(a.row, b.row);
    EXPECT_EQ(a.tile, b.tile);
    EXPECT_EQ(a.call, b.call);
    EXPECT_EQ(a.read, b.read);
    // What no file holds stays the row's.
    EXPECT_EQ(a.engine, ukernel::Engine::kVector);
  }
}

TEST(Calibration, TellsWhatIsWrong) {
  const std::string good = CalibrationText(Example(), Host());
  const std::string row = std::string("row ") + kFirst + " step_row=1.25";
  const struct {
    std::string text;
    StatusCode code;
    const char* message;
  } cases[] = {
      {"", StatusCode::kCorrupt, "the file is empty"},
      {"quern calibration 2\n", StatusCode::kCorrupt, "line 1: not 'quern calibration 1'"},
      {"quern calibration 1\n", StatusCode::kCorrupt, "not all there"},
      {good.substr(0, good.find("read")), StatusCode::kCorrupt, "not all there"},
      {Replaced(good, "cpu Haswell", "cpu Cray"), StatusCode::kUnsupported, "line 2: made on a machine with cpu 'Cray"},
      {Replaced(good, " fma", ""), StatusCode::kUnsupported, "line 3: made on a machine with features"},
      {Replaced(good, "caches 32768", "caches 1"), StatusCode::kUnsupported, "line 4: made on a machine with caches"},
      {Replaced(good, "l2=40", "l2=0"), StatusCode::kCorrupt, "line 5: l2 is read at no speed"},
      {Replaced(good, "l2=40", "l2=fast"), StatusCode::kCorrupt, "'l2=fast' has no number between 0 and 1e9"},
      {Replaced(good, " l2=40", ""), StatusCode::kCorrupt, "line 5: 2 of 3 terms"},
      {Replaced(good, row, row + "x"), StatusCode::kCorrupt, "line 6: 'step_row=1.25x' has no number"},
      {Replaced(good, row, Replaced(row, "1.25", "-1")), StatusCode::kCorrupt, "'step_row=-1' has no number"},
      {Replaced(good, row, Replaced(row, "1.25", "nan")), StatusCode::kCorrupt, "'step_row=nan' has no number"},
      {Replaced(good, row, Replaced(row, "1.25", "1e10")), StatusCode::kCorrupt, "'step_row=1e10' has no number"},
      {Replaced(good, row, row + " 7"), StatusCode::kCorrupt, "'7' is not NAME=NUMBER"},
      {Replaced(good, row, row + " speed=7"), StatusCode::kCorrupt, "there is no term 'speed'"},
      {Replaced(good, " tile=11", ""), StatusCode::kCorrupt, "line 6: 6 of 7 terms"},
      {Replaced(good, " tile=11", " row=11"), StatusCode::kCorrupt, "line 6: 'row' is given twice"},
      {Replaced(good, " read=17", " read=0"), StatusCode::kCorrupt, "reads nothing"},
      {Replaced(good, "step_row=1.25 step_load=0.5 step_min=3", "step_row=0 step_load=0 step_min=0"),
       StatusCode::kCorrupt, "cost nothing"},
      {Replaced(good, "6x16x1", "6x17x1"), StatusCode::kUnsupported, "no micro-kernel 'gemm_f32_f32_f32_6x17x1_avx2'"},
      {good + good.substr(good.find("row")), StatusCode::kCorrupt, "line 8: a second line for 'gemm_f32"},
      {Replaced(good, "caches", "cpu Haswell (AVX2, FMA)\ncaches"), StatusCode::kCorrupt, "a second line 'cpu'"},
      {good + "speed 7\n", StatusCode::kCorrupt, "'speed' is no cpu"},
  };
  for (const auto& c : cases) {
    const Result<Calibration> got = ParseCalibration(c.text, Host(), ukernel::AllGemmKernels());
    ASSERT_FALSE(got.ok()) << c.message;
    EXPECT_EQ(got.status().code(), c.code) << got.status().message();
    EXPECT_THAT(got.status().message(), HasSubstr(c.message));
  }
  EXPECT_TRUE(ParseCalibration(good + "\n", Host(), ukernel::AllGemmKernels()).ok());
}

TEST(Calibration, ChangesTheChoice) {
  SelectOptions options;
  options.cpu = Host().facts();
  options.ignore_missing_bodies = true;
  const GemmProblem problem{.n = 512, .k = 512, .expected_m = 96};
  const auto choose = [&] {
    const LayoutChoice layout = SelectLayout(problem, options).value();
    return std::string(
        ukernel::Name(*SelectRow(EligibleRows(problem, options, layout), problem, options.cpu, layout.layout, 96))
            .text);
  };
  ASSERT_EQ(choose(), kFirst);
  Calibration slow = Example();
  slow.rows.resize(1);
  slow.rows[0].cost.step_row = 1000;
  const CalibratedRows rows(slow, ukernel::AllGemmKernels());
  ASSERT_EQ(rows.rows().size(), ukernel::AllGemmKernels().size());
  options.rows = rows.rows();
  EXPECT_NE(choose(), kFirst);
  CpuInfo cpu = Host();
  rows.ApplyTo(cpu);
  EXPECT_EQ(cpu.facts().l2_read, 40);
  EXPECT_EQ(cpu.facts().l3_read, 12);
  EXPECT_EQ(cpu.facts().memory_read, 3.5f);
}

// A line of a file names one row.
TEST(Calibration, RowsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      EXPECT_TRUE(names.insert(ukernel::Name(list->rows[i]).text).second) << ukernel::Name(list->rows[i]).text;
    }
  }
}

TEST(Calibration, ComesFromTheEnvironment) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "quern_calibration_test.txt";
  const CpuInfo native = CpuFromSpec("native").value();
  ::unsetenv("QUERN_CALIBRATION");
  EXPECT_EQ(*CalibrationFromEnvironment(native), nullptr);
  ::setenv("QUERN_CALIBRATION", file.c_str(), 1);
  std::filesystem::remove(file);
  EXPECT_THAT(CalibrationFromEnvironment(native).status().message(),
              testing::AllOf(HasSubstr("QUERN_CALIBRATION"), HasSubstr(file.string())));
  std::ofstream(file) << CalibrationText(Example(), HostCpu());
  EXPECT_NE(*CalibrationFromEnvironment(native), nullptr);
  EXPECT_NE(*CalibrationFromEnvironment(CpuFromSpec("native,-winograd").value()), nullptr);
  EXPECT_EQ(*CalibrationFromEnvironment(Host()), nullptr);  // a named CPU has the shipped data
  std::ofstream(file) << "nonsense";
  EXPECT_THAT(CalibrationFromEnvironment(native).status().message(),
              testing::AllOf(HasSubstr(file.string()), HasSubstr("line 1")));
  ::unsetenv("QUERN_CALIBRATION");
  std::filesystem::remove(file);
}

// Times that follow the model exactly: the fitted terms give them back, also for shapes that were not timed.
TEST(Calibration, FitsTermsToTimes) {
  const CpuFacts cpu = Host().facts();
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& shipped = list->rows[i];
      if (ukernel::Name(shipped).text != std::string(kFirst)) continue;
      GemmKernel truth = shipped;
      truth.cost.step_row *= 1.7f;
      truth.cost.step_load *= 1.7f;
      truth.cost.step_min = 9;
      truth.cost.row = 2;
      truth.cost.tile = 70;
      const LayoutChoice layout{shipped.layouts[0], 0};
      std::vector<CostSample> samples, others;
      for (size_t m : {1, 2, 3, 5, 6, 12, 17, 48, 200}) {
        for (size_t k : {32, 96, 256, 1024}) {
          CostSample s{{.n = 64, .k = k}, m, 0};
          s.cycles = EstimateCycles(truth, s.problem, cpu, layout.layout, m);
          (m % 3 == 2 ? others : samples).push_back(s);
        }
      }
      GemmKernel fitted = shipped;
      fitted.cost = FitCost(shipped, layout, cpu, samples);
      double shipped_error = 0;
      for (const CostSample& s : others) {
        const double cycles = EstimateCycles(fitted, s.problem, cpu, layout.layout, s.m);
        EXPECT_NEAR(cycles / s.cycles, 1, 0.03) << "m=" << s.m << " k=" << s.problem.k;
        const double before = EstimateCycles(shipped, s.problem, cpu, layout.layout, s.m);
        shipped_error = std::max(shipped_error, std::abs(before / s.cycles - 1));
      }
      EXPECT_GT(shipped_error, 0.3);
      return;
    }
  }
  FAIL() << "no row " << kFirst;
}

// The portable float32 rows alone, so that measuring takes little.
RowTable PortableRows() {
  static const std::vector<const ukernel::KernelList<GemmKernel>*> lists = [] {
    std::vector<const ukernel::KernelList<GemmKernel>*> few;
    for (const auto* list : ukernel::AllGemmKernels()) {
      if (list->stem == std::string("gemm_f32_f32_f32_portable")) few.push_back(list);
    }
    return few;
  }();
  return lists;
}

TEST(Calibration, MeasuresRowsIntoAFile) {
  const RowTable rows = PortableRows();
  ASSERT_EQ(rows.size(), 1u);
  // Those for resident weights: what streams a matrix of the run keeps its terms.
  const GemmKernel* const end = rows[0]->rows + rows[0]->count;
  const auto resident =
      static_cast<size_t>(std::count_if(rows[0]->rows, end, [](const GemmKernel& r) { return !r.only_in_place; }));
  size_t lines = 0;
  const Result<Calibration> c =
      Calibrate(HostCpu(), {.seconds = 1e-3, .rows = rows, .progress = [&](const std::string&) { ++lines; }});
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ(c->rows.size(), resident);
  EXPECT_EQ(lines, 1 + resident);
  const Result<Calibration> read = ParseCalibration(CalibrationText(*c, HostCpu()), HostCpu(), rows);
  EXPECT_TRUE(read.ok()) << read.status().message();
  CpuInfo other = HostCpu();
  other.arch = HostArch() == Arch::kAArch64 ? Arch::kX86_64 : Arch::kAArch64;
  EXPECT_EQ(Calibrate(other, {}).status().code(), StatusCode::kUnsupported);
}

TEST(CheckSelection, MeasuresSeededShapes) {
  const CheckOptions options{.shapes = 4, .seed = 3, .seconds_per_row = 1e-4, .rows = PortableRows(), .progress = {}};
  const auto first = CheckSelection(HostCpu(), options), second = CheckSelection(HostCpu(), options);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_EQ(first->size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const CheckedShape &a = (*first)[i], &b = (*second)[i];
    EXPECT_EQ(std::tie(a.types, a.m, a.n, a.k, a.chosen), std::tie(b.types, b.m, b.n, b.k, b.chosen));
    EXPECT_THAT(a.chosen, HasSubstr("gemm_f32_f32_f32"));
    EXPECT_GT(a.best_seconds, 0);
    EXPECT_GE(a.ratio(), 1);
  }
}

}  // namespace
}  // namespace quern::kernels
