#include "server/http/file_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace muster::http {
namespace {

Error file_error(const std::string& what) {
  return Error{ErrorCode::kInternal, "send a file: " + what, "file_failed"};
}

}  // namespace

Result<std::shared_ptr<FileSource>> FileSource::open(const FileSlice& slice) {
  const int descriptor = ::open(slice.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    return file_error(slice.path.filename().string() + ": " +
                      std::generic_category().message(errno));
  }
  std::shared_ptr<FileSource> source(new FileSource(descriptor, slice.offset, slice.bytes));
  struct stat found {};
  if (::fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) {
    return file_error(slice.path.filename().string() + " is no regular file");
  }
  const auto size = static_cast<std::uint64_t>(found.st_size);
  if (slice.offset > size || slice.bytes > size - slice.offset) {
    return file_error(slice.path.filename().string() + " has " + std::to_string(size) +
                      " bytes, wanted " + std::to_string(slice.bytes) + " from " +
                      std::to_string(slice.offset));
  }
  return source;
}

FileSource::~FileSource() {
  ::close(descriptor_);
}

Result<std::string> FileSource::read(std::size_t at_most) {
  std::string piece(static_cast<std::size_t>(std::min<std::uint64_t>(at_most, left_)), '\0');
  std::size_t filled = 0;
  while (filled < piece.size()) {
    const ssize_t got = ::pread(descriptor_, piece.data() + filled, piece.size() - filled,
                                static_cast<off_t>(offset_ + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(std::generic_category().message(errno));
    if (got == 0) return file_error("it became shorter while it was sent");
    filled += static_cast<std::size_t>(got);
  }
  offset_ += filled;
  left_ -= filled;
  return piece;
}

}  // namespace muster::http
