#include "core/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/base/descriptor.h"

namespace muster {
namespace {

// How far from a page of a mapped file Linux may map what it has of the file when that page is
// touched: the 64 KiB of addresses around it (fault_around_bytes), and the whole of the pieces that
// these lie in, which are no larger than what write_all writes at once.
constexpr std::size_t kAround = std::size_t{128} << 10;
constexpr std::size_t kPage = 4096;

int open_at(const std::filesystem::path& path, int flags, mode_t mode = 0) {
  return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

ErrorCode code_of(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return ErrorCode::kInvalidArgument;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorCode::kResourceExhausted;
    default:
      return ErrorCode::kInternal;
  }
}

// `number` is the errno of a call that failed.
Error system_error(std::string_view doing, const std::filesystem::path& path, int number) {
  return {code_of(number),
          fmt::format("{} {}: {}", doing, path.native(), std::generic_category().message(number)),
          "file"};
}

Error too_long(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  return {ErrorCode::kResourceExhausted,
          fmt::format("read {}: longer than the limit of {} bytes", path.native(), limit_bytes),
          "too_large"};
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// 0, or the errno of the step that failed. Closes before the caller renames, so that a late error
// is seen.
int fill(Descriptor& file, ByteView content, mode_t mode) {
  if (::fchmod(file.number(), mode) < 0) return errno;
  if (const int failed = write_all(file.number(), content); failed != 0) return failed;
  if (uninterrupted([&] { return ::fsync(file.number()); }) < 0) return errno;
  return ::close(file.release()) < 0 && errno != EINTR ? errno : 0;
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const Descriptor file(open_at(path, O_RDONLY));
  if (!file.valid()) return system_error("open", path, errno);
  struct stat status {};
  if (::fstat(file.number(), &status) < 0) return system_error("look at", path, errno);
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(0, status.st_size));
  if (S_ISREG(status.st_mode) && size > limit_bytes) return too_long(path, limit_bytes);

  // The size is only a hint: the file may grow, and one in /proc or a pipe says 0.
  std::string content;
  std::size_t used = 0;
  content.resize(static_cast<std::size_t>(std::min(size, limit_bytes)) + 1);
  while (true) {
    if (used == content.size()) content.resize(2 * content.size());
    const ssize_t got = uninterrupted(
        [&] { return ::read(file.number(), content.data() + used, content.size() - used); });
    if (got < 0) return system_error("read", path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > limit_bytes) return too_long(path, limit_bytes);
  }
  content.resize(used);
  return content;
}

Status write_file_durably(const std::filesystem::path& path, ByteView content, mode_t mode) {
  const std::filesystem::path folder = folder_of(path);
  // A name of its own length, whatever the length of the file's name; mkostemp makes it unique.
  std::string temporary = (folder / ".muster-write-XXXXXX").native();
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) return system_error("create a temporary file in", folder, errno);
  int failed = fill(file, content, mode);
  if (failed == 0 && ::rename(temporary.c_str(), path.c_str()) < 0) failed = errno;
  if (failed != 0) {
    ::unlink(temporary.c_str());
    return system_error("write", path, failed);
  }
  return sync_folder(folder);
}

Status sync_folder(const std::filesystem::path& folder) {
  // A bare file name has the parent path "".
  const Descriptor directory(open_at(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY));
  if (!directory.valid()) return system_error("open folder", folder, errno);
  if (uninterrupted([&] { return ::fsync(directory.number()); }) < 0) {
    return system_error("flush folder", folder, errno);
  }
  return {};
}

Status check_private_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) < 0) return system_error("look at", path, errno);
  const auto refuse = [&](std::string_view why) {
    return Error{ErrorCode::kPermissionDenied,
                 fmt::format("private file {} {}", path.native(), why), "file_not_private"};
  };
  if (S_ISLNK(status.st_mode)) return refuse("is a symbolic link, a regular file is wanted");
  if (!S_ISREG(status.st_mode)) return refuse("is not a regular file");
  if (status.st_uid != ::geteuid()) {
    return refuse(fmt::format("belongs to user {}, user {} is wanted", status.st_uid, ::geteuid()));
  }
  if ((status.st_mode & 077) != 0) {
    return refuse(
        fmt::format("has mode {:04o}, 0600 is wanted: others may use it", status.st_mode & 07777));
  }
  return {};
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file(open_at(path, O_RDONLY));
  if (!file.valid()) return system_error("open", path, errno);
  return of_descriptor(file.number(), path);
}

Result<MappedFile> MappedFile::of_descriptor(int descriptor, const std::filesystem::path& name) {
  struct stat status {};
  if (::fstat(descriptor, &status) < 0) return system_error("look at", name, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("map {}: not a regular file", name.native()), "file"};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile(nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return system_error("map", name, errno);
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(std::size_t begin, std::size_t count) const {
  // With what was mapped around them, which no later call might release.
  if (count == 0 || begin >= size_) return;
  const std::size_t first = (begin - std::min(begin, kAround)) / kPage * kPage;
  const std::size_t last = begin + std::min(count, size_ - begin);
  const std::size_t end = std::min(last + kAround, size_);
  madvise(const_cast<std::byte*>(data_) + first, end - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<FileLock> FileLock::acquire(const std::filesystem::path& path) {
  Descriptor file(open_at(path, O_RDWR | O_CREAT, 0600));
  if (!file.valid()) return system_error("open", path, errno);
  if (uninterrupted([&] { return ::flock(file.number(), LOCK_EX | LOCK_NB); }) < 0) {
    if (errno != EWOULDBLOCK) return system_error("lock", path, errno);
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("lock {}: another process holds it", path.native()), "locked"};
  }
  return FileLock(file.release());
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace muster
