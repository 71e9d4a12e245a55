#include "kernels/calibration.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace quern::kernels {
namespace {

constexpr const char* kFirstLine = "quern calibration 1";

struct Term {
  const char* name;
  float ukernel::GemmCost::* value;
};
constexpr Term kTerms[] = {
    {"step_row", &ukernel::GemmCost::step_row}, {"step_load", &ukernel::GemmCost::step_load},
    {"step_min", &ukernel::GemmCost::step_min}, {"row", &ukernel::GemmCost::row},
    {"tile", &ukernel::GemmCost::tile},         {"call", &ukernel::GemmCost::call},
    {"read", &ukernel::GemmCost::read},
};
struct ReadTerm {
  const char* name;
  float Calibration::* value;
};
constexpr ReadTerm kReads[] = {
    {"l2", &Calibration::l2_read}, {"l3", &Calibration::l3_read}, {"memory", &Calibration::memory_read}};

std::string FeatureText(const CpuInfo& cpu) {
  std::string text;
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto feature = static_cast<CpuFeature>(i);
    if (cpu.features.Has(feature)) text += (text.empty() ? "" : " ") + std::string(CpuFeatureName(feature));
  }
  return text;
}

std::string CacheText(const CpuInfo& cpu) {
  return std::to_string(cpu.l1d.bytes) + " " + std::to_string(cpu.l2.bytes) + " " + std::to_string(cpu.l3.bytes);
}

std::string Assignment(const char* name, float value) {
  char text[64];
  std::snprintf(text, sizeof(text), " %s=%.4g", name, static_cast<double>(value));
  return text;
}

std::string_view NextWord(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(begin);
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// "name=number", the number finite and not below zero.
Status ParseTerm(std::string_view word, std::string_view* name, float* value) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return Corrupt("'" + std::string(word) + "' is not NAME=NUMBER");
  *name = word.substr(0, equals);
  const std::string_view number = word.substr(equals + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), *value);
  constexpr float kMost = 1e9f;
  if (error != std::errc() || end != number.data() + number.size() || !(*value >= 0 && *value <= kMost)) {
    return Corrupt("'" + std::string(word) + "' has no number between 0 and 1e9");
  }
  return OkStatus();
}

template <class Terms, class Object>
Status ParseTerms(std::string_view line, const Terms& terms, Object* object) {
  std::set<std::string_view> given;
  while (true) {
    const std::string_view word = NextWord(line);
    if (word.empty()) break;
    std::string_view name;
    float value = 0;
    QUERN_RETURN_IF_ERROR(ParseTerm(word, &name, &value));
    size_t i = 0;
    while (i < std::size(terms) && name != terms[i].name) ++i;
    if (i == std::size(terms)) return Corrupt("there is no term '" + std::string(name) + "'");
    if (!given.insert(name).second) return Corrupt("'" + std::string(name) + "' is given twice");
    object->*terms[i].value = value;
  }
  if (given.size() != std::size(terms))
    return Corrupt(std::to_string(given.size()) + " of " + std::to_string(std::size(terms)) + " terms");
  return OkStatus();
}

const GemmKernel* FindRow(RowTable table, std::string_view name) {
  for (const auto* list : table) {
    for (size_t i = 0; i < list->count; ++i) {
      if (name == ukernel::Name(list->rows[i]).text) return &list->rows[i];
    }
  }
  return nullptr;
}

Status ParseRow(std::string_view line, RowTable table, std::set<std::string>* seen, Calibration* c) {
  const std::string name(NextWord(line));
  const GemmKernel* row = FindRow(table, name);
  if (!row) return Unsupported("this library has no micro-kernel '" + name + "': calibrate again");
  if (!seen->insert(name).second) return Corrupt("a second line for '" + name + "'");
  RowCost r{name, row->cost};
  QUERN_RETURN_IF_ERROR(ParseTerms(line, kTerms, &r.cost));
  if (r.cost.step_row + r.cost.step_load + r.cost.step_min <= 0) return Corrupt("steps of '" + name + "' cost nothing");
  if (r.cost.read <= 0) return Corrupt("'" + name + "' reads nothing");
  c->rows.push_back(std::move(r));
  return OkStatus();
}

}  // namespace

std::string CalibrationText(const Calibration& c, const CpuInfo& host) {
  std::string text = std::string(kFirstLine) + "\ncpu " + host.model + "\nfeatures " + FeatureText(host) + "\ncaches " +
                     CacheText(host) + "\nread";
  for (const ReadTerm& t : kReads) text += Assignment(t.name, c.*t.value);
  text += "\n";
  for (const RowCost& r : c.rows) {
    text += "row " + r.name;
    for (const Term& t : kTerms) text += Assignment(t.name, r.cost.*t.value);
    text += "\n";
  }
  return text;
}

Result<Calibration> ParseCalibration(std::string_view text, const CpuInfo& host, RowTable table) {
  Calibration c;
  std::set<std::string> seen, headers;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string where = "line " + std::to_string(++number);
    if (number == 1) {
      if (line != kFirstLine) return Corrupt(where + ": not '" + kFirstLine + "'");
      continue;
    }
    if (line.empty()) continue;
    const std::string key(NextWord(line));
    const std::string rest(line.empty() ? line : line.substr(1));
    Status status;
    const auto same = [&](const std::string& here) {
      if (rest != here)
        status = Unsupported("made on a machine with " + key + " '" + rest + "', here it is '" + here + "'");
    };
    if (key == "row") {
      status = ParseRow(rest, table, &seen, &c);
    } else if (!headers.insert(key).second) {
      status = Corrupt("a second line '" + key + "'");
    } else if (key == "cpu") {
      same(host.model);
    } else if (key == "features") {
      same(FeatureText(host));
    } else if (key == "caches") {
      same(CacheText(host));
    } else if (key == "read") {
      status = ParseTerms(rest, kReads, &c);
      for (const ReadTerm& t : kReads) {
        if (status.ok() && c.*t.value <= 0) status = Corrupt(std::string(t.name) + " is read at no speed");
      }
    } else {
      status = Corrupt("'" + key + "' is no cpu, features, caches, read or row");
    }
    if (!status.ok()) return status.WithContext(where);
  }
  if (number == 0) return Corrupt("the file is empty");
  if (headers.size() != 4) return Corrupt("lines cpu, features, caches and read are not all there");
  return c;
}

CalibratedRows::CalibratedRows(Calibration calibration, RowTable base) : calibration_(std::move(calibration)) {
  for (const auto* list : base) {
    kernels_.emplace_back(list->rows, list->rows + list->count);
    for (GemmKernel& kernel : kernels_.back()) {
      const std::string name = ukernel::Name(kernel).text;
      for (const RowCost& r : calibration_.rows) {
        if (r.name == name) kernel.cost = r.cost;
      }
    }
  }
  for (size_t i = 0; i < base.size(); ++i) lists_.push_back({kernels_[i].data(), kernels_[i].size(), base[i]->stem});
  for (const auto& list : lists_) table_.push_back(&list);
}

void CalibratedRows::ApplyTo(CpuInfo& cpu) const {
  cpu.l2_read = calibration_.l2_read;
  cpu.l3_read = calibration_.l3_read;
  cpu.memory_read = calibration_.memory_read;
}

Result<std::shared_ptr<const CalibratedRows>> CalibrationFromEnvironment(const CpuInfo& cpu) {
  const char* path = std::getenv("QUERN_CALIBRATION");
  const bool native = cpu.name == "native" || cpu.name.rfind("native,", 0) == 0;
  if (!path || !*path || !native) return std::shared_ptr<const CalibratedRows>();
  const std::string context = std::string("QUERN_CALIBRATION: ") + path;
  std::ifstream in(path, std::ios::binary);
  if (!in) return IoError(context + " cannot be read");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const RowTable base = ukernel::AllGemmKernels();
  Result<Calibration> c = ParseCalibration(text, HostCpu(), base);
  if (!c.ok()) return c.status().WithContext(context);
  return std::make_shared<const CalibratedRows>(*std::move(c), base);
}

}  // namespace quern::kernels
