#include "storage/connection.h"

#include <SQLiteCpp/Column.h>
#include <fmt/format.h>

namespace muster {

Connection::Connection(const std::filesystem::path& file, int flags,
                       std::chrono::milliseconds busy_timeout)
    : database_(file.string(), flags, static_cast<int>(busy_timeout.count())) {}

SQLite::Statement& Connection::prepared(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    std::string text(sql);
    SQLite::Statement statement(database_, text);
    found = statements_.emplace(std::move(text), std::move(statement)).first;
  }
  return found->second;
}

std::optional<std::int64_t> null_if_zero(std::int64_t value) {
  if (value == 0) return std::nullopt;
  return value;
}

std::optional<std::string> null_if_empty(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return text;
}

std::string json_text(const Json& json) {
  return json.dump();
}

std::string object_text(const Json& json) {
  return json.is_null() ? "{}" : json.dump();
}

std::string json_text(const std::vector<std::string>& texts) {
  return Json(texts).dump();
}

Query::~Query() {
  statement_.tryReset();
  try {
    statement_.clearBindings();
  } catch (const SQLite::Exception&) {  // of a connection that failed: the next run binds anew
  }
}

std::int64_t Query::integer(int column) const {
  return statement_.getColumn(column).getInt64();
}

std::string Query::text(int column) const {
  return statement_.getColumn(column).getString();
}

Error Query::damaged(int column, std::string_view wanted) const {
  return {ErrorCode::kDataLoss,
          fmt::format("column {} holds '{}', wanted {}; restore the latest back-up",
                      statement_.getColumnName(column), printable(text(column), 40), wanted),
          "store_damaged"};
}

Result<Digest> Query::digest(int column) const {
  Result<Digest> digest = Digest::from_hex(text(column));
  if (!digest) return damaged(column, "64 hexadecimal digits");
  return digest;
}

Result<std::optional<Digest>> Query::optional_digest(int column) const {
  if (is_null(column)) return std::optional<Digest>();
  MUSTER_TRY(const Digest value, digest(column));
  return std::optional<Digest>(value);
}

Result<Json> Query::json(int column) const {
  Json value = Json::parse(text(column), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return damaged(column, "JSON");
  return value;
}

Result<std::vector<std::string>> Query::texts(int column) const {
  MUSTER_TRY(const Json list, json(column));
  if (!list.is_array()) return damaged(column, "a JSON array of texts");
  std::vector<std::string> texts;
  for (const Json& item : list) {
    if (!item.is_string()) return damaged(column, "a JSON array of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

}  // namespace muster
