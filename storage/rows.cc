#include "storage/rows.h"

#include <fmt/format.h>

namespace muster {

std::string_view to_string(JobStatus status) {
  switch (status) {
    case JobStatus::kRunning:
      return "running";
    case JobStatus::kPaused:
      return "paused";
    case JobStatus::kStopped:
      return "stopped";
    case JobStatus::kFinished:
      return "finished";
  }
  return "running";
}

Result<JobStatus> job_status_from(std::string_view text) {
  for (const JobStatus status :
       {JobStatus::kRunning, JobStatus::kPaused, JobStatus::kStopped, JobStatus::kFinished}) {
    if (text == to_string(status)) return status;
  }
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("job status '{}' is none of running, paused, stopped, finished", printable(text)),
      "bad_status"};
}

}  // namespace muster
