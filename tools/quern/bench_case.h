// One measurement of a model with one number of threads: load, warm-up, timed runs, memory, and the profile of nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "json.h"
#include "measure.h"
#include "profile.h"
#include "quern/quern.hpp"

namespace quern_tool {

struct BenchOptions {
  std::string model;
  quern::SessionOptions session;  // the number of threads is the case's
  MeasureOptions measure;
  std::int64_t batch = 0;  // elements of a batch, for the throughput; 0: not known
  bool per_node = false;
};

struct BenchCase {
  int threads = 1;
  double load_seconds = 0;
  Measurement times;
  Latencies latencies;
  std::vector<std::string> inputs;  // "image f32[1,3,224,224]", of the first run
  std::uint64_t peak_bytes = 0;     // resident memory of the process at most; 0 where that is not known
  std::uint64_t added_bytes = 0;    // of it, what was not resident before the model was loaded
  Profile profile;                  // with per_node
  std::vector<NodeRow> nodes;       // of it, by FindNodes
  double nodes_share = 0;           // how much of the runs' time they account for

  double runs() const { return static_cast<double>(times.seconds.size()); }
  double runs_per_second() const { return runs() / times.wall_seconds; }
  double cpu_use() const { return times.cpu_seconds / times.wall_seconds; }  // 1: one core
};

using FeedMaker = std::function<FeedSets(const quern::Session&)>;

// threads 0: the default.
BenchCase MeasureCase(const BenchOptions& options, int threads, const FeedMaker& make_feeds);

// Fills `nodes` of all cases from their profiles, and gives the facts about the CPU with its peaks, which take some
// seconds to measure; a line on standard error says so.
Json FindNodes(const std::string& cpu, std::vector<BenchCase>& cases);

enum class NodeOrder { kTime, kGraph };
// The first `most` rows (0: all) in that order.
std::vector<NodeRow> Selected(std::vector<NodeRow> rows, NodeOrder order, std::size_t most);

// {"version": 1, "kind": "bench", "model", "inputs", "clients", "warmup", "cases": [{"threads", ...}]}, and with
// `per_node` "peaks", of `cpu`, and for each case "nodes".
Json BenchJson(const BenchOptions& options, const std::vector<BenchCase>& cases, const Json& cpu);

}  // namespace quern_tool
