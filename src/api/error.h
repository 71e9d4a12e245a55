// How the C ABI reports failure: a status code, and a message per thread. No exception leaves a function of the ABI.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "base/status.h"
#include "quern/quern.h"

namespace quern::api {

// Keeps the message for quern_error_message and gives the code.
quern_status Fail(const Status& status) noexcept;
quern_status FailOutOfMemory() noexcept;

// Runs a body that returns a Status.
template <typename Body>
quern_status Guard(Body&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? QUERN_OK : Fail(status);
  } catch (const std::bad_alloc&) {
    return FailOutOfMemory();
  } catch (const std::length_error&) {
    return FailOutOfMemory();
  } catch (const std::exception& e) {
    try {
      return Fail(Internal(std::string("unexpected exception: ") + e.what()));
    } catch (...) {
      return FailOutOfMemory();
    }
  } catch (...) {
    return FailOutOfMemory();
  }
}

// A zero-terminated copy that quern_buffer_free frees; throws bad_alloc.
char* CopyText(const std::string& text);

// kInvalidArgument that names the parameter when a pointer is null.
Status RequirePointer(const void* pointer, const char* parameter);

}  // namespace quern::api
