#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <utility>

namespace quern {

// A range that the handler watches. Entries are reused but never freed or unlinked, so that the handler may walk the
// list at any moment; an entry with begin == 0 is free.
struct MappedFile::Guard {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> damaged{false};
  Guard* next = nullptr;
};

namespace {

using Guard = MappedFile::Guard;

std::atomic<Guard*> g_guards{nullptr};
std::mutex g_mutex;  // registration and (de)installation; never taken by the handler
int g_live = 0;
struct sigaction g_previous = {};
uintptr_t g_page_bytes = 4096;

bool Repair(uintptr_t address) {
  for (Guard* g = g_guards.load(std::memory_order_acquire); g; g = g->next) {
    const uintptr_t begin = g->begin.load(std::memory_order_acquire);
    const uintptr_t end = g->end.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= end) continue;
    g->damaged.store(true, std::memory_order_release);
    const uintptr_t page = address / g_page_bytes * g_page_bytes;
    // The bare system call: the library's mmap may be intercepted by a sanitizer, which is not safe in a handler.
    const long mapped = syscall(SYS_mmap, page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
    return mapped == static_cast<long>(page);
  }
  return false;
}

void OnSigbus(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // Only faults (positive codes) carry an address; kill() and raise() do not.
  const bool repaired = info->si_code > 0 && Repair(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved_errno;
  if (repaired) return;
  if (g_previous.sa_flags & SA_SIGINFO) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    // Let it happen again without us: a fault repeats when the instruction does, a sent signal has to be sent again.
    struct sigaction plain = {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, nullptr);
    if (info->si_code <= 0) raise(signal);
  }
}

Guard* Register(const void* data, size_t size) {
  const std::lock_guard lock(g_mutex);
  if (g_live++ == 0) {
    g_page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = &OnSigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    struct sigaction current = {};
    sigaction(SIGBUS, nullptr, &current);
    if (!(current.sa_flags & SA_SIGINFO) || current.sa_sigaction != &OnSigbus) {
      g_previous = current;
      sigaction(SIGBUS, &action, nullptr);
    }
  }
  Guard* g = g_guards.load(std::memory_order_relaxed);
  while (g && g->begin.load(std::memory_order_relaxed) != 0) g = g->next;
  if (!g) {
    g = new Guard;
    g->next = g_guards.load(std::memory_order_relaxed);
    g_guards.store(g, std::memory_order_release);
  }
  g->damaged.store(false, std::memory_order_relaxed);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  g->end.store((begin + size + g_page_bytes - 1) / g_page_bytes * g_page_bytes, std::memory_order_release);
  g->begin.store(begin, std::memory_order_release);
  return g;
}

void Unregister(Guard* g) {
  const std::lock_guard lock(g_mutex);
  g->begin.store(0, std::memory_order_release);
  if (--g_live > 0) return;
  // Leave the process as it was, unless somebody has chained a handler behind ours.
  struct sigaction current = {};
  sigaction(SIGBUS, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == &OnSigbus) sigaction(SIGBUS, &g_previous, nullptr);
}

// Opens each part of the path from the folder that was opened before it, so that no link can be put in between.
// -1 with errno ELOOP or ENOTDIR for a link (which of them: whether it is the last part).
int OpenWithoutLinks(const std::string& path, int flags) {
  int folder = AT_FDCWD;
  for (size_t at = path.find_first_not_of('/'); at != std::string::npos;) {
    const size_t end = std::min(path.find('/', at), path.size());
    const size_t next_at = path.find_first_not_of('/', end);
    const std::string part = (folder == AT_FDCWD && path[0] == '/' ? "/" : "") + path.substr(at, end - at);
    const bool is_last = next_at == std::string::npos;
    const int next = openat(folder, part.c_str(), O_NOFOLLOW | (is_last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC));
    const int error = errno;
    if (folder != AT_FDCWD) close(folder);
    errno = error;
    if (next < 0 || is_last) return next;
    folder = next;
    at = next_at;
  }
  errno = EISDIR;
  return -1;
}

std::string SystemReason(int error) { return std::strerror(error); }

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path, int64_t max_bytes, Links links,
                                                           Watch watch) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  // Not blocking: opening a pipe must give an error, not wait for its writer.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  file->fd_ = links == Links::kFollow ? open(path.c_str(), kFlags) : OpenWithoutLinks(path, kFlags);
  if (file->fd_ < 0) {
    const int error = errno;
    if (links == Links::kRefuse && (error == ELOOP || error == ENOTDIR)) {
      return InvalidArgument("'" + path + "' leads through a symbolic link or a file: refused");
    }
    const std::string message = "cannot open '" + path + "': " + SystemReason(error);
    return error == ENOENT || error == ENOTDIR ? NotFound(message) : IoError(message);
  }
  struct stat info = {};
  if (fstat(file->fd_, &info) != 0) return IoError("cannot read '" + path + "': " + SystemReason(errno));
  if (S_ISDIR(info.st_mode)) return InvalidArgument("'" + path + "' is a folder, a file is needed");
  if (!S_ISREG(info.st_mode)) return InvalidArgument("'" + path + "' is not a regular file");
  if (info.st_size > max_bytes) {
    return ResourceExhausted("'" + path + "' has " + std::to_string(info.st_size) + " bytes, the limit is " +
                             std::to_string(max_bytes));
  }
  file->size_ = static_cast<size_t>(info.st_size);
  file->modified_ = info.st_mtim;
  if (file->size_ == 0) return std::shared_ptr<const MappedFile>(std::move(file));
  void* data = mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, file->fd_, 0);
  if (data == MAP_FAILED) return IoError("cannot map '" + path + "': " + SystemReason(errno));
  file->data_ = static_cast<const uint8_t*>(data);
  file->guard_ = Register(data, file->size_);
  if (watch == Watch::kPages) close(std::exchange(file->fd_, -1));
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (guard_) Unregister(guard_);
  if (data_) munmap(const_cast<uint8_t*>(data_), size_);
  if (fd_ >= 0) close(fd_);
}

void MappedFile::DropPages() const {
  // A page that the handler put into a damaged file's place holds zeros again.
  if (data_) madvise(const_cast<uint8_t*>(data_), size_, MADV_DONTNEED);
}

bool MappedFile::damaged() const { return guard_ && guard_->damaged.load(std::memory_order_acquire); }

Status MappedFile::CheckIntact() const {
  struct stat info = {};
  if (fd_ < 0 && !damaged()) return OkStatus();
  const bool known = fstat(fd_, &info) == 0;
  if (damaged() || (known && static_cast<size_t>(info.st_size) < size_)) {
    return Corrupt("'" + path_ + "' was cut short while it was mapped: results would be wrong; load it again");
  }
  if (!known) return IoError("cannot check '" + path_ + "': " + SystemReason(errno));
  if (static_cast<size_t>(info.st_size) != size_ || info.st_mtim.tv_sec != modified_.tv_sec ||
      info.st_mtim.tv_nsec != modified_.tv_nsec) {
    return Corrupt("'" + path_ + "' was changed while it was mapped: results would be wrong; load it again");
  }
  return OkStatus();
}

}  // namespace quern
