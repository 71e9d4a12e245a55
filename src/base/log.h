// Log messages: levels and a sink that the embedding program may replace.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>

namespace quern {

// The numbers are those of onnxruntime's log_severity_level and part of the C ABI.
enum class LogLevel : int { kVerbose = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

// "verbose", "info", "warning", "error", "off".
const char* LogLevelName(LogLevel level);

// message is valid during the call only and has no newline at its end. Must not throw.
using LogSink = void (*)(void* context, LogLevel level, std::string_view message);

// Writes "quern: <level>: <message>" and a newline to stderr, in one write.
void StderrLogSink(void* context, LogLevel level, std::string_view message);

// Sends messages at or above a level to a sink. All functions may be called from any thread; calls of the sink never
// overlap, and a sink may itself log. Its owner (session, command) passes it to what it calls.
class Logger {
 public:
  explicit Logger(LogLevel level = LogLevel::kWarning) : level_(level) {}
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // nullptr restores StderrLogSink. When this returns, the former sink is no longer in use (unless a sink calls this).
  void SetSink(LogSink sink, void* context);
  void SetLevel(LogLevel level) { level_.store(level, std::memory_order_relaxed); }
  LogLevel level() const { return level_.load(std::memory_order_relaxed); }

  // Ask before building a costly message.
  bool Enabled(LogLevel level) const { return level >= this->level() && level < LogLevel::kOff; }
  void Log(LogLevel level, std::string_view message) const;

 private:
  std::atomic<LogLevel> level_;
  mutable std::recursive_mutex mutex_;  // recursive: a sink may log
  LogSink sink_ = &StderrLogSink;
  void* context_ = nullptr;
};

}  // namespace quern
