#include "core/base/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace muster {
namespace {

bool is_full(int number) {
  return number == ENOSPC || number == EDQUOT || number == EFBIG;
}

ErrorCode code_of(int number) {
  if (number == ENOENT || number == ENOTDIR) return ErrorCode::kNotFound;
  if (number == EACCES || number == EPERM || number == EROFS) return ErrorCode::kPermissionDenied;
  if (is_full(number) || number == EMFILE || number == ENFILE) {
    return ErrorCode::kResourceExhausted;
  }
  return ErrorCode::kInternal;
}

Error failed(std::string_view doing, const std::filesystem::path& folder, int number) {
  return {code_of(number),
          fmt::format("{} a temporary file in {}: {}", doing, folder.native(),
                      std::generic_category().message(number)),
          is_full(number) ? "disk_full" : "file"};
}

// Where the file system knows no files without a name, one whose name is taken away at once.
int open_nameless(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = (folder / ".muster-scratch-XXXXXX").native();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

Result<ScratchFile> ScratchFile::create(const std::filesystem::path& folder) {
  Descriptor file(open_nameless(folder));
  if (!file.valid()) return failed("create", folder, errno);
  return ScratchFile(std::move(file), folder);
}

Status ScratchFile::append(ByteView piece) {
  const int error = write_all(file_.number(), piece);
  return error == 0 ? Status{} : failed("write to", folder_, error);
}

Result<MappedFile> ScratchFile::map() && {
  return MappedFile::of_descriptor(file_.number(), folder_);
}

}  // namespace muster
