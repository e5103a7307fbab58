#pragma once

#include <filesystem>
#include <string_view>

#include "core/base/error.h"

namespace muster {

// Small things that the database and the state files need of the file system.

// The folder that a file lies in; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& file);

// Makes a folder that only this user may enter (0700), and those above it that are missing; one
// that is there stays as it is. Durable when it returns.
Status make_private_folder(const std::filesystem::path& folder);

// Errors: kFailedPrecondition, reason "insecure_folder", when the mode lets group or others write.
Status check_not_writable_by_others(const std::filesystem::path& path);

// What a failed system call means: no space, quota or file size limit kResourceExhausted
// "disk_full"; missing kNotFound; read-only or forbidden kUnavailable "store_unavailable"; EIO
// kDataLoss "store_sync_failed"; else kInternal.
Error error_of_errno(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace muster
