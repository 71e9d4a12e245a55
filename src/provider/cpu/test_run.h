// What tests of the CPU provider share: a graph run by it alone.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "parallel/hostile_executor.h"
#include "provider/cpu/cpu_executable.h"
#include "provider/host.h"

namespace quern::cpu {

// Plans and runs a compiled cluster for these inputs. Results lie in `places`, where there are any, of any strides.
inline Result<std::vector<Tensor>> RunOnce(const CpuExecutable& exe, HostileExecutor& executor,
                                           std::span<const Value> inputs, std::span<const Tensor> places = {}) {
  std::vector<quern_tensor_view> in;
  for (const Value& v : inputs) in.push_back(ViewOf(v.tensor()));
  std::vector<quern_tensor_view> planned(exe.graph().outputs().size());
  for (size_t i = 0; i < planned.size(); ++i) {
    if (places.empty()) {
      planned[i].rank = -1;
    } else {
      planned[i] = ViewOf(places[i]);
    }
  }
  quern_plan_args plan_args{};
  plan_args.num_inputs = static_cast<int32_t>(in.size());
  plan_args.inputs = in.data();
  plan_args.concurrency = executor.concurrency();
  plan_args.num_outputs = static_cast<int32_t>(planned.size());
  plan_args.outputs = planned.data();
  QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<CpuPlan> plan, CpuPlan::Build(exe, plan_args));
  std::vector<Tensor> outputs;
  std::vector<quern_tensor_view> out;
  for (int i = 0; i < exe.num_outputs(); ++i) {
    Tensor t;
    if (places.empty()) {
      QUERN_ASSIGN_OR_RETURN(t, Tensor::Allocate(plan->output(i).spec.dtype, plan->output(i).spec.shape));
      std::memset(t.raw_data(), 0x5a, t.bytes());
    } else {
      t = places[static_cast<size_t>(i)];
    }
    out.push_back(ViewOf(t));
    outputs.push_back(std::move(t));
  }
  QUERN_ASSIGN_OR_RETURN(AlignedBuffer workspace, AlignedBuffer::Allocate(plan->workspace_bytes()));
  quern_executor handle;
  handle.executor = &executor;
  quern_run_args run_args{};
  run_args.num_inputs = plan_args.num_inputs;
  run_args.inputs = in.data();
  run_args.num_outputs = static_cast<int32_t>(out.size());
  run_args.outputs = out.data();
  run_args.workspace = workspace.data();
  run_args.executor = &handle;
  QUERN_RETURN_IF_ERROR(plan->Run(run_args));
  return outputs;
}

// A cluster compiled, planned and run, with an executor that orders tasks at random.
inline Result<std::vector<Tensor>> RunOnCpu(const Graph& graph, std::span<const Value> inputs, const CpuConfig& config,
                                            std::span<const Tensor> places = {}) {
  HostileExecutor executor(7, 3);
  QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<CpuExecutable> exe, CpuExecutable::Compile(graph, config, executor));
  return RunOnce(*exe, executor, inputs, places);
}

// Whether the results are the expected ones, float32, within 2e-5 of each and of 1.
inline void ExpectClose(std::span<const Value> expected, std::span<const Tensor> actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t o = 0; o < actual.size(); ++o) {
    const Tensor &e = expected[o].tensor(), &a = actual[o];
    ASSERT_EQ(e.shape(), a.shape());
    for (int64_t i = 0; i < e.num_elements(); ++i) {
      const float x = e.data<float>()[i], y = a.data<float>()[i];
      EXPECT_LE(std::fabs(x - y), 2e-5f * (1 + std::fabs(x))) << "output " << o << ", element " << i;
    }
  }
}

// The plan of a graph of one input and one output that lies where the plan wants it.
inline Result<std::unique_ptr<CpuPlan>> PlanFor(const CpuExecutable& exe, const quern_tensor_view& in,
                                                int concurrency) {
  quern_tensor_view out{};
  out.rank = -1;
  quern_plan_args args{};
  args.num_inputs = args.num_outputs = 1;
  args.inputs = &in;
  args.outputs = &out;
  args.concurrency = concurrency;
  return CpuPlan::Build(exe, args);
}

// The host's own rows, or the portable ones and so small a cache that operators work in many blocks.
inline const CpuConfig& Config(bool portable) {
  static const CpuConfig native = [] {
    CpuConfig c;
    c.cpu = HostCpu();
    return c;
  }();
  static const CpuConfig generic = [] {
    CpuConfig c;
    c.cpu = CpuFromSpec("generic").value();
    c.cpu.l2 = {.bytes = 16 << 10};
    return c;
  }();
  return portable ? generic : native;
}
// Likewise, but elementwise nodes stay apart, and pools channels last.
inline CpuConfig ConfigWithoutChains(bool portable) {
  CpuConfig c = Config(portable);
  c.skip_passes = {"cpu_fuse_elementwise", "cpu_pool_planes"};
  return c;
}

}  // namespace quern::cpu
