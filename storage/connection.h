#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

// One SQLite connection with its prepared statements, each prepared once and kept.
//
// Owned by Database, which also sees to it that one thread uses it at a time. Methods throw
// SQLite::Exception; Database turns that into an Error.
class Connection {
 public:
  Connection(const std::filesystem::path& file, int flags, std::chrono::milliseconds busy_timeout);

  SQLite::Database& handle() { return database_; }
  SQLite::Statement& prepared(std::string_view sql);

 private:
  SQLite::Database database_;
  std::map<std::string, SQLite::Statement, std::less<>> statements_;  // gone before the database
};

// How a field that may be missing is stored: as NULL.
std::optional<std::int64_t> null_if_zero(std::int64_t value);
std::optional<std::string> null_if_empty(const std::string& text);

// A Json as the text of its column. NaN and infinity become null, as JSON has no word for them.
std::string json_text(const Json& json);
std::string json_text(const std::vector<std::string>& texts);
// For a column that holds an object: null is the empty one.
std::string object_text(const Json& json);

// One run of a prepared statement: values are bound in the order given, never put into the text.
//
// Lives on the stack inside one Database::read or write; the statement is reset when it goes.
// Columns count from 0 and are those of the row that the last `next` moved to.
class Query {
 public:
  template <typename... Values>
  Query(Connection& connection, std::string_view sql, const Values&... values)
      : statement_(connection.prepared(sql)) {
    int index = 0;
    (bind(++index, values), ...);
  }
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // For statements without rows; returns how many rows changed.
  int run() { return statement_.exec(); }
  bool next() { return statement_.executeStep(); }

  bool is_null(int column) const { return statement_.isColumnNull(column); }
  std::int64_t integer(int column) const;  // NULL: 0
  std::string text(int column) const;      // NULL: empty
  // Errors: kDataLoss, reason "store_damaged", naming the column: it does not hold what this build
  // writes.
  Result<Digest> digest(int column) const;
  Result<std::optional<Digest>> optional_digest(int column) const;
  Result<Json> json(int column) const;
  Result<std::vector<std::string>> texts(int column) const;
  Error damaged(int column, std::string_view wanted) const;

 private:
  void bind(int index, std::int64_t value) { statement_.bind(index, value); }
  void bind(int index, const std::string& value) { statement_.bind(index, value); }
  void bind(int index, const Digest& value) { statement_.bind(index, value.hex()); }
  template <typename T>
  void bind(int index, const std::optional<T>& value) {
    if (value) {
      bind(index, *value);
    } else {
      statement_.bind(index);
    }
  }

  SQLite::Statement& statement_;
};

}  // namespace muster
