#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace quern {
namespace {

Status CannotWrite(const std::string& path, int error) {
  const std::string message = "cannot write '" + path + "': " + std::generic_category().message(error);
  return error == ENOENT || error == ENOTDIR ? NotFound(message) : IoError(message);
}

}  // namespace

Result<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path, Sync sync) {
  struct stat old;
  if (::lstat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode)) {
    return InvalidArgument("cannot write '" + path + "': there is something that is no regular file");
  }
  std::unique_ptr<OutputFile> file(new OutputFile());
  file->path_ = path;
  file->sync_ = sync;
  static std::atomic<uint64_t> count{0};
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts && file->fd_ < 0; ++i) {
    file->temporary_ = path + ".tmp" + std::to_string(::getpid()) + "_" + std::to_string(++count);
    file->fd_ = ::open(file->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd_ < 0 && errno != EEXIST) break;
  }
  if (file->fd_ < 0) {
    const int error = errno;
    file->temporary_.clear();  // it is not ours
    return CannotWrite(path, error);
  }
  return file;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::Write(std::string_view bytes) {
  QUERN_CHECK(fd_ >= 0, "the file is closed");
  constexpr size_t kAtOnce = size_t{1} << 30;  // Linux takes less than 2 GB per call
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kAtOnce));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotWrite(path_, errno);
    size_ += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

Status OutputFile::WriteZeros(uint64_t count) {
  static constexpr char kZeros[4096] = {};
  while (count > 0) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(count, sizeof kZeros));
    QUERN_RETURN_IF_ERROR(Write({kZeros, n}));
    count -= n;
  }
  return OkStatus();
}

Status OutputFile::Close() {
  if (fd_ < 0) return OkStatus();
  // A disk that is full may say so only here.
  const bool synced = sync_ == Sync::kNone || ::fsync(fd_) == 0 || errno == EINVAL;  // EINVAL: a file system without it
  Status status = synced ? OkStatus() : CannotWrite(path_, errno);
  if (::close(fd_) != 0 && errno != EINTR && status.ok()) status = CannotWrite(path_, errno);
  fd_ = -1;
  return status;
}

Status OutputFile::Publish() {
  QUERN_RETURN_IF_ERROR(Close());
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return CannotWrite(path_, errno);
  temporary_.clear();
  return OkStatus();
}

}  // namespace quern
