#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/random.h"
#include "server/coordinator.h"

namespace muster {
namespace {

protocol::Correction correction_of(const AggregationSettings& rule) {
  if (std::holds_alternative<Scaffold>(rule)) return {DriftCorrection::kScaffold, 0};
  if (const auto* dyn = std::get_if<FedDyn>(&rule)) return {DriftCorrection::kFedDyn, dyn->alpha};
  return {};
}

}  // namespace

void Coordinator::check_in(const DeviceRow& device, const protocol::CheckinRequest& request,
                           CheckinReply reply, std::function<bool()> gone) {
  Outbox outbox;
  {
    const std::lock_guard lock(mutex_);
    if (std::optional<protocol::Task> task = stopping_ ? std::nullopt : task_for(device.device)) {
      outbox.answers.push_back([reply = std::move(reply), task = *std::move(task)]() mutable {
        reply(std::move(task), {});
      });
    } else {
      // Tags that decide selection are the operator's, from the enrolment code, never the device's
      // own word.
      Candidate candidate{device.device, {device.tags.begin(), device.tags.end()}};
      WaitingDevice waiting{candidate, request.examples, now() + Time{request.wait_ms},
                            std::move(reply), std::move(gone)};
      if (auto earlier = waiting_.enter(std::move(waiting))) send_away(*std::move(earlier), outbox);
      if (request.examples > 0 && !stopping_) offer(candidate, outbox);
      const bool answer_now = request.wait_ms == 0 || stopping_;
      if (auto still = answer_now ? take_out(device.device) : std::nullopt)
        send_away(*std::move(still), outbox);
    }
  }
  outbox.flush();
  wake_.notify_all();
}

void Coordinator::offer(const Candidate& candidate, Outbox& outbox) {
  for (JobRun* run : runs_by_age()) {
    if (!waiting_.has(candidate.device)) return;
    if (Status offered = handle(*run, DeviceCheckedIn{candidate}, outbox); !offered) {
      parts_.log->error("job {}: {}", run->row.job, offered.error().message);
    }
  }
}

void Coordinator::send_away(WaitingDevice device, Outbox& outbox) {
  outbox.answers.push_back([reply = std::move(device.reply), away = pace(device.candidate.device)] {
    reply(std::nullopt, away);
  });
}

// Pace steering: the more devices there are, the wider they are spread; which device comes when is
// fixed by its name and the time.
Coordinator::Time Coordinator::pace(const DeviceId& device) const {
  const auto spread =
      static_cast<std::uint64_t>(200 + 5 * waiting_.size() + (stopping_ ? 2'000 : 0));
  const std::string instant = std::to_string(now().count());
  return Time{50 + static_cast<std::int64_t>(derive_seed(0, {"pace", device, instant}) % spread)};
}

std::optional<protocol::Task> Coordinator::task_for(const DeviceId& device) {
  for (const auto& [id, run] : runs_) {
    if (run->row.status != JobStatus::kRunning) continue;
    const auto task = run->tasks.find(device);
    if (run->machine && task != run->tasks.end() &&
        run->machine->verdict(device, now()) == UpdateVerdict::kAccept) {
      return training_task(*run, device, task->second, now());
    }
    if (!run->evaluation) continue;
    const auto pending = run->evaluation->pending.find(device);
    if (pending == run->evaluation->pending.end()) continue;
    if (!std::exchange(pending->second.handed_out, true))
      return evaluation_task(*run, pending->second.task, now());
    run->evaluation->pending.erase(pending);  // it had the task and came back without a result
  }
  return std::nullopt;
}

protocol::Task Coordinator::training_task(const JobRun& run, const DeviceId& device,
                                          const OpenTask& open, Time at) const {
  const AggregationSettings& rule = run.aggregation.rule;
  protocol::Task task;
  task.kind = protocol::TaskKind::kTrain;
  task.id = open.id;
  task.fit.job = run.row.job;
  task.fit.round = open.round;
  task.fit.model = run.model;
  task.fit.local = run.description.local;
  task.fit.seed = training_seed(run.description.seed, open.round, device);
  task.attempt = open.attempt;
  task.state = open.base;
  task.state_bytes = static_cast<std::int64_t>(run.state_bytes);
  task.max_update_bytes =
      static_cast<std::int64_t>(most_body_bytes(run.description.encoding, *run.layout));
  // The round's end is not the task's where tasks outlive their rounds.
  const Time deadline = run.asynchronous() ? at + run.description.round.deadline
                                           : run.machine->next_deadline().value_or(at);
  task.deadline_ms = (deadline - at).count();
  task.encoding = run.description.encoding;
  task.correction = correction_of(rule);
  if (std::holds_alternative<Scaffold>(rule) && run.row.rule_state) {
    task.control = run.row.rule_state;
    task.control_bytes =
        static_cast<std::int64_t>(parts_.states.size_of(*run.row.rule_state).value_or(0));
  }
  task.initial_loss = std::holds_alternative<QFedAvg>(rule);
  return task;
}

Result<std::uint64_t> Coordinator::update_bytes_limit(const std::string& job) const {
  const std::lock_guard lock(limits_mutex_);
  const auto found = update_bytes_.find(job);
  if (found == update_bytes_.end()) {
    return Error{ErrorCode::kNotFound, fmt::format("there is no job {}", job), "job_unknown"};
  }
  return found->second;
}

void Coordinator::remember_update_bytes(const std::string& job, std::uint64_t bytes) {
  const std::lock_guard lock(limits_mutex_);
  update_bytes_[job] = bytes;
}

void Coordinator::count_download(const std::string& device, const Digest& state,
                                 std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, run] : runs_) {
    if (run->row.status != JobStatus::kRunning) continue;
    const bool current = run->row.global_state == state || run->row.rule_state == state;
    const auto task = run->tasks.find(device);
    const bool trains = task != run->tasks.end() && (current || task->second.base == state);
    const bool evaluates = current && run->evaluation && run->evaluation->pending.contains(device);
    if (!trains && !evaluates) continue;
    if (run->machine) {
      run->bytes_down += static_cast<std::int64_t>(bytes);  // stored with the round's next step
    } else if (Status added = parts_.store.add_round_bytes(id, run->round.round, run->round.attempt,
                                                           static_cast<std::int64_t>(bytes), 0);
               !added) {
      parts_.log->error("job {}: {}", id, added.error().message);
    }
    return;
  }
}

std::string Coordinator::device_activity(const std::string& device) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, run] : runs_) {
    if (run->machine && run->tasks.contains(device) &&
        run->machine->verdict(device, now()) == UpdateVerdict::kAccept) {
      return fmt::format("training {} round {}", id, run->round.round);
    }
    if (run->evaluation && run->evaluation->pending.contains(device))
      return fmt::format("evaluating {}", id);
  }
  return waiting_.has(device) ? "waiting" : "";
}

}  // namespace muster
