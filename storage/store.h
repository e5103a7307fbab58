#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "storage/rows.h"

namespace muster {

// The history of one server in one SQLite file: devices, tokens, jobs, rounds, participants,
// updates, evaluations, events (docs/storage.md).
//
// Opened once by the server and lives as long as it. WAL mode, synchronous=FULL, foreign keys on;
// one connection does all writes (BEGIN IMMEDIATE) and checkpoints, another reads. Every method is
// safe to call from any thread and returns when the change is durable. Each method is one
// transaction: after an error nothing changed. A read that fails is an error, never an empty
// answer. The store has no clock: where a change needs the time, it is that of its event. Errors of
// all methods: kUnavailable, reason "store_busy" (another program holds the file) or
// "store_unavailable" (read-only disk, no permission); kResourceExhausted, "disk_full" (507);
// kDataLoss, "store_damaged", or "store_sync_failed" when a flush to the disk failed: no write is
// taken any more, the server has to stop and start anew; kInvalidArgument, "bad_value" or
// "bad_json" (a value that its column does not admit, text that is not UTF-8 in JSON); and what is
// named at each.
class Store {
 public:
  // Opens `file`, or makes it when `create`; migrates an older schema. Holds `<file>.lock` until
  // destroyed.
  //   busy_timeout  how long a call waits for another program that holds the file (sqlite3, a
  //   back-up)
  // Errors: kNotFound, reason "store_missing" (no such file); kFailedPrecondition "locked" when
  // another server has it open, "schema_newer" when a newer Muster wrote it, "foreign_database"
  // when another program did, "insecure_folder" when others may write to the folder or the file,
  // "no_wal" on a file system without shared memory.
  static Result<std::unique_ptr<Store>> open(
      const std::filesystem::path& file, bool create = false,
      std::chrono::milliseconds busy_timeout = std::chrono::seconds(5));
  ~Store();

  // kDataLoss, "store_sync_failed", once a flush failed: nobody knows what is on the disk then, so
  // the process has to end.
  Status check_usable() const;

  // --- enrolment ---
  // New tokens, unused. Errors: kAlreadyExists, reason "token_exists"; kInvalidArgument,
  // "token_used".
  Status add_tokens(const std::vector<TokenRow>& tokens, const EventRow& event);
  Result<std::optional<TokenRow>> find_token(const Digest& secret_hash) const;
  Result<std::vector<TokenRow>> list_tokens() const;
  // Marks the token used at device.enrolled_at_ms and inserts the device, with the token's tags
  // added to its own, in one transaction. A token is expired from its expires_at_ms on. After
  // "device_exists" the token is still unused. Errors: kUnauthenticated, reason "token_unknown",
  // "token_used", "token_expired"; kAlreadyExists, reason "device_exists".
  Status redeem_token(const Digest& secret_hash, const DeviceRow& device, const EventRow& event);

  // --- devices ---
  Result<std::optional<DeviceRow>> find_device(const std::string& device) const;
  Result<std::vector<DeviceRow>> list_devices() const;
  // A device has been seen; the time does not go back. Errors: kNotFound, reason "device_unknown".
  Status touch_device(const std::string& device, std::int64_t at_ms, std::int64_t examples);

  // --- jobs ---
  // Gives the job its id (description["name"] and the lowest free number) and stores it and the
  // event under that id, with no round committed and the initial state as the global one; returns
  // the id. job.job and event.job are ignored. Errors: kInvalidArgument, reason "bad_value" (no
  // name).
  Result<std::string> add_job(JobRow job, EventRow event);
  Result<std::optional<JobRow>> find_job(const std::string& job) const;
  Result<std::vector<JobRow>> list_jobs() const;
  // Errors: kNotFound, reason "job_unknown"; kFailedPrecondition, "job_ended": it is stopped or
  // finished, for good (naming the status that it has already is no error).
  Status set_job_status(const std::string& job, JobStatus status, const std::string& reason,
                        const EventRow& event);

  // Whether some job began with or committed this state, or keeps it for its aggregation.
  Result<bool> names_state(const Digest& state) const;

  // --- rounds; every change of a round's machine travels in the transaction of its event ---
  // All that change a round: kNotFound, reason "round_unknown"; kFailedPrecondition, "round_closed"
  // (committed or abandoned already). They save phase, reason and machine, add `metrics` key by
  // key, and raise the byte counts to those given when these are higher; seed, base and start stay
  // as begun. Errors of begin_round: kNotFound, "job_unknown"; kAlreadyExists, "round_exists".
  //   carried_over  participants whose tasks were given in an earlier round (asynchronous jobs)
  Status begin_round(const RoundRow& round, const EventRow& event,
                     const std::vector<ParticipantRow>& carried_over = {});
  Status save_selection(const RoundRow& round, const std::vector<ParticipantRow>& participants,
                        const EventRow& event);
  // The accepted update and the machine that counted it.
  // Errors: kFailedPrecondition, reason "not_selected": the device is no participant of this
  // attempt; kAlreadyExists, reason "already_reported": there is an accepted update of this device
  // in this attempt.
  Status accept_update(const UpdateRow& update, const RoundRow& round, const EventRow& event);
  // Its job, round and device need not exist.
  Status refuse_update(const UpdateRow& update, const EventRow& event);
  // Saves phase, reason and machine of a round that goes on.
  Status save_round(const RoundRow& round);
  // The round is committed and the job's global state moves to round.state and its rule state to
  // round.rule_state (none: nothing is kept); the job ends when
  // `job_status` says so, but one that an operator stopped meanwhile stays stopped. Ends at
  // round.ended_at_ms, or when that is 0, at the event. Errors: kInternal (no round.state);
  // kFailedPrecondition, reason "round_out_of_order" (the job is past this round).
  // `asked` are the evaluations of the new state that devices will be asked for.
  Status commit_round(const RoundRow& round, JobStatus job_status, const std::string& status_reason,
                      const EventRow& event, const std::vector<EvaluationRow>& asked = {});
  Status abandon_round(const RoundRow& round, JobStatus job_status,
                       const std::string& status_reason, const EventRow& event);
  // Adds to a round's metrics and byte counts, also after it ended. A metric given anew replaces
  // the old one, null removes it. Errors: kNotFound, reason "round_unknown".
  Status add_round_metrics(const std::string& job, std::int64_t round, std::int64_t attempt,
                           const Json& metrics);
  Status add_round_bytes(const std::string& job, std::int64_t round, std::int64_t attempt,
                         std::int64_t down, std::int64_t up);

  Result<std::vector<RoundRow>> list_rounds(const std::string& job) const;  // by round, attempt
  Result<std::optional<RoundRow>> find_round(const std::string& job,
                                             std::int64_t round) const;  // its last attempt
  Result<std::vector<ParticipantRow>> list_participants(const std::string& job, std::int64_t round,
                                                        std::int64_t attempt) const;
  Result<std::vector<UpdateRow>> list_updates(
      const std::string& job, std::int64_t round) const;  // accepted and refused, by time
  // The accepted ones of one attempt, in order of their devices.
  Result<std::vector<UpdateRow>> list_accepted_updates(const std::string& job, std::int64_t round,
                                                       std::int64_t attempt) const;
  Result<std::optional<UpdateRow>> find_accepted_update(const std::string& job, std::int64_t round,
                                                        std::int64_t attempt,
                                                        const std::string& device) const;
  // The accepted one that came of a task of this device, in whichever round it was counted.
  Result<std::optional<UpdateRow>> find_update_of_task(const std::string& task,
                                                       const std::string& device) const;

  // --- federated evaluation ---
  Status add_evaluations(const std::vector<EvaluationRow>& asked);
  // Fills in time (not 0), examples and metrics of the row with this task and device.
  // Errors: kNotFound, reason "task_unknown" (no such task of this device); kAlreadyExists,
  // "already_answered".
  Status answer_evaluation(const EvaluationRow& answered);
  // By its task's id, whoever it belongs to.
  Result<std::optional<EvaluationRow>> find_evaluation(const std::string& task) const;
  Result<std::vector<EvaluationRow>> list_evaluations(const std::string& job,
                                                      std::int64_t round) const;

  // --- events ---
  Status add_event(const EventRow& event);
  // In order of their sequence numbers, those after `after_sequence`, at most `limit`; of all jobs
  // when `job` is empty.
  Result<std::vector<EventRow>> list_events(const std::string& job, std::int64_t after_sequence,
                                            std::int64_t limit) const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
