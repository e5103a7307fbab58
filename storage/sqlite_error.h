#pragma once

#include <SQLiteCpp/Exception.h>

#include <filesystem>
#include <string_view>

#include "core/base/error.h"

namespace muster {

// What went wrong in SQLite, in the words of Store: the file, what was being done, and the next
// step.
//   FULL, IOERR             kResourceExhausted, "disk_full"
//   BUSY, LOCKED            kUnavailable, "store_busy"
//   CORRUPT, NOTADB         kDataLoss, "store_damaged"
//   READONLY, CANTOPEN ...  kUnavailable, "store_unavailable"
//   CONSTRAINT              kNotFound "unknown_reference", kAlreadyExists "duplicate",
//   kInvalidArgument "bad_value" the rest                kInternal
Error to_error(const SQLite::Exception& exception, const std::filesystem::path& file,
               std::string_view what);

// True when the kernel could not flush: what was written before may be lost although later flushes
// succeed (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020), so
// going on is no option.
bool is_sync_failure(const SQLite::Exception& exception);

}  // namespace muster
