#include "storage/update_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <system_error>

#include "storage/folders.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

Status flush(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return error_of_errno("open", path, errno);
  const bool flushed = ::fsync(descriptor) == 0;
  const int code = errno;
  ::close(descriptor);
  if (!flushed) return error_of_errno("flush", path, code);
  return {};
}

}  // namespace

fs::path UpdateFiles::folder_of(const std::string& job, std::int64_t round,
                                std::int64_t attempt) const {
  return root_ / job / fmt::format("{}-{}", round, attempt);
}

fs::path UpdateFiles::path_of(const Key& key) const {
  return folder_of(key.job, key.round, key.attempt) /
         fmt::format("{}.{}.safetensors", key.device, key.digest.hex());
}

Status UpdateFiles::adopt(const fs::path& spooled, const Key& key) const {
  const fs::path target = path_of(key);
  const fs::path folder = target.parent_path();
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) return error_of_errno("make folder", folder, error.value());
  MUSTER_TRY_STATUS(flush(spooled));
  if (::rename(spooled.c_str(), target.c_str()) != 0)
    return error_of_errno("move into place", target, errno);
  MUSTER_TRY_STATUS(sync_folder(folder));
  if (made) {
    MUSTER_TRY_STATUS(sync_folder(folder.parent_path()));
    MUSTER_TRY_STATUS(sync_folder(root_));
  }
  return {};
}

Result<MappedFile> UpdateFiles::map(const Key& key) const {
  std::error_code error;
  if (!fs::exists(path_of(key), error)) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("the update of {} for round {} of {} is not on the disk", key.device,
                             key.round, key.job),
                 "artefact_missing"};
  }
  return MappedFile::open(path_of(key));
}

void UpdateFiles::remove(const Key& key) const {
  std::error_code ignored;
  fs::remove(path_of(key), ignored);
}

void UpdateFiles::remove_round(const std::string& job, std::int64_t round,
                               std::int64_t attempt) const {
  std::error_code ignored;
  fs::remove_all(folder_of(job, round, attempt), ignored);
}

void UpdateFiles::keep_only(const std::vector<OpenRound>& open) const {
  std::set<fs::path> kept;
  for (const OpenRound& round : open) kept.insert(folder_of(round.job, round.round, round.attempt));
  std::error_code ignored;
  for (const fs::directory_entry& job : fs::directory_iterator(root_, ignored)) {
    for (const fs::directory_entry& round : fs::directory_iterator(job.path(), ignored)) {
      if (!kept.contains(round.path())) fs::remove_all(round.path(), ignored);
    }
    fs::remove(job.path(), ignored);  // goes when it is empty
  }
}

}  // namespace muster
