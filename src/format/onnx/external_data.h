// ExternalData: the files beside a model that hold its large tensors; nothing outside the model's folder is opened.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"

namespace quern::onnx {

// What TensorProto.external_data says; offset and length are decimal text in the file.
struct ExternalEntry {
  std::string_view location;
  std::string_view offset;
  std::string_view length;
};

class ExternalData {
 public:
  // `folder` empty: external data is refused. Files larger than max_bytes are refused.
  ExternalData(std::string folder, int64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  struct Slice {
    std::string_view bytes;
    std::shared_ptr<const void> owner;
  };
  // The `bytes` bytes of an entry, mapped (each file once). The location must be a relative path whose canonical form
  // lies inside the canonical folder, so neither ".." nor a link leads out.
  Result<Slice> Read(const ExternalEntry& entry, size_t bytes);

  const std::map<std::string, std::shared_ptr<const MappedFile>>& files() const { return files_; }

 private:
  Result<std::shared_ptr<const MappedFile>> Open(std::string_view location);

  std::string folder_;
  int64_t max_bytes_;
  std::string canonical_folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;  // by canonical path
};

}  // namespace quern::onnx
