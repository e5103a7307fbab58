#include "storage/folders.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/base/file.h"

namespace muster {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) {
  const fs::path folder = file.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

Status make_private_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return sync_folder(folder_of(folder));
  if (errno == EEXIST) {
    std::error_code ignored;
    if (fs::is_directory(folder, ignored)) return {};
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("{} is no folder, a folder is wanted there", folder.string()),
                 "not_a_folder"};
  }
  if (errno != ENOENT || folder_of(folder) == folder) return error_of_errno("make", folder, errno);
  MUSTER_TRY_STATUS(make_private_folder(folder_of(folder)));
  return make_private_folder(folder);
}

Status check_not_writable_by_others(const fs::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return error_of_errno("look at", path, errno);
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  return Error{ErrorCode::kFailedPrecondition,
               fmt::format("{} has mode {:o}, so others may write to it; run: chmod go-w {}",
                           path.string(), found.st_mode & 07777, path.string()),
               "insecure_folder"};
}

Error error_of_errno(std::string_view action, const fs::path& path, int error_number) {
  ErrorCode code = ErrorCode::kInternal;
  std::string reason = "store_failed";
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      code = ErrorCode::kResourceExhausted;
      reason = "disk_full";
      break;
    case ENOENT:
      code = ErrorCode::kNotFound;
      reason = "file_missing";
      break;
    case EROFS:
    case EACCES:
    case EPERM:
      code = ErrorCode::kUnavailable;
      reason = "store_unavailable";
      break;
    case EIO:
      code = ErrorCode::kDataLoss;
      reason = "store_sync_failed";
      break;
    default:
      break;
  }
  return {code,
          fmt::format("{} {}: {}", action, path.string(),
                      std::error_code(error_number, std::generic_category()).message()),
          std::move(reason)};
}

}  // namespace muster
