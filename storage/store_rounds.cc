#include <fmt/format.h>

#include <charconv>

#include "storage/store_impl.h"

namespace muster {
namespace {

Result<std::uint64_t> seed_of(const Query& query, int column) {
  const std::string text = query.text(column);
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size()) {
    return query.damaged(column, "an unsigned integer below 2^64");
  }
  return seed;
}

Result<RoundRow> round_of(const Query& query) {
  RoundRow row;
  row.job = query.text(0);
  row.round = query.integer(1);
  row.attempt = query.integer(2);
  row.phase = query.text(3);
  row.reason = query.text(4);
  MUSTER_TRY(row.machine, query.json(5));
  MUSTER_TRY(row.seed, seed_of(query, 6));
  MUSTER_TRY(row.base, query.digest(7));
  MUSTER_TRY(row.state, query.optional_digest(8));
  row.started_at_ms = query.integer(9);
  row.ended_at_ms = query.integer(10);
  MUSTER_TRY(row.metrics, query.json(11));
  row.bytes_down = query.integer(12);
  row.bytes_up = query.integer(13);
  MUSTER_TRY(row.rule_state, query.optional_digest(14));
  return row;
}

std::string name_of(const std::string& job, std::int64_t round, std::int64_t attempt) {
  return fmt::format("round {} attempt {} of job '{}'", round, attempt, printable(job));
}

std::string name_of(const RoundRow& round) {
  return name_of(round.job, round.round, round.attempt);
}

Error unknown_round(const std::string& name) {
  return {ErrorCode::kNotFound, fmt::format("there is no {}", name), "round_unknown"};
}

bool is_final(std::string_view phase) {
  return phase == "committed" || phase == "abandoned";
}

// Writes what changes in the life of an attempt, and only while it is open.
//   ended_at_ms  set for an attempt that ends with this
Status change_round(Connection& connection, const RoundRow& round, const std::string& phase,
                    std::optional<std::int64_t> ended_at_ms) {
  const bool committed = phase == "committed";
  const std::optional<Digest> state = committed ? round.state : std::nullopt;
  const std::optional<Digest> rule_state = committed ? round.rule_state : std::nullopt;
  const int changed =
      Query(connection,
            "UPDATE rounds SET phase = ?, reason = ?, machine = ?, state = ?, rule_state = ?, "
            "ended_at_ms = ?, "
            "metrics = json_patch(metrics, ?), bytes_down = max(bytes_down, ?), "
            "bytes_up = max(bytes_up, ?) WHERE job = ? AND round = ? AND attempt = ? "
            "AND phase NOT IN ('committed', 'abandoned')",
            phase, round.reason, json_text(round.machine), state, rule_state, ended_at_ms,
            object_text(round.metrics), round.bytes_down, round.bytes_up, round.job, round.round,
            round.attempt)
          .run();
  if (changed == 1) return {};
  Query query(connection, "SELECT phase FROM rounds WHERE job = ? AND round = ? AND attempt = ?",
              round.job, round.round, round.attempt);
  if (!query.next()) return unknown_round(name_of(round));
  return Error{ErrorCode::kFailedPrecondition,
               fmt::format("{} is {} and takes no change", name_of(round), query.text(0)),
               "round_closed"};
}

std::int64_t end_of(const RoundRow& round, const EventRow& event) {
  return round.ended_at_ms != 0 ? round.ended_at_ms : event.at_ms;
}

}  // namespace

Status save_open_round(Connection& connection, const RoundRow& round) {
  if (is_final(round.phase)) {
    return Error{ErrorCode::kInternal,
                 fmt::format("{} is saved as {}; only commit_round and abandon_round end one",
                             name_of(round), round.phase),
                 "bad_phase"};
  }
  return change_round(connection, round, round.phase, std::nullopt);
}

Status Store::begin_round(const RoundRow& round, const EventRow& event,
                          const std::vector<ParticipantRow>& carried_over) {
  return impl_->database->write("begin a round", [&](Connection& connection) -> Status {
    MUSTER_TRY_STATUS(status_of_job(connection, round.job));
    if (Query(connection, "SELECT 1 FROM rounds WHERE job = ? AND round = ? AND attempt = ?",
              round.job, round.round, round.attempt)
            .next()) {
      return Error{ErrorCode::kAlreadyExists, fmt::format("{} was begun already", name_of(round)),
                   "round_exists"};
    }
    if (is_final(round.phase)) {
      return Error{
          ErrorCode::kInternal,
          fmt::format("{} begins as {}, wanted an open phase", name_of(round), round.phase),
          "bad_phase"};
    }
    Query(
        connection,
        "INSERT INTO rounds (job, round, attempt, phase, reason, machine, seed, base, "
        "started_at_ms, metrics, bytes_down, bytes_up) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        round.job, round.round, round.attempt, round.phase, round.reason, json_text(round.machine),
        std::to_string(round.seed), round.base, round.started_at_ms, object_text(round.metrics),
        round.bytes_down, round.bytes_up)
        .run();
    MUSTER_TRY_STATUS(insert_participants(connection, round, carried_over));
    return insert_event(connection, event);
  });
}

Status Store::save_round(const RoundRow& round) {
  return impl_->database->write(
      "save a round", [&](Connection& connection) { return save_open_round(connection, round); });
}

Status Store::commit_round(const RoundRow& round, JobStatus job_status,
                           const std::string& status_reason, const EventRow& event,
                           const std::vector<EvaluationRow>& asked) {
  if (!round.state) {
    return Error{ErrorCode::kInternal,
                 fmt::format("{} is committed without a state", name_of(round)), "no_state"};
  }
  return impl_->database->write("commit a round", [&](Connection& connection) -> Status {
    const std::int64_t ended = end_of(round, event);
    MUSTER_TRY_STATUS(change_round(connection, round, "committed", ended));
    const int moved =
        Query(connection,
              "UPDATE jobs SET global_state = ?, rule_state = ?, rounds_committed = ? "
              "WHERE job = ? AND rounds_committed < ?",
              *round.state, round.rule_state, round.round, round.job, round.round)
            .run();
    if (moved != 1) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("{} comes after a later one was committed", name_of(round)),
                   "round_out_of_order"};
    }
    MUSTER_TRY_STATUS(move_job(connection, round.job, job_status, status_reason, ended));
    insert_evaluations(connection, asked);
    return insert_event(connection, event);
  });
}

Status Store::abandon_round(const RoundRow& round, JobStatus job_status,
                            const std::string& status_reason, const EventRow& event) {
  return impl_->database->write("abandon a round", [&](Connection& connection) -> Status {
    const std::int64_t ended = end_of(round, event);
    MUSTER_TRY_STATUS(change_round(connection, round, "abandoned", ended));
    MUSTER_TRY_STATUS(move_job(connection, round.job, job_status, status_reason, ended));
    return insert_event(connection, event);
  });
}

Status Store::add_round_metrics(const std::string& job, std::int64_t round, std::int64_t attempt,
                                const Json& metrics) {
  return impl_->database->write("add a round's metrics", [&](Connection& connection) -> Status {
    const int changed = Query(connection,
                              "UPDATE rounds SET metrics = json_patch(metrics, ?) "
                              "WHERE job = ? AND round = ? AND attempt = ?",
                              object_text(metrics), job, round, attempt)
                            .run();
    if (changed == 1) return {};
    return unknown_round(name_of(job, round, attempt));
  });
}

Status Store::add_round_bytes(const std::string& job, std::int64_t round, std::int64_t attempt,
                              std::int64_t down, std::int64_t up) {
  return impl_->database->write("add a round's bytes", [&](Connection& connection) -> Status {
    const int changed = Query(connection,
                              "UPDATE rounds SET bytes_down = bytes_down + ?, "
                              "bytes_up = bytes_up + ? WHERE job = ? AND round = ? AND attempt = ?",
                              down, up, job, round, attempt)
                            .run();
    if (changed == 1) return {};
    return unknown_round(name_of(job, round, attempt));
  });
}

Result<std::vector<RoundRow>> Store::list_rounds(const std::string& job) const {
  return impl_->database->list<RoundRow>(
      "list rounds", round_of,
      "SELECT job, round, attempt, phase, reason, machine, seed, base, state, started_at_ms, "
      "ended_at_ms, metrics, bytes_down, bytes_up, rule_state FROM rounds WHERE job = ? "
      "ORDER BY round, attempt",
      job);
}

Result<std::optional<RoundRow>> Store::find_round(const std::string& job,
                                                  std::int64_t round) const {
  return impl_->database->find<RoundRow>(
      "find a round", round_of,
      "SELECT job, round, attempt, phase, reason, machine, seed, base, state, started_at_ms, "
      "ended_at_ms, metrics, bytes_down, bytes_up, rule_state FROM rounds WHERE job = ? AND round "
      "= ? "
      "ORDER BY attempt DESC LIMIT 1",
      job, round);
}

}  // namespace muster
