// Version, element types and log of the C ABI.
#include "api/error.h"
#include "base/dtype.h"
#include "provider/host.h"

namespace {

struct LogTarget {
  void (*callback)(void* user, quern_log_level level, const char* message);
  void* user;
};
// Written while the logger has no sink that reads it.
LogTarget g_target;

void ForwardLog(void* context, quern::LogLevel level, std::string_view message) {
  const auto* target = static_cast<const LogTarget*>(context);
  try {
    target->callback(target->user, static_cast<quern_log_level>(level), std::string(message).c_str());
  } catch (...) {  // no memory for a message: nothing could be said about it either
  }
}

}  // namespace

extern "C" {

const char* quern_version(void) { return QUERN_VERSION; }
int32_t quern_abi_version(void) { return QUERN_ABI_VERSION; }

const char* quern_dtype_name(int32_t dtype) {
  return quern::DTypeName(dtype < 0 || dtype > 255 ? quern::DType::kUndefined : static_cast<quern::DType>(dtype));
}
size_t quern_dtype_block_elements(int32_t dtype) {
  if (dtype < 0 || dtype > 255) return 1;
  return quern::GetDTypeInfo(static_cast<quern::DType>(dtype)).block_elements;
}
size_t quern_dtype_block_bytes(int32_t dtype) {
  if (dtype < 0 || dtype > 255) return 0;
  return quern::GetDTypeInfo(static_cast<quern::DType>(dtype)).block_bytes;
}

void quern_set_log(quern_log_level lowest, void (*callback)(void* user, quern_log_level level, const char* message),
                   void* user) {
  quern::Logger& logger = quern::ProcessLogger();
  logger.SetSink(nullptr, nullptr);
  g_target = {callback, user};
  if (callback) logger.SetSink(ForwardLog, &g_target);
  logger.SetLevel(static_cast<quern::LogLevel>(lowest));
}

}  // extern "C"
