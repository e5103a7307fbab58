#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/json.h"

// One struct a table of the database; docs/storage.md describes every column for someone who opens
// the file with sqlite3. Times are Unix milliseconds of the server's clock, digests SHA-256.
namespace muster {

struct TokenRow {
  Digest secret_hash;  // the secret itself is never stored
  std::string batch;   // codes made by one command share it
  std::int64_t created_at_ms = 0;
  std::int64_t expires_at_ms = 0;
  std::vector<std::string> tags;  // given to the device that redeems it
  std::string created_by;         // operator
  std::optional<std::int64_t> used_at_ms;
  std::string used_by;  // device
  bool operator==(const TokenRow&) const = default;
};

struct DeviceRow {
  std::string device;           // its name, unique
  std::string certificate;      // PEM
  std::string public_key_hash;  // hex SHA-256 of the public key (SubjectPublicKeyInfo, DER)
  std::vector<std::string> tags;
  std::int64_t enrolled_at_ms = 0;
  std::int64_t last_seen_at_ms = 0;
  std::int64_t examples = 0;  // as it said at its last check-in
  bool operator==(const DeviceRow&) const = default;
};

enum class JobStatus { kRunning, kPaused, kStopped, kFinished };
std::string_view to_string(JobStatus status);
Result<JobStatus> job_status_from(std::string_view text);

struct JobRow {
  std::string job;   // id: name and a number, "fashion-mnist-1"
  Json description;  // with every default (core/strategy/job.h)
  JobStatus status = JobStatus::kRunning;
  std::string status_reason;  // one sentence
  std::string created_by;
  std::int64_t created_at_ms = 0;
  std::int64_t finished_at_ms = 0;  // 0: not yet
  Digest initial_state;
  Digest global_state;  // of the last committed round, or the initial one
  std::int64_t rounds_committed = 0;
  // What the aggregation keeps from the last committed round for the next; none: nothing.
  std::optional<Digest> rule_state;
  bool operator==(const JobRow&) const = default;
};

struct RoundRow {
  std::string job;
  std::int64_t round = 0;            // from 1
  std::int64_t attempt = 1;          // from 1; each attempt has its row
  std::string phase;                 // selecting, training, aggregating, committed, abandoned
  std::string reason;                // why it waits, ended or was abandoned
  Json machine;                      // RoundMachine::save, for going on after a restart
  std::uint64_t seed = 0;            // of the selection
  Digest base;                       // global state trained from
  std::optional<Digest> state;       // global state committed
  std::optional<Digest> rule_state;  // committed with it; none: the aggregation keeps nothing
  std::int64_t started_at_ms = 0;
  std::int64_t ended_at_ms = 0;   // 0: not yet
  Json metrics = Json::object();  // train_loss, test_loss, test_accuracy, eval_loss, eval_accuracy
  std::int64_t bytes_down = 0;    // states served to its participants
  std::int64_t bytes_up = 0;      // update bodies taken
  bool operator==(const RoundRow&) const = default;
};

struct ParticipantRow {
  std::string job;
  std::int64_t round = 0;
  std::int64_t attempt = 1;
  std::string device;
  std::string task;  // id of its training task
  std::int64_t invited_at_ms = 0;
  // A task that was still open when its round ended and is carried over into this one: where it was
  // given. 0 and 0: here.
  std::int64_t began_round = 0;
  std::int64_t began_attempt = 0;
  bool operator==(const ParticipantRow&) const = default;
};

struct UpdateRow {
  std::string job;
  std::int64_t round = 0;
  std::int64_t attempt = 1;
  std::string device;
  std::optional<Digest> digest;  // of the body; none when it was refused before the body was read
  std::int64_t bytes = 0;
  std::int64_t examples = 0;
  std::int64_t steps = 0;
  Json metrics = Json::object();
  std::int64_t received_at_ms = 0;
  bool accepted = false;
  std::string reason;     // a refused update's stable word ("non_finite") ...
  std::string detail;     // ... and sentence
  std::string statement;  // the signed JSON, as sent
  std::string signature;  // base64
  // Global states committed since the one it was trained from: round - staleness is the round of
  // its task.
  std::int64_t staleness = 0;
  bool operator==(const UpdateRow&) const = default;
};

struct EvaluationRow {
  std::string job;
  std::int64_t round = 0;  // the committed round whose state was evaluated
  std::string device;
  std::string task;
  std::int64_t asked_at_ms = 0;
  std::int64_t answered_at_ms = 0;  // 0: not yet
  std::int64_t examples = 0;
  Json metrics = Json::object();
  bool operator==(const EvaluationRow&) const = default;
};

// Append-only record of what happened, for people; the audited log builds on it.
struct EventRow {
  std::int64_t sequence = 0;  // given by the database
  std::int64_t at_ms = 0;
  std::string kind;  // "device_enrolled", "round_committed", "update_refused", ...
  std::string job;   // empty where it concerns none
  std::int64_t round = 0;
  std::string actor;  // device or operator; empty for the server itself
  Json details = Json::object();
  bool operator==(const EventRow&) const = default;
};

}  // namespace muster
