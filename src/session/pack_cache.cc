#include "session/pack_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <system_error>

#include "base/log.h"
#include "base/output_file.h"
#include "provider/host.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".qpack";
constexpr char kMagic[8] = {'Q', 'P', 'A', 'C', 'K', '0', '0', '1'};
constexpr size_t kPayloadOffset = 4096;  // of a page, so that the payload is aligned
constexpr time_t kHour = 3600;

struct Header {
  char magic[8];
  uint64_t bytes;
  ContentKey key, sum;  // sum: of the payload
};
static_assert(sizeof(Header) <= kPayloadOffset);

std::string Reason(int error) { return std::generic_category().message(error); }

void Warn(const std::string& text) { ProcessLogger().Log(LogLevel::kWarning, "pack cache: " + text); }

// Why the file is not what was stored under the key; empty when it is.
std::string Damage(const MappedFile& file, const ContentKey& key, size_t bytes, uint64_t seed) {
  if (file.size() != kPayloadOffset + bytes) {
    return "it has " + std::to_string(file.size()) + " bytes instead of " + std::to_string(kPayloadOffset + bytes);
  }
  Header header;
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return "it does not begin as such a file";
  if (header.bytes != bytes || !(header.key == key)) return "it belongs to another weight";
  const ContentKey sum = HashBytes(file.data() + kPayloadOffset, bytes, seed);
  return file.damaged() || !(sum == header.sum) ? "its checksum is wrong" : "";
}

}  // namespace

Result<std::shared_ptr<PackCache>> PackCache::Open(const std::string& folder, uint64_t limit_bytes) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return IoError("pack cache: cannot make the folder '" + folder + "': " + Reason(errno));
  }
  std::error_code error;
  if (!fs::is_directory(folder, error)) return InvalidArgument("pack cache: '" + folder + "' is not a folder");
  std::shared_ptr<PackCache> cache(new PackCache());
  cache->folder_ = folder;
  cache->limit_bytes_ = limit_bytes;
  QUERN_RETURN_IF_ERROR(cache->ReadSeed());
  cache->Trim();
  return cache;
}

// The number lies in a file of the folder. The first process that comes makes it; of several, one is the first.
Status PackCache::ReadSeed() {
  const std::string path = folder_ + "/seed";
  std::error_code error;
  if (!fs::exists(path, error)) {
    std::random_device random;
    const std::string made = path + ".tmp" + std::to_string(getpid()) + "_" + std::to_string(random());
    const uint64_t number = uint64_t{random()} << 32 | random();
    QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(made));
    QUERN_RETURN_IF_ERROR(file->Write({reinterpret_cast<const char*>(&number), sizeof number}));
    QUERN_RETURN_IF_ERROR(file->Publish());
    const bool linked = link(made.c_str(), path.c_str()) == 0 || errno == EEXIST;
    const int why = errno;
    unlink(made.c_str());
    if (!linked) return IoError("pack cache: cannot make '" + path + "': " + Reason(why));
  }
  QUERN_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  if (file->size() != sizeof seed_) return Corrupt("pack cache: '" + path + "' is damaged: remove the folder");
  std::memcpy(&seed_, file->data(), sizeof seed_);
  return file->CheckIntact();
}

std::string PackCache::PathOf(const ContentKey& key) const { return folder_ + "/" + key.Hex() + kSuffix; }

std::shared_ptr<const std::byte> PackCache::Find(const ContentKey& key, size_t bytes) {
  const std::string path = PathOf(key);
  Result<std::shared_ptr<const MappedFile>> opened =
      MappedFile::Open(path, INT64_MAX, MappedFile::Links::kFollow, MappedFile::Watch::kPages);
  if (!opened.ok()) return nullptr;
  const std::shared_ptr<const MappedFile> file = *std::move(opened);
  if (const std::string damage = Damage(*file, key, bytes, seed_); !damage.empty()) {
    Warn("'" + path + "' is left aside, " + damage);
    unlink(path.c_str());
    std::lock_guard lock(mutex_);
    ++counts_.damaged;
    return nullptr;
  }
  // The time of the last use, so that Trim leaves it; every use would be a write.
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && std::time(nullptr) - info.st_mtime > kHour) {
    utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  }
  std::lock_guard lock(mutex_);
  ++counts_.found;
  counts_.found_bytes += bytes;
  mapped_.push_back(file);
  return {file, reinterpret_cast<const std::byte*>(file->data() + kPayloadOffset)};
}

void PackCache::Put(const ContentKey& key, std::span<const std::byte> bytes) {
  {
    std::lock_guard lock(mutex_);
    if (!writable_ || kPayloadOffset + bytes.size() > limit_bytes_) return;
  }
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.bytes = bytes.size();
  header.key = key;
  header.sum = HashBytes(bytes.data(), bytes.size(), seed_);
  const auto write = [&]() -> Status {
    QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                           OutputFile::Create(PathOf(key), OutputFile::Sync::kNone));
    QUERN_RETURN_IF_ERROR(file->Write({reinterpret_cast<const char*>(&header), sizeof header}));
    QUERN_RETURN_IF_ERROR(file->WriteZeros(kPayloadOffset - sizeof header));
    QUERN_RETURN_IF_ERROR(file->Write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    return file->Publish();
  };
  const Status written = write();
  std::unique_lock lock(mutex_);
  if (!written.ok()) {
    if (std::exchange(writable_, false)) Warn("nothing more is stored: " + written.message());
    return;
  }
  ++counts_.stored;
  counts_.stored_bytes += bytes.size();
  total_bytes_ += kPayloadOffset + bytes.size();
  const bool full = total_bytes_ > limit_bytes_;
  lock.unlock();
  if (full) Trim();
}

void PackCache::Trim() {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator i(folder_, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;  // another process may remove it meanwhile
    const auto used = i->last_write_time(gone);
    const uint64_t bytes = gone ? 0 : i->file_size(gone);
    if (gone) continue;
    if (i->path().extension() == kSuffix) {
      entries.push_back({i->path(), used, bytes});
      total += bytes;
    } else if (i->path().filename().string().find(".tmp") != std::string::npos &&
               now - used > std::chrono::seconds(kHour)) {
      fs::remove(i->path(), gone);
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  int64_t removed = 0;
  for (const Entry& e : entries) {
    if (total <= limit_bytes_) break;
    if (fs::remove(e.path, error)) ++removed;
    total -= e.bytes;
  }
  std::lock_guard lock(mutex_);
  counts_.removed += removed;
  total_bytes_ = total;
}

PackCache::Counts PackCache::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

Status PackCache::CheckIntact() const {
  std::lock_guard lock(mutex_);
  for (const auto& file : mapped_) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  return OkStatus();
}

}  // namespace quern
