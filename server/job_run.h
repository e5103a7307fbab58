#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/round/round_machine.h"
#include "core/strategy/job.h"
#include "core/strategy/job_seeds.h"
#include "core/tensor/state.h"
#include "core/train/data/dataset.h"
#include "server/aggregation.h"
#include "storage/rows.h"
#include "storage/store.h"

namespace muster {

// The evaluation of a committed round's state: by its devices, and on the server's test data.
struct RoundEvaluation {
  std::int64_t round = 0;
  std::int64_t attempt = 1;
  Digest state;
  std::chrono::milliseconds expires_at{0};  // steady; then what has not come is not waited for

  // Asked of devices and not answered. A task is handed out once: a device that checks in again
  // without a result could not do it.
  struct Pending {
    std::string task;
    bool handed_out = false;
  };
  std::map<DeviceId, Pending> pending;
  bool mean_is_due = false;     // the devices' mean is not in the round's metrics yet
  bool central_is_due = false;  // nor is the server's own
  std::optional<Json> central;  // what the compute thread found, until it is stored

  bool settled() const { return !mean_is_due && !central_is_due; }
};

// A training task that a device was given and has not answered.
struct OpenTask {
  std::string id;
  // Where it was given: the round under way, or, in an asynchronous job, one before it.
  std::int64_t round = 0;
  std::int64_t attempt = 1;
  Digest base;  // the global state to train from
};

// One running job as the coordinator holds it: its rows as they are in the store, and the machine
// of the attempt that is under way. Data only; the coordinator changes it under its mutex, and only
// after the store has the change.
struct JobRun {
  JobRow row;
  JobDescription description;
  Json model;  // resolved: {"graph": ...} or {"json": ...}
  LayoutPtr layout;
  std::uint64_t state_bytes = 0;
  JobAggregation aggregation;
  std::shared_ptr<const Dataset> test_data;  // null when the job names none

  RoundRow round;                       // the attempt under way
  std::optional<RoundMachine> machine;  // none between rounds and when all are committed
  std::map<DeviceId, OpenTask> tasks;   // of the invited devices
  std::optional<Result<AggregatedRound>>
      aggregated;  // what the compute thread made of it, until it is committed
  std::int64_t bytes_down = 0, bytes_up = 0;  // of this attempt, not stored yet

  std::optional<RoundEvaluation> evaluation;  // of the last committed round
  bool offer_again = false;                   // a step failed: waiting devices may be no candidates
  std::chrono::milliseconds retry_at{0};      // steady; the timer leaves the job alone until then

  const Federated& strategy() const { return std::get<Federated>(description.strategy); }
  bool asynchronous() const { return description.round.asynchronous; }
  bool all_committed() const { return row.rounds_committed >= strategy().rounds; }
};

// The parts of a run that follow from the job itself: model, layout, test data.
// Errors: kInvalidArgument, reason "bad_job": model that does not fit, state over the limit; reason
// "bad_test_data": it cannot be read, or does not fit the model (the message may quote the file).
Result<std::unique_ptr<JobRun>> make_job_run(JobRow row, std::uint64_t max_state_bytes);

// The initial global state of a job, from its seed alone.
Result<StateDict> initial_state(const JobDescription& description);

// A job as the store has it, brought back after a restart: its open attempt with machine,
// participants, and unanswered evaluations.
Result<std::unique_ptr<JobRun>> resume_job_run(const Store& store, JobRow row,
                                               std::uint64_t max_state_bytes,
                                               std::chrono::milliseconds now);

// The most bytes that an update of a job may have, whether it runs or has ended.
// Errors: of a description that this build does not take.
Result<std::uint64_t> most_update_bytes(const JobRow& row);

// The tasks of a round's participants.
Result<std::map<DeviceId, OpenTask>> tasks_of(const Store& store, const RoundRow& round,
                                              const std::vector<ParticipantRow>& participants);

// Asynchronous: the participants of the round before whose tasks are still open and go on in
// `next`; nobody whose update would be staler than the rule takes, and nobody where the attempt
// before was abandoned.
Result<std::vector<ParticipantRow>> carried_over(const Store& store, const JobDescription& job,
                                                 const RoundRow& next);

}  // namespace muster
