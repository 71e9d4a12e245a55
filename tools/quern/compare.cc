#include "compare.h"

#include <cmath>

#include "command.h"
#include "number.h"

namespace quern_tool {
namespace {

Difference Different(std::string what) { return {false, std::move(what), 0, 0}; }

// "[0,3]" of a row-major position.
std::string IndexText(const quern::Shape& shape, std::size_t at) {
  std::string text;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[d]);
    text = std::to_string(at % extent) + (text.empty() ? "" : "," + text);
    at /= extent;
  }
  return "[" + text + "]";
}

// Complex types as twice as many real ones.
struct Numbers {
  std::int32_t dtype;
  const void* data;
  std::size_t count;
  std::size_t parts;
};
Numbers NumbersOf(const quern::Value& v) {
  const auto count = static_cast<std::size_t>(v.num_elements());
  if (v.dtype() == QUERN_C64) return {QUERN_F32, v.raw_data(), 2 * count, 2};
  if (v.dtype() == QUERN_C128) return {QUERN_F64, v.raw_data(), 2 * count, 2};
  return {v.dtype(), v.raw_data(), count, 1};
}

Difference CompareNumbers(const quern::Value& actual, const quern::Value& expected, const Tolerance& tolerance,
                          const std::string& name) {
  const Numbers a = NumbersOf(actual), e = NumbersOf(expected);
  Difference result;
  long double largest = 0;
  for (std::size_t i = 0; i < e.count; ++i) {
    const long double x = std::fabs(LoadNumber(e.dtype, e.data, i));
    if (std::isfinite(x) && x > largest) largest = x;
  }
  const bool exact = e.dtype == QUERN_BOOL;
  double worst_excess = 0;
  for (std::size_t i = 0; i < e.count; ++i) {
    const long double x = LoadNumber(a.dtype, a.data, i), y = LoadNumber(e.dtype, e.data, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const long double d = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY;
    result.max_abs = std::max(result.max_abs, static_cast<double>(d));
    result.max_rel = std::max(result.max_rel, static_cast<double>(largest > 0 ? d / largest : d));
    const long double allowed = tolerance.atol + tolerance.rtol * std::fabs(y) + tolerance.max_rel * largest;
    if (std::isfinite(d) && d <= allowed && !exact) continue;
    const auto excess = std::isfinite(d) ? static_cast<double>(d - allowed) : INFINITY;
    if (result.equal || excess > worst_excess) {
      worst_excess = excess;
      result.equal = false;
      result.what = name + IndexText(expected.shape(), i / e.parts) + " is " + FormatNumber(static_cast<double>(x)) +
                    ", expected " + FormatNumber(static_cast<double>(y));
    }
  }
  return result;
}

Difference CompareStrings(const quern::Value& actual, const quern::Value& expected, const std::string& name) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected.num_elements()); ++i) {
    const std::string x = actual.string(i), y = expected.string(i);
    if (x != y) {
      return Different(name + IndexText(expected.shape(), i) + " is '" + x.substr(0, 40) + "', expected '" +
                       y.substr(0, 40) + "'");
    }
  }
  return {};
}

}  // namespace

void Difference::Merge(const Difference& other) {
  if (equal && !other.equal) what = other.what;
  equal = equal && other.equal;
  max_abs = std::max(max_abs, other.max_abs);
  max_rel = std::max(max_rel, other.max_rel);
}

Difference Compare(const quern::Value& actual, const quern::Value& expected, const Tolerance& tolerance,
                   const std::string& name) {
  if (actual.kind() != expected.kind()) {
    // An optional that holds a value is the same as the value: files store either.
    if (actual.kind() == QUERN_KIND_OPTIONAL && actual.size() == 1) {
      return Compare(actual.element(0), expected, tolerance, name);
    }
    if (expected.kind() == QUERN_KIND_OPTIONAL && expected.size() == 1) {
      return Compare(actual, expected.element(0), tolerance, name);
    }
    return Different(name + " is a " + KindText(actual.kind()) + ", expected a " + KindText(expected.kind()));
  }
  if (expected.kind() == QUERN_KIND_NONE) return {};
  if (expected.kind() == QUERN_KIND_TENSOR || expected.kind() == QUERN_KIND_STRINGS) {
    if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) {
      return Different(name + " is a " + TypeText(actual) + ", expected a " + TypeText(expected));
    }
    return expected.kind() == QUERN_KIND_STRINGS ? CompareStrings(actual, expected, name)
                                                 : CompareNumbers(actual, expected, tolerance, name);
  }
  if (actual.size() != expected.size()) {
    return Different(name + " has " + std::to_string(actual.size()) + " elements, expected " +
                     std::to_string(expected.size()));
  }
  Difference result;
  if (expected.kind() == QUERN_KIND_MAP) {
    result.Merge(Compare(actual.keys(), expected.keys(), {0, 0, 0}, name + ".keys"));
    if (!result.equal) return result;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    result.Merge(Compare(actual.element(i), expected.element(i), tolerance, name + "[" + std::to_string(i) + "]"));
  }
  return result;
}

}  // namespace quern_tool
