#include "feeds.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstring>
#include <filesystem>

#include "command.h"
#include "npy.h"
#include "number.h"

namespace quern_tool {
namespace {

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // in [0, 1)

 private:
  std::uint64_t state_;
};

std::string Describe(const quern_port& port) { return std::string("'") + port.name + "' (" + port.type_text + ")"; }

std::string ListInputs(const quern::Session& session) {
  std::string text = "the model takes";
  for (std::size_t i = 0; i < session.num_inputs(); ++i) text += (i ? ", " : " ") + Describe(session.input(i));
  return session.num_inputs() ? text : "the model takes no input";
}

std::size_t FindInput(const quern::Session& session, const std::string& name) {
  try {
    return session.FindInput(name);
  } catch (const quern::Error& e) {
    throw Failure(e.what(), true);
  }
}

std::string Extension(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  std::string extension = dot == std::string::npos ? "" : path.substr(dot + 1);
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

quern::Value RandomValue(const quern_port& port, const quern::Shape& dims, Random& random) {
  if (port.kind == QUERN_KIND_STRINGS) {
    std::size_t count = 1;
    for (std::int64_t d : dims) count *= static_cast<std::size_t>(d);
    return quern::Value::Strings(dims, std::vector<std::string>(count, "a"));
  }
  if (port.kind != QUERN_KIND_TENSOR || port.dtype == QUERN_UNDEFINED) {
    throw Failure("input " + Describe(port) + " cannot be made up; give it with --input");
  }
  quern::Value value = quern::Value::Tensor(port.dtype, dims);
  const bool floating =
      port.dtype == QUERN_F32 || port.dtype == QUERN_F64 || port.dtype == QUERN_F16 || port.dtype == QUERN_BF16;
  const bool mask = std::strstr(port.name, "mask") != nullptr;
  const std::int64_t count = value.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const double u = random.Uniform();
    // Integers are small, since most are indices.
    const double number = floating                   ? 2 * u - 1
                          : mask                     ? 1
                          : port.dtype == QUERN_BOOL ? u < 0.5
                                                     : static_cast<int>(u * 10);
    if (!StoreNumber(port.dtype, value.raw_data(), static_cast<std::size_t>(i), number)) {
      std::memset(value.raw_data(), 0, value.bytes());
      break;
    }
  }
  return value;
}

// Declared extents with --shape and values of symbols applied; -1 stays open.
quern::Shape ShapeOf(const quern_port& port, const std::map<std::string, quern::Shape>& shapes) {
  const auto given = shapes.find(port.name);
  if (given != shapes.end()) return given->second;
  quern::Shape dims;
  for (std::int32_t d = 0; d < port.rank; ++d) {
    dims.push_back(port.dims[d]);
    const auto symbol = port.dims[d] < 0 ? shapes.find(port.symbols[d]) : shapes.end();
    if (symbol != shapes.end() && symbol->second.size() == 1) dims.back() = symbol->second[0];
  }
  return dims;
}

std::map<std::string, quern::Shape> ReadShapes(const quern::Session& session, const std::vector<std::string>& options) {
  std::map<std::string, quern::Shape> shapes;
  for (const std::string& option : options) {
    auto [name, text] = SplitAssignment(option);
    if (name.empty() && session.num_inputs() == 1) name = session.input(0).name;
    // Messages quote names of extents that are more than a word.
    if (name.size() > 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
    bool known = false;
    for (std::size_t i = 0; i < session.num_inputs(); ++i) {
      const quern_port port = session.input(i);
      known |= name == port.name;
      for (std::int32_t d = 0; d < port.rank; ++d) known |= port.dims[d] < 0 && name == port.symbols[d];
    }
    if (!known)
      throw Failure("--shape " + option + ": there is no input or extent '" + name + "'; " + ListInputs(session), true);
    shapes[name] = ParseShape(text, "--shape " + option);
  }
  return shapes;
}

// Of an input: the symbol of its first dimension where that is open, else "".
std::string FirstSymbol(const quern_port& port) {
  return port.rank > 0 && port.dims[0] < 0 ? port.symbols[0] : std::string();
}

// Extents without a name of their own get one each: "?7".
bool IsUnnamed(const std::string& symbol) { return symbol[0] == '?'; }

// What --batch replaces: the first dimension of the first input that has an open one there.
std::string BatchSymbol(const quern::Session& session, std::int64_t batch) {
  std::string fixed;
  for (std::size_t i = 0; i < session.num_inputs(); ++i) {
    const quern_port port = session.input(i);
    if (std::string symbol = FirstSymbol(port); !symbol.empty()) return symbol;
    if (port.rank < 1 || !fixed.empty()) continue;
    fixed = ": the first dimension of input " + Describe(port) + " is fixed at " + std::to_string(port.dims[0]);
  }
  throw Failure("--batch " + std::to_string(batch) + (fixed.empty() ? ": no input has a dimension" : fixed), true);
}

// Whether the first dimension of the input is the batch: by its name, or as all those without one.
bool HasBatch(const quern_port& port, const std::string& batch_symbol) {
  const std::string symbol = FirstSymbol(port);
  return !symbol.empty() && (symbol == batch_symbol || (IsUnnamed(symbol) && IsUnnamed(batch_symbol)));
}

}  // namespace

void AddShapeOption(CLI::App& app, FeedOptions& options) {
  app.add_option("--shape", options.shapes, "shape of an input whose extents are open, or size of a symbolic extent")
      ->type_name("NAME=1x3x224x224");
}

void AddFeedOptions(CLI::App& app, FeedOptions& options) {
  app.add_option("-i,--input", options.inputs, "input from a .npy, .pb (TensorProto) or picture file (.png, .jpg)")
      ->type_name("NAME=FILE");
  app.add_flag("--random", options.random, "seeded random numbers for inputs that are not given");
  app.add_option("--seed", options.seed, "seed of --random (default 1)")->type_name("N");
  AddShapeOption(app, options);
  app.add_option("--scale", options.image.scale, "pictures: pixels (0..255) times this (default 1/255)")
      ->type_name("S");
  app.add_option("--mean", options.image.mean, "pictures: subtracted after scaling, one number or one per channel")
      ->type_name("M,...")
      ->delimiter(',');
  app.add_option("--std", options.image.std, "pictures: divided by, after the mean")
      ->type_name("S,...")
      ->delimiter(',');
  app.add_flag("--bgr", options.image.bgr, "pictures: channels in the order blue, green, red");
}

quern::Value ReadProto(const std::string& path, quern_kind kind) {
  try {
    return quern::Value::FromProto(kind == QUERN_KIND_NONE ? QUERN_KIND_TENSOR : kind, ReadFile(path));
  } catch (const quern::Error& e) {
    throw Failure(path + ": " + e.what());
  }
}

std::vector<std::string> NumberedFiles(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> files;
  for (int i = 0;; ++i) {
    std::string file = folder + "/" + prefix + std::to_string(i) + ".pb";
    if (!std::filesystem::exists(file)) return files;
    files.push_back(std::move(file));
  }
}

std::vector<quern::Value> ReadDataSet(const quern::Session& session, const std::string& folder) {
  const std::vector<std::string> files = NumberedFiles(folder, "input_");
  if (files.size() > session.num_inputs()) {
    throw Failure(std::filesystem::path(folder).filename().string() + " has " + std::to_string(files.size()) +
                  " inputs, the model " + std::to_string(session.num_inputs()));
  }
  std::vector<quern::Value> inputs(session.num_inputs());
  for (std::size_t i = 0; i < files.size(); ++i) inputs[i] = ReadProto(files[i], session.input(i).kind);
  return inputs;
}

quern::Value ReadValue(const std::string& path, const quern_port& port, const quern::Shape& dims,
                       const ImageOptions& image) {
  const std::string extension = Extension(path);
  if (extension == "npy") return ReadNpy(path);
  if (extension == "pb") return ReadProto(path, port.kind);
  for (const char* known : {"png", "jpg", "jpeg", "bmp", "ppm", "pgm", "gif", "tga"}) {
    if (extension == known) return ReadImage(path, port.name, port.dtype, dims, image);
  }
  throw Failure(path + ": inputs are .npy, .pb or picture files (.png, .jpg, .bmp, .ppm)", true);
}

std::vector<quern::Value> MakeFeeds(const quern::Session& session, const FeedOptions& options) {
  std::map<std::string, quern::Shape> shapes = ReadShapes(session, options.shapes);
  const std::string batch_symbol = options.batch > 0 ? BatchSymbol(session, options.batch) : "";
  for (std::size_t i = 0; i < session.num_inputs() && options.batch > 0; ++i) {
    const quern_port port = session.input(i);
    if (HasBatch(port, batch_symbol)) shapes.insert({port.symbols[0], {options.batch}});
  }
  std::vector<quern::Value> feeds(session.num_inputs());
  for (const std::string& option : options.inputs) {
    auto [name, path] = SplitAssignment(option);
    if (name.empty() && session.num_inputs() == 1) name = session.input(0).name;
    if (name.empty()) throw Failure("--input " + option + ": say which input, NAME=FILE; " + ListInputs(session), true);
    const std::size_t at = FindInput(session, name);
    if (feeds[at]) throw Failure("input '" + name + "' is given twice", true);
    const quern_port port = session.input(at);
    feeds[at] = ReadValue(path, port, ShapeOf(port, shapes), options.image);
  }
  Random random(options.seed);
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const quern_port port = session.input(i);
    if (feeds[i] || port.kind == QUERN_KIND_OPTIONAL || port.has_default) continue;
    if (!options.random) {
      throw Failure("input " + Describe(port) + " is not given: add --input " + port.name + "=FILE or --random", true);
    }
    quern::Shape dims = ShapeOf(port, shapes);
    if (port.rank < 0 && !shapes.count(port.name)) {
      throw Failure("input " + Describe(port) + ": say its shape with --shape " + port.name + "=...", true);
    }
    for (std::int64_t& d : dims) {
      if (d < 0) d = 1;
    }
    feeds[i] = RandomValue(port, dims, random);
  }
  for (std::size_t i = 0; i < feeds.size() && options.batch > 0; ++i) {
    const quern_port port = session.input(i);
    const bool shaped = feeds[i] && (feeds[i].kind() == QUERN_KIND_TENSOR || feeds[i].kind() == QUERN_KIND_STRINGS);
    if (!shaped || !HasBatch(port, batch_symbol)) continue;
    const quern::Shape shape = feeds[i].shape();
    if (!shape.empty() && shape[0] == options.batch) continue;
    throw Failure(
        "--batch " + std::to_string(options.batch) + ": input " + Describe(port) + " is given as " + TypeText(feeds[i]),
        true);
  }
  return feeds;
}

}  // namespace quern_tool
