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

// Empty for what is no folder or cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  return entries;
}

}  // namespace

Status UpdateFiles::flush(const fs::path& spooled) {
  const int descriptor = ::open(spooled.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return error_of_errno("open", spooled, errno);
  const bool flushed = ::fsync(descriptor) == 0;
  const int code = errno;
  ::close(descriptor);
  if (!flushed) return error_of_errno("flush", spooled, code);
  return {};
}

fs::path UpdateFiles::folder_of(const std::string& job, std::int64_t round,
                                std::int64_t attempt) const {
  return root_ / job / fmt::format("{}-{}", round, attempt);
}

fs::path UpdateFiles::path_of(const Key& key) const {
  return folder_of(key.job, key.round, key.attempt) /
         fmt::format("{}.{}.safetensors", key.device, key.digest.hex());
}

Status UpdateFiles::prepare_round(const std::string& job, std::int64_t round,
                                  std::int64_t attempt) const {
  const fs::path folder = folder_of(job, round, attempt);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return error_of_errno("make folder", folder, error.value());
  MUSTER_TRY_STATUS(sync_folder(folder.parent_path()));
  return sync_folder(root_);
}

Status UpdateFiles::adopt(const fs::path& spooled, const Key& key) const {
  const fs::path target = path_of(key);
  MUSTER_TRY_STATUS(flush(spooled));
  if (::rename(spooled.c_str(), target.c_str()) != 0)
    return error_of_errno("move into place", target, errno);
  return sync_folder(target.parent_path());
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
  for (const fs::path& job : entries_of(root_)) {
    for (const fs::path& round : entries_of(job)) {
      if (!kept.contains(round)) fs::remove_all(round, ignored);
    }
    fs::remove(job, ignored);  // goes when it is empty
  }
}

}  // namespace muster
