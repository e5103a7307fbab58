#pragma once

#include <string>

#include "core/base/error.h"
#include "server/cli/operator_client.h"

namespace muster::cli {

// Follows a job until it ends. One line a committed round, with its evaluation; on a terminal also
// a live line with a progress bar that is rewritten in place. With `json`, one JSON object a line.
// A server that is away for a while is waited for. Errors: kFailedPrecondition, reason "job_paused"
// or "job_stopped", when the job ended without finishing; kUnavailable when the server stays away
// for a minute.
Status watch_job(OperatorClient& client, const std::string& job, bool json);

}  // namespace muster::cli
