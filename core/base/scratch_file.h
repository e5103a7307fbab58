#pragma once

#include <filesystem>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/descriptor.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace muster {

// A file without a name in a folder, for what is too large for memory and not worth keeping: it is
// gone once it is neither open nor mapped, however the process ends. Order: create, append any
// number of times, map once.
class ScratchFile {
 public:
  // Errors: those of the folder: kNotFound, kPermissionDenied, ...
  static Result<ScratchFile> create(const std::filesystem::path& folder);

  // Errors: kResourceExhausted, reason "disk_full"; kInternal, reason "file".
  Status append(ByteView piece);
  // What was appended. The file lives on in the map.
  Result<MappedFile> map() &&;

 private:
  ScratchFile(Descriptor file, std::filesystem::path folder)
      : file_(std::move(file)), folder_(std::move(folder)) {}

  Descriptor file_;
  std::filesystem::path folder_;
};

}  // namespace muster
