// QUERN_CHECK: always-on checks for misuse of an API by code (never for bad user data, which gets a Status).
#pragma once

namespace quern {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* message);
}

#define QUERN_CHECK(condition, message) \
  (static_cast<bool>(condition) ? void(0) : ::quern::CheckFailed(__FILE_NAME__, __LINE__, #condition, message))
