#include <fmt/format.h>

#include "storage/store_impl.h"

namespace muster {
namespace {

Result<UpdateRow> update_of(const Query& query) {
  UpdateRow row;
  row.job = query.text(0);
  row.round = query.integer(1);
  row.attempt = query.integer(2);
  row.device = query.text(3);
  row.accepted = query.text(4) == "accepted";
  row.reason = query.text(5);
  row.detail = query.text(6);
  MUSTER_TRY(row.digest, query.optional_digest(7));
  row.bytes = query.integer(8);
  row.examples = query.integer(9);
  row.steps = query.integer(10);
  MUSTER_TRY(row.metrics, query.json(11));
  row.received_at_ms = query.integer(12);
  row.statement = query.text(13);
  row.signature = query.text(14);
  row.staleness = query.integer(15);
  return row;
}

Result<ParticipantRow> participant_of(const Query& query) {
  ParticipantRow row;
  row.job = query.text(0);
  row.round = query.integer(1);
  row.attempt = query.integer(2);
  row.device = query.text(3);
  row.task = query.text(4);
  row.invited_at_ms = query.integer(5);
  row.began_round = query.integer(6);
  row.began_attempt = query.integer(7);
  return row;
}

void insert_update(Connection& connection, const UpdateRow& update, bool accepted) {
  Query(connection,
        "INSERT INTO updates (job, round, attempt, device, verdict, reason, detail, digest, bytes, "
        "examples, steps, metrics, received_at_ms, statement, signature, staleness) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        update.job, update.round, update.attempt, update.device,
        std::string(accepted ? "accepted" : "refused"), update.reason, update.detail, update.digest,
        update.bytes, update.examples, update.steps, object_text(update.metrics),
        update.received_at_ms, update.statement, update.signature, update.staleness)
      .run();
}

// Whether the attempt lacks this device's update and waits for it.
Status check_awaited(Connection& connection, const UpdateRow& update) {
  if (Query(connection,
            "SELECT 1 FROM updates WHERE job = ? AND round = ? AND attempt = ? AND device = ? "
            "AND verdict = 'accepted'",
            update.job, update.round, update.attempt, update.device)
          .next()) {
    return Error{ErrorCode::kAlreadyExists,
                 fmt::format("device '{}' has an accepted update in round {} of job '{}' already",
                             printable(update.device), update.round, printable(update.job)),
                 "already_reported"};
  }
  if (!Query(connection,
             "SELECT 1 FROM participants WHERE job = ? AND round = ? AND attempt = ? "
             "AND device = ?",
             update.job, update.round, update.attempt, update.device)
           .next()) {
    return Error{
        ErrorCode::kFailedPrecondition,
        fmt::format("device '{}' was not selected for round {} attempt {} of job '{}'",
                    printable(update.device), update.round, update.attempt, printable(update.job)),
        "not_selected"};
  }
  return {};
}

template <typename Row>
bool is_of(const Row& row, const RoundRow& round) {
  return row.job == round.job && row.round == round.round && row.attempt == round.attempt;
}

Error of_another_round(std::string_view what, const RoundRow& round) {
  return {ErrorCode::kInternal,
          fmt::format("{} is not of round {} attempt {} of job '{}' with which it is saved", what,
                      round.round, round.attempt, printable(round.job)),
          "wrong_round"};
}

}  // namespace

Status insert_participants(Connection& connection, const RoundRow& round,
                           const std::vector<ParticipantRow>& participants) {
  for (const ParticipantRow& row : participants) {
    if (!is_of(row, round)) return of_another_round("a participant", round);
    Query(connection,
          "INSERT INTO participants (job, round, attempt, device, task, invited_at_ms, "
          "began_round, began_attempt) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
          row.job, row.round, row.attempt, row.device, row.task, row.invited_at_ms,
          null_if_zero(row.began_round), null_if_zero(row.began_attempt))
        .run();
  }
  return {};
}

Status Store::save_selection(const RoundRow& round, const std::vector<ParticipantRow>& participants,
                             const EventRow& event) {
  return impl_->database->write("save a selection", [&](Connection& connection) -> Status {
    MUSTER_TRY_STATUS(save_open_round(connection, round));
    MUSTER_TRY_STATUS(insert_participants(connection, round, participants));
    return insert_event(connection, event);
  });
}

Status Store::accept_update(const UpdateRow& update, const RoundRow& round, const EventRow& event) {
  if (!is_of(update, round)) return of_another_round("an update", round);
  return impl_->database->write("accept an update", [&](Connection& connection) -> Status {
    MUSTER_TRY_STATUS(check_awaited(connection, update));
    MUSTER_TRY_STATUS(save_open_round(connection, round));
    insert_update(connection, update, true);
    return insert_event(connection, event);
  });
}

Status Store::refuse_update(const UpdateRow& update, const EventRow& event) {
  return impl_->database->write("note a refused update", [&](Connection& connection) -> Status {
    insert_update(connection, update, false);
    return insert_event(connection, event);
  });
}

Result<std::vector<ParticipantRow>> Store::list_participants(const std::string& job,
                                                             std::int64_t round,
                                                             std::int64_t attempt) const {
  return impl_->database->list<ParticipantRow>(
      "list participants", participant_of,
      "SELECT job, round, attempt, device, task, invited_at_ms, began_round, began_attempt "
      "FROM participants "
      "WHERE job = ? AND round = ? AND attempt = ? ORDER BY device",
      job, round, attempt);
}

Result<std::vector<UpdateRow>> Store::list_updates(const std::string& job,
                                                   std::int64_t round) const {
  return impl_->database->list<UpdateRow>(
      "list updates", update_of,
      "SELECT job, round, attempt, device, verdict, reason, detail, digest, bytes, examples, "
      "steps, metrics, received_at_ms, statement, signature, staleness FROM updates "
      "WHERE job = ? AND round = ? ORDER BY received_at_ms, id",
      job, round);
}

Result<std::vector<UpdateRow>> Store::list_accepted_updates(const std::string& job,
                                                            std::int64_t round,
                                                            std::int64_t attempt) const {
  return impl_->database->list<UpdateRow>(
      "list accepted updates", update_of,
      "SELECT job, round, attempt, device, verdict, reason, detail, digest, bytes, examples, "
      "steps, metrics, received_at_ms, statement, signature, staleness FROM updates "
      "WHERE job = ? AND round = ? AND attempt = ? AND verdict = 'accepted' ORDER BY device",
      job, round, attempt);
}

Result<std::optional<UpdateRow>> Store::find_accepted_update(const std::string& job,
                                                             std::int64_t round,
                                                             std::int64_t attempt,
                                                             const std::string& device) const {
  return impl_->database->find<UpdateRow>(
      "find an update", update_of,
      "SELECT job, round, attempt, device, verdict, reason, detail, digest, bytes, examples, "
      "steps, metrics, received_at_ms, statement, signature, staleness FROM updates "
      "WHERE job = ? AND round = ? AND attempt = ? AND device = ? AND verdict = 'accepted'",
      job, round, attempt, device);
}

Result<std::optional<UpdateRow>> Store::find_update_of_task(const std::string& task,
                                                            const std::string& device) const {
  return impl_->database->find<UpdateRow>(
      "find the update of a task", update_of,
      "SELECT job, round, attempt, device, verdict, reason, detail, digest, bytes, examples, "
      "steps, metrics, received_at_ms, statement, signature, staleness "
      "FROM participants p JOIN updates u USING (job, round, attempt, device) "
      "WHERE p.task = ? AND device = ? AND u.verdict = 'accepted'",
      task, device);
}

}  // namespace muster
