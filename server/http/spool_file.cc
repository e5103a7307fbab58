#include "server/http/spool_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/descriptor.h"

namespace muster::http {
namespace {

Error disk_error(std::string_view call, int error) {
  const std::string text = "the body could not be stored: " + std::string(call) + ": " +
                           std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Error{ErrorCode::kResourceExhausted, text, "disk_full"};
  }
  return Error{ErrorCode::kUnavailable, text, "spool_failed"};
}

}  // namespace

Result<std::shared_ptr<SpoolFile>> SpoolFile::open(const std::filesystem::path& folder,
                                                   const std::string& name) {
  auto path = folder / ("body-" + name);
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return disk_error("open", errno);
  return std::shared_ptr<SpoolFile>(new SpoolFile(std::move(path), descriptor));
}

SpoolFile::~SpoolFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

Status SpoolFile::append(std::string_view bytes) {
  hash_.update(as_bytes(bytes));
  const int error = write_all(descriptor_, as_bytes(bytes));
  if (error != 0) return disk_error("write", error);
  bytes_ += bytes.size();
  return {};
}

Result<std::shared_ptr<SpooledBody>> SpoolFile::finish() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) return disk_error("close", errno);
  return std::make_shared<SpooledBody>(std::exchange(path_, {}), bytes_, hash_.finish());
}

}  // namespace muster::http
