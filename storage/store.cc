#include "storage/store.h"

#include <algorithm>

#include "storage/store_impl.h"

namespace muster {
namespace {

Result<EventRow> event_of(const Query& query) {
  EventRow row;
  row.sequence = query.integer(0);
  row.at_ms = query.integer(1);
  row.kind = query.text(2);
  row.job = query.text(3);
  row.round = query.integer(4);
  row.actor = query.text(5);
  MUSTER_TRY(row.details, query.json(6));
  return row;
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Status Store::check_usable() const {
  return impl_->database->check_usable();
}

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& file, bool create,
                                           std::chrono::milliseconds busy_timeout) {
  MUSTER_TRY(auto database, Database::open(file, create, busy_timeout));
  return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(std::move(database))));
}

Status insert_event(Connection& connection, const EventRow& event) {
  Query(connection,
        "INSERT INTO events (at_ms, kind, job, round, actor, details) VALUES (?, ?, ?, ?, ?, ?)",
        event.at_ms, event.kind, null_if_empty(event.job), null_if_zero(event.round),
        null_if_empty(event.actor), object_text(event.details))
      .run();
  return {};
}

Status Store::add_event(const EventRow& event) {
  return impl_->database->write(
      "add an event", [&](Connection& connection) { return insert_event(connection, event); });
}

Result<std::vector<EventRow>> Store::list_events(const std::string& job,
                                                 std::int64_t after_sequence,
                                                 std::int64_t limit) const {
  const std::int64_t at_most = std::max<std::int64_t>(limit, 0);  // SQLite takes -1 for no limit
  if (job.empty()) {
    return impl_->database->list<EventRow>(
        "list events", event_of,
        "SELECT sequence, at_ms, kind, job, round, actor, details FROM events "
        "WHERE sequence > ? ORDER BY sequence LIMIT ?",
        after_sequence, at_most);
  }
  return impl_->database->list<EventRow>(
      "list events", event_of,
      "SELECT sequence, at_ms, kind, job, round, actor, details FROM events "
      "WHERE job = ? AND sequence > ? ORDER BY sequence LIMIT ?",
      job, after_sequence, at_most);
}

}  // namespace muster
