#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/base/bytes.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/train/drift_correction.h"
#include "core/train/local_trainer.h"

// The bodies that travel between devices, operators and the server. Each has `to_json` and a strict
// reader; the calls they belong to are in docs/protocol.md. Every reader refuses unknown fields and
// values out of range with kInvalidArgument, reason "bad_field"; a request of another protocol
// version with reason "version_unsupported" and the list of supported ones, whatever else is in it.
// Every field of a message is required.
//
// Ranges that all of them share: device and job names and task ids are names (core/base/names.h),
// rounds 1 to 1,000,000, attempts 1 to 1,000, counts 0 to 2^53, digests 64 lower-case hexadecimal
// digits, PEM texts 1 byte to 64 KiB.
namespace muster::protocol {

inline constexpr std::int64_t kVersion = 1;

// POST /v1/enroll, request: {"protocol": 1, "secret": "...", "name": "device-01", "request":
// "-----BEGIN CERTIFICATE REQUEST..."}
struct EnrollRequest {
  std::string secret;   // the secret part of the enrolment code, 1 to 256 bytes
  std::string name;     // the device id asked for; unique on this server
  std::string request;  // PKCS#10, PEM; only its public key is used
};
// Response: {"device": "device-01", "certificate": PEM, "authority": PEM, "api_port": 8443}
struct EnrollResponse {
  std::string device;
  std::string certificate;  // leaf, PEM
  std::string authority;    // the CA certificate, PEM
  std::int64_t api_port = 0;
};

// POST /v1/checkin, request: {"protocol": 1, "tags": ["arm"], "examples": 6000, "wait_ms": 20000}
struct CheckinRequest {
  std::set<std::string> tags;  // at most 64 names
  std::int64_t examples = 0;   // training examples held; 0 declines training
  std::int64_t wait_ms = 0;    // how long the server may hold the answer back, 0 to 60000
};
// Response: 200 with a Task, or 204 with Retry-After (seconds, may have a fraction in
// Muster-Retry-After-Ms).

enum class TaskKind { kTrain, kEvaluate };

// What corrects client drift in this job: {"method": "none"}, {"method": "SCAFFOLD"} or {"method":
// "FedDyn", "alpha": 0.1}.
struct Correction {
  DriftCorrection method = DriftCorrection::kNone;
  // FedDyn, over 0, to 1e6; it is also the mu of the proximal term: the agent trains with it
  // whatever fit.local.mu says.
  double alpha = 0;
};

// One piece of work for one device. Times are durations still to run, so that no clocks need to
// agree.
struct Task {
  TaskKind kind = TaskKind::kTrain;
  std::string id;  // unguessable, the same for the same device and round however often it asks
  FitTask
      fit;  // job, round, model, local settings (with mu), seed (in JSON decimal text, all 64 bits)
  std::int64_t attempt = 1;
  Digest state;                  // GET /v1/models/{state}
  std::int64_t state_bytes = 0;  // length of that file
  std::int64_t max_update_bytes = 0;
  std::int64_t deadline_ms = 0;
  // The rest is for training; an evaluate task has the defaults.
  UpdateEncoding encoding;  // of the update
  Correction correction;
  // SCAFFOLD: the rule state with the server's control variate, slot "c"
  // (core/aggregate/rule_state.h), at GET /v1/models/{control}, and its length; none before there
  // is one, and for the other methods (null and 0).
  std::optional<Digest> control;
  std::int64_t control_bytes = 0;
  bool initial_loss = false;  // the update's metrics are to have "initial_loss" (q-FedAvg)
};

// The metric that a task with `initial_loss` asks for: the mean loss of the global state over the
// device's training examples.
inline constexpr std::string_view kInitialLoss = "initial_loss";

// What a device says and signs about its update. The JSON text travels base64 in the header
// Muster-Update; the signature (over "muster-update-v1\n" and that JSON text) base64 in
// Muster-Signature; the body is the update in the task's encoding (docs/formats/update.md).
struct UpdateStatement {
  std::string job;
  std::int64_t round = 0;
  std::int64_t attempt = 1;
  std::string task;  // Task::id
  Digest base;       // global state it was trained from
  Digest digest;     // of the body as it travels
  std::int64_t examples = 0;
  std::int64_t steps = 0;
  Metrics metrics;
};
// The JSON text of a statement: no white space, keys in byte order, so equal statements give equal
// bytes.
std::string statement_text(const UpdateStatement& statement);
std::string update_signing_input(std::string_view statement_json);

// 200 to an update: the same for every repetition.
struct Receipt {
  std::string job;
  std::int64_t round = 0;
  std::string device;
  Digest digest;
  std::int64_t examples = 0;
  std::int64_t accepted_at_ms = 0;  // Unix time of the server
};

// POST /v1/tasks/{id}/result for an evaluate task: {"examples": 600, "metrics": {"loss": 0.5,
// "accuracy": 0.8}}
using TaskResult = EvaluateResult;

// application/problem+json (RFC 9457): {"type": "urn:muster:problem:<code>", "title",
// "status", "detail", "code", "request_id"}; "title" is the status in words (RFC 9110 section 15)
// and follows from it, as "type" does from the code.
struct Problem {
  int status = 500;    // 400 to 599
  std::string code;    // stable word, a name: "round_closed"
  std::string detail;  // one sentence: what was wrong, what was expected
  std::string request_id;
};

// The reason phrase of a 4xx or 5xx status (RFC 9110 section 15, RFC 4918, RFC 6585): a problem's
// title.
std::string_view title_of(int status);

Json to_json(const EnrollRequest& message);
Json to_json(const EnrollResponse& message);
Json to_json(const CheckinRequest& message);
Json to_json(const Task& message);
Json to_json(const UpdateStatement& message);
Json to_json(const Receipt& message);
Json to_json(const TaskResult& message);
Json to_json(const Problem& message);

Result<EnrollRequest> enroll_request_from_json(const Json& json);
Result<EnrollResponse> enroll_response_from_json(const Json& json);
Result<CheckinRequest> checkin_request_from_json(const Json& json);
Result<Task> task_from_json(const Json& json);
Result<UpdateStatement> update_statement_from_json(const Json& json);
Result<Receipt> receipt_from_json(const Json& json);
Result<TaskResult> task_result_from_json(const Json& json);
Result<Problem> problem_from_json(const Json& json);

}  // namespace muster::protocol
