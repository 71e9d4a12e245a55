// OutputFile: a file that is there whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quern {

// Bytes go to a new file with a temporary name in the folder of `path`; Publish() gives it its name and replaces what
// had it. A file that was not published is removed. Whoever has the old file open or mapped keeps its content. A link
// at `path` is replaced, not followed.
class OutputFile {
 public:
  enum class Sync {
    kDisk,  // what is published is on the disk, whatever happens to the machine
    kNone,  // for what can be made again, and whose reader notices when it is not whole
  };
  // kNotFound (no such folder), kIo (with the system's reason) or kInvalidArgument (`path` is there and no regular
  // file); messages name the path.
  static Result<std::unique_ptr<OutputFile>> Create(const std::string& path, Sync sync = Sync::kDisk);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // written so far
  Status Write(std::string_view bytes);
  Status WriteZeros(uint64_t count);
  // Everything is on the disk (or with the system: kNone); nothing more can be written.
  Status Close();
  // Closes if need be and gives the file its name.
  Status Publish();

 private:
  OutputFile() = default;

  std::string path_, temporary_;
  Sync sync_ = Sync::kDisk;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace quern
