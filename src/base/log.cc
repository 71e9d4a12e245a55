#include "base/log.h"

#include <cstdio>
#include <string>

namespace quern {

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kVerbose:
      return "verbose";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "unknown";
}

void StderrLogSink(void*, LogLevel level, std::string_view message) {
  std::string line = std::string("quern: ") + LogLevelName(level) + ": ";
  line += message;
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Logger::SetSink(LogSink sink, void* context) {
  const std::lock_guard lock(mutex_);
  sink_ = sink ? sink : &StderrLogSink;
  context_ = sink ? context : nullptr;
}

void Logger::Log(LogLevel level, std::string_view message) const {
  if (!Enabled(level)) return;
  const std::lock_guard lock(mutex_);
  sink_(context_, level, message);
}

}  // namespace quern
