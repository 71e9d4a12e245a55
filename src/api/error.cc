#include "api/error.h"

#include <cstdlib>
#include <cstring>

namespace quern::api {
namespace {

// The text is in `message`, or, when there was no memory for it, the constant below.
struct LastError {
  std::string message;
  bool out_of_memory = false;
};
thread_local LastError t_last;

}  // namespace

quern_status Fail(const Status& status) noexcept {
  try {
    t_last.message = status.message();
    t_last.out_of_memory = false;
  } catch (...) {
    t_last.out_of_memory = true;
  }
  return static_cast<quern_status>(status.code());
}

quern_status FailOutOfMemory() noexcept {
  t_last.out_of_memory = true;
  return QUERN_RESOURCE_EXHAUSTED;
}

char* CopyText(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

Status RequirePointer(const void* pointer, const char* parameter) {
  return pointer ? OkStatus() : InvalidArgument(std::string(parameter) + " must not be NULL");
}

}  // namespace quern::api

extern "C" {

const char* quern_error_message(void) {
  return quern::api::t_last.out_of_memory ? "out of memory" : quern::api::t_last.message.c_str();
}

const char* quern_status_name(int32_t status) {
  if (status < QUERN_OK || status > QUERN_INTERNAL) return "unknown status";
  return quern::StatusCodeName(static_cast<quern::StatusCode>(status));
}

void quern_buffer_free(void* bytes) { std::free(bytes); }

}  // extern "C"
