// The inputs of a run: from files, seeded random numbers, or pictures.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "image.h"
#include "quern/quern.hpp"

namespace CLI {
class App;
}

namespace quern_tool {

struct FeedOptions {
  std::vector<std::string> inputs;  // NAME=FILE, or FILE when the model has one input
  std::vector<std::string> shapes;  // NAME=1x3x224x224; NAME is an input or a symbolic extent
  std::int64_t batch = 0;           // extent of the first dimension, where it is open; 0: as the others
  bool random = false;
  std::uint64_t seed = 1;
  ImageOptions image;
};

void AddShapeOption(CLI::App& app, FeedOptions& options);
void AddFeedOptions(CLI::App& app, FeedOptions& options);

// One value per input of the session, empty for an omitted optional one. Failures list what the model takes, or name
// the dimension that --batch cannot replace.
std::vector<quern::Value> MakeFeeds(const quern::Session& session, const FeedOptions& options);

// A value from a .npy, .pb or picture file for the port.
quern::Value ReadValue(const std::string& path, const quern_port& port, const quern::Shape& dims,
                       const ImageOptions& image);
// The message of a .pb file; `kind` says which.
quern::Value ReadProto(const std::string& path, quern_kind kind);
// prefix_0.pb, prefix_1.pb, ... of a folder, as far as they go.
std::vector<std::string> NumberedFiles(const std::string& folder, const std::string& prefix);
// The inputs that a data set of ONNX's backend tests holds, input_0.pb and so on; empty for those behind.
std::vector<quern::Value> ReadDataSet(const quern::Session& session, const std::string& folder);

}  // namespace quern_tool
