#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/error.h"

namespace muster {

// A file that is sent as the body of a request, read piece by piece. Open while the object lives.
class UploadFile {
 public:
  static Result<UploadFile> open(const std::filesystem::path& file);
  UploadFile(UploadFile&& other) noexcept;
  UploadFile& operator=(UploadFile&&) = delete;
  ~UploadFile();

  std::uint64_t bytes() const { return bytes_; }
  // How many bytes were read; 0 when the file ends before `offset` or cannot be read.
  std::size_t read(std::uint64_t offset, char* target, std::size_t size) const;

 private:
  UploadFile(int descriptor, std::uint64_t bytes) : descriptor_(descriptor), bytes_(bytes) {}
  int descriptor_;
  std::uint64_t bytes_;
};

// The body of a reply on its way into a file of known length and digest. What has come lies in a
// temporary file beside the target, which is replaced by `finish` alone; without it nothing is left
// behind. Order: start, take any number of times, finish. Errors: kDataLoss, reason
// "digest_mismatch" (length or digest differ); kResourceExhausted, reason "disk_full"; kInternal.
class DownloadFile {
 public:
  DownloadFile(std::filesystem::path target, std::uint64_t bytes, const Digest& digest);
  ~DownloadFile();
  DownloadFile(const DownloadFile&) = delete;
  DownloadFile& operator=(const DownloadFile&) = delete;

  // Takes the reply's headers: a Content-Length that cannot be right is refused before any byte is
  // stored.
  Status start(const std::map<std::string, std::string>& headers);
  Status take(std::string_view piece);
  Status finish();

 private:
  Error damaged(std::string_view what) const;

  std::filesystem::path target_, temporary_;
  std::uint64_t wanted_bytes_, bytes_ = 0;
  Digest wanted_;
  Sha256 hash_;
  int descriptor_ = -1;
};

}  // namespace muster
