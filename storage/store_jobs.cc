#include <fmt/format.h>

#include "storage/store_impl.h"

namespace muster {
namespace {

Result<JobRow> job_of(const Query& query) {
  JobRow row;
  row.job = query.text(0);
  MUSTER_TRY(row.description, query.json(1));
  const Result<JobStatus> status = job_status_from(query.text(2));
  if (!status) return query.damaged(2, "a job status");
  row.status = *status;
  row.status_reason = query.text(3);
  row.created_by = query.text(4);
  row.created_at_ms = query.integer(5);
  row.finished_at_ms = query.integer(6);
  MUSTER_TRY(row.initial_state, query.digest(7));
  MUSTER_TRY(row.global_state, query.digest(8));
  row.rounds_committed = query.integer(9);
  MUSTER_TRY(row.rule_state, query.optional_digest(10));
  return row;
}

bool is_end(JobStatus status) {
  return status == JobStatus::kStopped || status == JobStatus::kFinished;
}

Result<std::string> name_of(const Json& description) {
  const auto name = description.is_object() ? description.find("name") : description.end();
  if (!description.is_object() || name == description.end() || !name->is_string() ||
      name->get_ref<const std::string&>().empty()) {
    return Error{ErrorCode::kInvalidArgument, "a job's description has no name, wanted a text",
                 "bad_value"};
  }
  return name->get<std::string>();
}

}  // namespace

Result<JobStatus> status_of_job(Connection& connection, const std::string& job) {
  Query query(connection, "SELECT status FROM jobs WHERE job = ?", job);
  if (!query.next()) {
    return Error{ErrorCode::kNotFound, fmt::format("there is no job '{}'", printable(job)),
                 "job_unknown"};
  }
  const Result<JobStatus> status = job_status_from(query.text(0));
  if (!status) return query.damaged(0, "a job status");
  return status;
}

Status move_job(Connection& connection, const std::string& job, JobStatus status,
                const std::string& reason, std::int64_t at_ms) {
  const std::optional<std::int64_t> ended = is_end(status) ? std::optional(at_ms) : std::nullopt;
  Query(connection,
        "UPDATE jobs SET status = ?, status_reason = ?, finished_at_ms = ? "
        "WHERE job = ? AND status IN ('running', 'paused')",
        std::string(to_string(status)), reason, ended, job)
      .run();
  return {};
}

Result<std::string> Store::add_job(JobRow job, EventRow event) {
  MUSTER_TRY(const std::string name, name_of(job.description));
  const Status stored = impl_->database->write("add a job", [&](Connection& connection) -> Status {
    // Jobs are never deleted, so the lowest free number is one more than the highest.
    Query highest(connection, "SELECT coalesce(max(number), 0) FROM jobs WHERE name = ?", name);
    highest.next();
    const std::int64_t number = highest.integer(0) + 1;
    job.job = fmt::format("{}-{}", name, number);
    event.job = job.job;
    Query(connection,
          "INSERT INTO jobs (job, name, number, description, status, status_reason, "
          "created_by, created_at_ms, finished_at_ms, initial_state, global_state, "
          "rounds_committed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
          job.job, name, number, json_text(job.description), std::string(to_string(job.status)),
          job.status_reason, job.created_by, job.created_at_ms, null_if_zero(job.finished_at_ms),
          job.initial_state, job.initial_state)
        .run();
    return insert_event(connection, event);
  });
  if (!stored) return stored.error();
  return std::move(job.job);
}

Result<std::optional<JobRow>> Store::find_job(const std::string& job) const {
  return impl_->database->find<JobRow>(
      "find a job", job_of,
      "SELECT job, description, status, status_reason, created_by, created_at_ms, finished_at_ms, "
      "initial_state, global_state, rounds_committed, rule_state FROM jobs WHERE job = ?",
      job);
}

Result<std::vector<JobRow>> Store::list_jobs() const {
  return impl_->database->list<JobRow>(
      "list jobs", job_of,
      "SELECT job, description, status, status_reason, created_by, created_at_ms, finished_at_ms, "
      "initial_state, global_state, rounds_committed, rule_state FROM jobs "
      "ORDER BY created_at_ms, name, number");
}

Status Store::set_job_status(const std::string& job, JobStatus status, const std::string& reason,
                             const EventRow& event) {
  return impl_->database->write("set a job's status", [&](Connection& connection) -> Status {
    MUSTER_TRY(const JobStatus present, status_of_job(connection, job));
    if (is_end(present) && present != status) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("job '{}' is {} and cannot become {}; submit a new job",
                               printable(job), to_string(present), to_string(status)),
                   "job_ended"};
    }
    MUSTER_TRY_STATUS(move_job(connection, job, status, reason, event.at_ms));
    return insert_event(connection, event);
  });
}

Result<bool> Store::names_state(const Digest& state) const {
  return impl_->database->read("look for a state", [&](Connection& connection) -> Result<bool> {
    return Query(connection, "SELECT 1 FROM states WHERE digest = ? LIMIT 1", state.hex()).next();
  });
}

}  // namespace muster
