// Status and Result<T>: how everything that reads bytes, files or user graphs reports failure. No exceptions cross
// folders.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace quern {

// The numbers are part of the C ABI (quern_status_code).
enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 1,    // the caller or the model is wrong
  kUnsupported = 2,        // valid, but this build or version cannot do it
  kNotFound = 3,           // a file, name or entry does not exist
  kCorrupt = 4,            // bytes that do not follow their format
  kResourceExhausted = 5,  // a limit (memory, recursion, count) was reached
  kCancelled = 6,          // the caller cancelled the run
  kIo = 7,                 // the operating system refused
  kInternal = 8,           // a fault of Quern
};

// Name of a code as printed in messages: "invalid argument", "unsupported"...
const char* StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok: a null pointer, so that the way without errors is short
  Status(StatusCode code, std::string message);
  Status(const Status& other) : error_(other.error_ ? Copy(*other.error_) : nullptr) {}
  Status(Status&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Status& operator=(Status other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~Status() {
    if (error_) Free(error_);
  }

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const;
  const std::string& message() const;  // "" when ok

  // The same error with "<prefix>: " before its message: callers add node, file or tensor names on the way up.
  Status WithContext(std::string_view prefix) const;

 private:
  struct Error;
  static Error* Copy(const Error& error);
  static void Free(Error* error);
  Error* error_ = nullptr;  // owned
};

inline Status OkStatus() { return Status(); }
Status InvalidArgument(std::string message);
Status Unsupported(std::string message);
Status NotFound(std::string message);
Status Corrupt(std::string message);
Status ResourceExhausted(std::string message);
Status Cancelled(std::string message);
Status IoError(std::string message);
Status Internal(std::string message);

// A value or the reason why there is none. value() on an error is a programming fault (QUERN_CHECK).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    QUERN_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    QUERN_CHECK(ok(), status_.message().c_str());
    return *value_;
  }
  const T& value() const& {
    QUERN_CHECK(ok(), status_.message().c_str());
    return *value_;
  }
  T&& value() && {
    QUERN_CHECK(ok(), status_.message().c_str());
    return *std::move(value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace quern

#define QUERN_CONCAT_(a, b) a##b
#define QUERN_CONCAT(a, b) QUERN_CONCAT_(a, b)

#define QUERN_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                     \
    if (::quern::Status quern_status_ = (expr); !quern_status_.ok()) return quern_status_; \
  } while (0)

// QUERN_ASSIGN_OR_RETURN(auto x, MakeX());
#define QUERN_ASSIGN_OR_RETURN(lhs, expr) QUERN_ASSIGN_OR_RETURN_(QUERN_CONCAT(quern_result_, __LINE__), lhs, expr)
#define QUERN_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return tmp.status();           \
  lhs = std::move(tmp).value()
