#include "storage/database.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "storage/folders.h"
#include "storage/schema.h"
#include "storage/sqlite_error.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Runs `body`, which touches SQLite and nlohmann, and turns what they throw into errors.
template <typename Body>
auto guarded(const fs::path& file, std::string_view what, const Body& body)
    -> std::invoke_result_t<Body> {
  try {
    return body();
  } catch (const SQLite::Exception& exception) {
    return to_error(exception, file, what);
  } catch (const Json::exception& exception) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: a JSON value cannot be stored: {}", what, exception.what()),
                 "bad_json"};
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, fmt::format("{}: {}", what, exception.what()),
                 "store_failed"};
  }
}

// SQLite gives -wal and -shm the mode of the database file, so making that one 0600 settles all
// three.
Status make_file(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return error_of_errno("make", file, errno);
  ::close(descriptor);
  return sync_folder(folder_of(file));
}

Result<FileLock> take_lock(const fs::path& file) {
  const fs::path lock_file = file.string() + ".lock";
  Result<FileLock> lock = FileLock::acquire(lock_file);
  if (!lock && lock.error().reason == "locked") {
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("{}: another muster serve is running on it (it holds {}); stop that "
                             "one first, or serve another folder",
                             file.string(), lock_file.string()),
                 "locked"};
  }
  return lock;
}

void configure(Connection& connection) {
  SQLite::Database& database = connection.handle();
  sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  database.exec("PRAGMA foreign_keys = ON");
  database.exec("PRAGMA trusted_schema = OFF");
  database.exec("PRAGMA cell_size_check = ON");
  database.exec("PRAGMA temp_store = MEMORY");
}

Result<std::unique_ptr<Connection>> open_writer(const fs::path& file, bool create,
                                                std::chrono::milliseconds busy_timeout) {
  auto writer = std::make_unique<Connection>(file, SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX,
                                             busy_timeout);
  SQLite::Database& database = writer->handle();
  configure(*writer);
  MUSTER_TRY_STATUS(check_schema(database, migrations()));
  if (schema_version(database) == 0 && !create) {
    return Error{ErrorCode::kDataLoss,
                 "it is empty; restore the latest back-up, or delete it and run muster init",
                 "store_damaged"};
  }
  const std::string mode = database.execAndGet("PRAGMA journal_mode = WAL").getString();
  if (mode != "wal") {
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("its journal mode is '{}', wanted 'wal': this file system does not "
                             "support it; keep the database on a local disk",
                             mode),
                 "no_wal"};
  }
  database.exec("PRAGMA synchronous = FULL");
  database.exec("PRAGMA journal_size_limit = 67108864");
  migrate(database, migrations());
  return writer;
}

std::unique_ptr<Connection> open_reader(const fs::path& file,
                                        std::chrono::milliseconds busy_timeout) {
  auto reader = std::make_unique<Connection>(file, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX,
                                             busy_timeout);
  configure(*reader);
  reader->handle().exec("PRAGMA query_only = ON");
  reader->handle().exec("PRAGMA wal_autocheckpoint = 0");
  return reader;
}

}  // namespace

Database::Database(fs::path file, FileLock lock, std::unique_ptr<Connection> writer,
                   std::unique_ptr<Connection> reader)
    : file_(std::move(file)),
      lock_(std::move(lock)),
      writer_(std::move(writer)),
      reader_(std::move(reader)) {}

Result<std::unique_ptr<Database>> Database::open(const fs::path& file, bool create,
                                                 std::chrono::milliseconds busy_timeout) {
  std::error_code ignored;
  const bool exists = fs::exists(file, ignored);
  if (!exists && !create) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("{}: there is no such database; muster init makes one", file.string()),
                 "store_missing"};
  }
  MUSTER_TRY_STATUS(check_not_writable_by_others(folder_of(file)));
  MUSTER_TRY(FileLock lock, take_lock(file));
  if (!exists) MUSTER_TRY_STATUS(make_file(file));
  for (const std::string_view suffix : {"", "-wal", "-shm"}) {
    const fs::path part = file.string() + std::string(suffix);
    if (fs::exists(part, ignored)) MUSTER_TRY_STATUS(check_not_writable_by_others(part));
  }
  return guarded(file, "open", [&]() -> Result<std::unique_ptr<Database>> {
    MUSTER_TRY_IN(file.string(), auto writer, open_writer(file, create, busy_timeout));
    auto reader = open_reader(file, busy_timeout);
    return std::unique_ptr<Database>(
        new Database(file, std::move(lock), std::move(writer), std::move(reader)));
  });
}

Status Database::check_usable() const {
  if (!sync_failed_) return {};
  return Error{
      ErrorCode::kDataLoss,
      fmt::format("{}: a flush to the disk failed; check the disk, then start muster serve again",
                  file_.string()),
      "store_sync_failed"};
}

Status Database::write(std::string_view what, const Work& work) {
  const std::lock_guard guard(write_mutex_);
  MUSTER_TRY_STATUS(check_usable());
  return guarded(file_, what, [&]() -> Status {
    try {
      SQLite::Transaction transaction(writer_->handle(), SQLite::TransactionBehavior::IMMEDIATE);
      MUSTER_TRY_STATUS(work(*writer_));
      transaction.commit();
      return {};
    } catch (const SQLite::Exception& exception) {
      if (is_sync_failure(exception)) sync_failed_ = true;
      throw;
    }
  });
}

Status Database::run_read(std::string_view what, const Work& work) {
  const std::lock_guard guard(read_mutex_);
  return guarded(file_, what, [&]() -> Status {
    Status status = work(*reader_);
    if (status) return {};
    return with_context(std::move(status).error(), fmt::format("{}: {}", file_.string(), what));
  });
}

}  // namespace muster
