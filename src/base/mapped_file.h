// MappedFile: a file's bytes, read-only, without copying them; safe against files that shrink while mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace quern {

// Policy for a file that changes while mapped. Reading beyond a file's new end raises SIGBUS, which would end the
// process. While any MappedFile lives, a SIGBUS handler is installed that acts on faults inside their ranges only: it
// puts zero pages from the faulting page to the end of that range, marks the file as damaged, and the read goes on with
// zeros. Any other SIGBUS goes to the handler that was installed before, or ends the process as usual. So bytes read
// are worth something only if CheckIntact() says so afterwards: readers call it after parsing, a session after each run
// that read from the file, and both return its error instead of results. It also notices what raises no signal: a new
// size or modification time (zeros behind the end in the last page, contents written over). A program that installs its
// own SIGBUS handler later, and does not call the one it replaced, takes the guard away.
class MappedFile {
 public:
  enum class Links { kFollow, kRefuse };
  enum class Watch {
    kFile,   // CheckIntact notices every change; costs a descriptor
    kPages,  // CheckIntact notices missing pages only: for files that nobody writes to in place
  };
  // kNotFound, kIo (with the system's reason), kInvalidArgument (not a regular file) or kResourceExhausted (larger than
  // max_bytes); messages name the path. An empty file has no bytes and maps nothing. kRefuse: a path with a symbolic
  // link in any of its parts is kInvalidArgument, however quickly it came there.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path, int64_t max_bytes = INT64_MAX,
                                                        Links links = Links::kFollow, Watch watch = Watch::kFile);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Gives the memory of the pages back that were read so far; what is read again comes from the system's cache or from
  // the file. For files whose content has been copied into another form.
  void DropPages() const;

  // True once a read met a page that the file no longer has. Cheap: one load.
  bool damaged() const;
  // Ok if all bytes read since Open were the file's; else kCorrupt. One system call.
  Status CheckIntact() const;

  struct Guard;  // entry of the handler's list

 private:
  MappedFile() = default;

  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;  // none when only pages are watched
  timespec modified_ = {};
  Guard* guard_ = nullptr;
};

}  // namespace quern
