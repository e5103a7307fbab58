#include "edge_client/body_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"

namespace muster {
namespace {

Error file_error(const std::filesystem::path& file, std::string_view doing, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {full ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
          fmt::format("{} {}: {}", doing, file.string(), std::strerror(error)),
          full ? "disk_full" : "file_error"};
}

}  // namespace

Result<UploadFile> UploadFile::open(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error(file, "open", errno);
  struct stat about {};
  if (fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(descriptor);
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} is not a regular file", file.string())};
  }
  return UploadFile(descriptor, static_cast<std::uint64_t>(about.st_size));
}

UploadFile::UploadFile(UploadFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}

UploadFile::~UploadFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t UploadFile::read(std::uint64_t offset, char* target, std::size_t size) const {
  while (true) {
    const ssize_t bytes = ::pread(descriptor_, target, size, static_cast<off_t>(offset));
    if (bytes >= 0) return static_cast<std::size_t>(bytes);
    if (errno != EINTR) return 0;
  }
}

DownloadFile::DownloadFile(std::filesystem::path target, std::uint64_t bytes, const Digest& digest)
    : target_(std::move(target)), temporary_(target_), wanted_bytes_(bytes), wanted_(digest) {
  temporary_ += ".part";
}

DownloadFile::~DownloadFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Error DownloadFile::damaged(std::string_view what) const {
  return {ErrorCode::kDataLoss,
          fmt::format("download of {}: {}", target_.filename().string(), what), "digest_mismatch"};
}

Status DownloadFile::start(const std::map<std::string, std::string>& headers) {
  const auto length = headers.find("content-length");
  if (length != headers.end() && length->second != std::to_string(wanted_bytes_)) {
    return damaged(fmt::format("the server sends {} bytes, wanted {}", printable(length->second),
                               wanted_bytes_));
  }
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return file_error(temporary_, "create", errno);
  return {};
}

Status DownloadFile::take(std::string_view piece) {
  bytes_ += piece.size();
  if (bytes_ > wanted_bytes_)
    return damaged(fmt::format("more than the {} bytes wanted", wanted_bytes_));
  hash_.update(as_bytes(piece));
  const int error = write_all(descriptor_, as_bytes(piece));
  return error == 0 ? Status{} : file_error(temporary_, "write", error);
}

Status DownloadFile::finish() {
  if (bytes_ != wanted_bytes_)
    return damaged(fmt::format("{} bytes came, wanted {}", bytes_, wanted_bytes_));
  if (const Digest found = hash_.finish(); found != wanted_) {
    return damaged(fmt::format("digest {} came, wanted {}", found.hex(), wanted_.hex()));
  }
  if (fsync(descriptor_) != 0) return file_error(temporary_, "flush", errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0)
    return file_error(target_, "replace", errno);
  ::close(std::exchange(descriptor_, -1));
  return sync_folder(target_.parent_path());
}

}  // namespace muster
