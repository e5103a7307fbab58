#pragma once

#include <cstdint>
#include <vector>

#include "certs/certificate.h"
#include "core/base/json.h"
#include "storage/rows.h"

// Rows of the store as the JSON that operators and auditors get (docs/protocol.md). Pure.
namespace muster {

// A job with its progress: `rounds` are all its attempts, `live` what the coordinator adds for a
// running job (else null). Time left is the mean duration of the committed rounds times the rounds
// to come.
Json describe_job(const JobRow& job, const std::vector<RoundRow>& rounds, const Json& live,
                  std::int64_t now_ms);
Json describe_round(const RoundRow& round);
// Who was invited, and what came of it: "accepted", "refused" or "missing".
Json describe_participants(const std::vector<ParticipantRow>& participants,
                           const std::vector<UpdateRow>& updates, std::int64_t attempt);
Json describe_refused(const std::vector<UpdateRow>& updates);
Json describe_evaluations(const std::vector<EvaluationRow>& evaluations);
Json describe_event(const EventRow& event);
Json describe_device(const DeviceRow& device);
Json describe_certificate(const Certificate& certificate);
// "unused", "used" or "expired"; never the secret, nor its hash.
Json describe_token(const TokenRow& token, std::int64_t now_ms);

}  // namespace muster
