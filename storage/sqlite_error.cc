#include "storage/sqlite_error.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace muster {
namespace {

struct Meaning {
  ErrorCode code;
  std::string_view reason;
  std::string_view next_step;
};

Meaning meaning_of_constraint(int extended) {
  switch (extended) {
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return {ErrorCode::kNotFound, "unknown_reference",
              "it names a job, round or device that the store does not have"};
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
      return {ErrorCode::kAlreadyExists, "duplicate", "the store has such a row already"};
    default:
      return {ErrorCode::kInvalidArgument, "bad_value",
              "a value is outside what its column admits (docs/storage.md)"};
  }
}

Meaning meaning_of(const SQLite::Exception& exception) {
  switch (exception.getErrorCode() & 0xff) {
    case SQLITE_FULL:
      return {ErrorCode::kResourceExhausted, "disk_full",
              "the disk is full; free some space, nothing was changed"};
    case SQLITE_IOERR:
      return {ErrorCode::kResourceExhausted, "disk_full",
              "the disk could not be read or written; check its free space, quota and the system "
              "log, nothing was changed"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable, "store_busy",
              "another program holds the database; close it and try again"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::kDataLoss, "store_damaged",
              "the file is damaged; keep it aside and restore the latest back-up "
              "(docs/storage.md, Back-up)"};
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorCode::kUnavailable, "store_unavailable",
              "check that the file and its folder belong to this user and that the disk is not "
              "mounted read-only"};
    case SQLITE_NOMEM:
      return {ErrorCode::kResourceExhausted, "out_of_memory", "no memory is left; try again"};
    case SQLITE_TOOBIG:
      return {ErrorCode::kInvalidArgument, "bad_value", "a text is longer than SQLite stores"};
    case SQLITE_CONSTRAINT:
      return meaning_of_constraint(exception.getExtendedErrorCode());
    default:
      return {ErrorCode::kInternal, "store_failed", "this is a defect of Muster"};
  }
}

}  // namespace

Error to_error(const SQLite::Exception& exception, const std::filesystem::path& file,
               std::string_view what) {
  const Meaning meaning = meaning_of(exception);
  return {meaning.code,
          fmt::format("{}: {}: {} (SQLite {}: {})", file.string(), what, meaning.next_step,
                      exception.getExtendedErrorCode(), exception.what()),
          std::string(meaning.reason)};
}

bool is_sync_failure(const SQLite::Exception& exception) {
  const int code = exception.getExtendedErrorCode();
  return code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC;
}

}  // namespace muster
