#include "format/onnx/external_data.h"

#include <charconv>
#include <filesystem>
#include <system_error>

#include "format/onnx/field_reader.h"

namespace quern::onnx {
namespace {

Result<uint64_t> ParseSize(std::string_view what, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Corrupt("external data " + std::string(what) + " " + Quoted(text) + " is not a number of bytes");
  }
  return value;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> ExternalData::Open(std::string_view location) {
  namespace fs = std::filesystem;
  if (folder_.empty()) {
    return InvalidArgument("the tensor is in the external file " + Quoted(location) +
                           " but the model was given without a folder: set the external data folder");
  }
  if (location.empty() || location.find('\0') != std::string_view::npos) {
    return Corrupt("external data without a valid location");
  }
  std::error_code error;
  if (canonical_folder_.empty()) {
    canonical_folder_ = fs::canonical(folder_, error).string();
    if (error) return NotFound("external data folder " + Quoted(folder_) + ": " + error.message());
  }
  const fs::path relative{std::string(location)};
  const Status outside = InvalidArgument("external data " + Quoted(location) + " is not inside the model's folder " +
                                         Quoted(canonical_folder_) + ": refused");
  if (relative.is_absolute()) return outside;
  for (const fs::path& part : relative) {
    if (part == "..") return outside;  // before touching the file system: the answer must not depend on what is there
  }
  const std::string path = fs::canonical(fs::path(canonical_folder_) / relative, error).string();
  if (error) return NotFound("external data " + Quoted(location) + ": " + error.message());
  const std::string prefix = canonical_folder_.back() == '/' ? canonical_folder_ : canonical_folder_ + "/";
  if (path.compare(0, prefix.size(), prefix) != 0) return outside;
  std::shared_ptr<const MappedFile>& file = files_[path];
  if (!file) {
    // The canonical path has no links; one that somebody put there since must not lead out.
    Result<std::shared_ptr<const MappedFile>> opened = MappedFile::Open(path, max_bytes_, MappedFile::Links::kRefuse);
    if (!opened.ok()) {
      files_.erase(path);
      return opened.status();
    }
    file = std::move(opened).value();
  }
  return file;
}

Result<ExternalData::Slice> ExternalData::Read(const ExternalEntry& entry, size_t bytes) {
  uint64_t offset = 0;
  if (!entry.offset.empty()) {
    QUERN_ASSIGN_OR_RETURN(offset, ParseSize("offset", entry.offset));
  }
  if (!entry.length.empty()) {
    QUERN_ASSIGN_OR_RETURN(const uint64_t length, ParseSize("length", entry.length));
    if (length != bytes) {
      return Corrupt("external data has " + std::to_string(length) + " bytes, the tensor needs " +
                     std::to_string(bytes));
    }
  }
  QUERN_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, Open(entry.location));
  if (offset > file->size() || bytes > file->size() - offset) {
    return Corrupt("external data " + Quoted(entry.location) + ": bytes " + std::to_string(offset) + " to " +
                   std::to_string(offset) + "+" + std::to_string(bytes) + " are beyond the file's " +
                   std::to_string(file->size()));
  }
  if (bytes == 0) return Slice{{}, file};
  return Slice{{reinterpret_cast<const char*>(file->data()) + offset, bytes}, file};
}

}  // namespace quern::onnx
