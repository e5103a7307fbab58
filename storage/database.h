#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "storage/connection.h"

namespace muster {

// The SQLite file behind a Store: its lock, one connection that does all writes and checkpoints
// (two that do can corrupt a WAL database before SQLite 3.51.3), and a read-only one beside it.
//
// Owned by Store::Impl, lives as long. Safe to call from any thread; a read does not wait for a
// write. No call may be made from inside another call's work. Errors of all calls: those of
// storage/sqlite_error.h. After a flush to the disk failed, every further write is refused with
// kDataLoss, reason "store_sync_failed", until the process starts anew.
class Database {
 public:
  using Work = std::function<Status(Connection&)>;

  // Errors: as Store::open.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& file, bool create,
                                                std::chrono::milliseconds busy_timeout);

  // The one way to change anything: runs `work` in a transaction (BEGIN IMMEDIATE) and commits it
  // durably when it succeeds; else nothing changed and its error comes back. `what` names the
  // change for messages. `work` may only touch the connection and its own results, so that several
  // can come to share a commit.
  Status write(std::string_view what, const Work& work);

  // kDataLoss, "store_sync_failed", once a flush failed.
  Status check_usable() const;

  // `work` maps a Connection to a Result; it sees the last commit.
  template <typename ReadWork>
  auto read(std::string_view what, const ReadWork& work) {
    std::invoke_result_t<ReadWork, Connection&> result;
    const Status status = run_read(what, [&](Connection& connection) -> Status {
      result = work(connection);
      if (!result) return result.error();
      return {};
    });
    if (!status) result = status.error();
    return result;
  }

  // All rows, or the first, of one SELECT. `row_of` maps a Query that stands on a row to a
  // Result<Row>.
  template <typename Row, typename... Values>
  Result<std::vector<Row>> list(std::string_view what, Result<Row> (*row_of)(const Query&),
                                std::string_view sql, const Values&... values) {
    return read(what, [&](Connection& connection) -> Result<std::vector<Row>> {
      std::vector<Row> rows;
      Query query(connection, sql, values...);
      while (query.next()) {
        MUSTER_TRY(Row row, row_of(query));
        rows.push_back(std::move(row));
      }
      return rows;
    });
  }
  template <typename Row, typename... Values>
  Result<std::optional<Row>> find(std::string_view what, Result<Row> (*row_of)(const Query&),
                                  std::string_view sql, const Values&... values) {
    return read(what, [&](Connection& connection) -> Result<std::optional<Row>> {
      Query query(connection, sql, values...);
      if (!query.next()) return std::optional<Row>();
      MUSTER_TRY(Row row, row_of(query));
      return std::optional<Row>(std::move(row));
    });
  }

 private:
  Database(std::filesystem::path file, FileLock lock, std::unique_ptr<Connection> writer,
           std::unique_ptr<Connection> reader);
  Status run_read(std::string_view what, const Work& work);

  const std::filesystem::path file_;
  // Closed from the last to the first: the writer after the reader, so that it makes the closing
  // checkpoint.
  const FileLock lock_;
  std::mutex write_mutex_;
  const std::unique_ptr<Connection> writer_;  // guarded by write_mutex_
  std::atomic<bool> sync_failed_ = false;
  std::mutex read_mutex_;
  const std::unique_ptr<Connection> reader_;  // guarded by read_mutex_
};

}  // namespace muster
