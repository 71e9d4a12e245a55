#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace quern {

void CheckFailed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "quern: %s:%d: check failed: %s: %s\n", file, line, condition, message);
  std::abort();
}

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kCorrupt:
      return "corrupt";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kIo:
      return "i/o error";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

struct Status::Error {
  StatusCode code;
  std::string message;
};

Status::Status(StatusCode code, std::string message)
    : error_(code == StatusCode::kOk ? nullptr : new Error{code, std::move(message)}) {}
Status::Error* Status::Copy(const Error& error) { return new Error(error); }
void Status::Free(Error* error) { delete error; }
StatusCode Status::code() const { return error_ ? error_->code : StatusCode::kOk; }
const std::string& Status::message() const {
  static const std::string none;
  return error_ ? error_->message : none;
}

Status Status::WithContext(std::string_view prefix) const {
  if (ok()) return *this;
  return Status(error_->code, std::string(prefix) + ": " + error_->message);
}

Status InvalidArgument(std::string m) { return Status(StatusCode::kInvalidArgument, std::move(m)); }
Status Unsupported(std::string m) { return Status(StatusCode::kUnsupported, std::move(m)); }
Status NotFound(std::string m) { return Status(StatusCode::kNotFound, std::move(m)); }
Status Corrupt(std::string m) { return Status(StatusCode::kCorrupt, std::move(m)); }
Status ResourceExhausted(std::string m) { return Status(StatusCode::kResourceExhausted, std::move(m)); }
Status Cancelled(std::string m) { return Status(StatusCode::kCancelled, std::move(m)); }
Status IoError(std::string m) { return Status(StatusCode::kIo, std::move(m)); }
Status Internal(std::string m) { return Status(StatusCode::kInternal, std::move(m)); }

}  // namespace quern
