#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "storage/database.h"
#include "storage/store.h"

namespace muster {

class Store::Impl {
 public:
  explicit Impl(std::unique_ptr<Database> opened) : database(std::move(opened)) {}
  const std::unique_ptr<Database> database;
};

// Pieces of transactions that several parts of the store use; each inside a Database::write.

Status insert_event(Connection& connection, const EventRow& event);

// Errors: kNotFound, reason "job_unknown".
Result<JobStatus> status_of_job(Connection& connection, const std::string& job);

// Moves a job to a status unless it is stopped or finished; `at_ms` is its end where the status is
// one.
Status move_job(Connection& connection, const std::string& job, JobStatus status,
                const std::string& reason, std::int64_t at_ms);

void insert_evaluations(Connection& connection, const std::vector<EvaluationRow>& asked);

// Errors: kInternal, reason "wrong_round": a row is of another attempt than `round`.
Status insert_participants(Connection& connection, const RoundRow& round,
                           const std::vector<ParticipantRow>& participants);

// Saves an open round in a phase that goes on. Errors: as Store says for all that change a round.
Status save_open_round(Connection& connection, const RoundRow& round);

}  // namespace muster
