#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/aggregate/update_check.h"
#include "core/base/error.h"
#include "core/protocol/messages.h"
#include "core/strategy/job.h"
#include "server/aggregation.h"
#include "server/clock.h"
#include "server/compute.h"
#include "server/held_states.h"
#include "server/job_run.h"
#include "server/rate_cap.h"
#include "server/waiting_room.h"
#include "storage/state_files.h"
#include "storage/store.h"
#include "storage/update_files.h"

namespace muster {

// Runs the jobs of one server: feeds check-ins, updates and the time to each job's round machine
// and carries out what it answers. Every step is in the store before anyone is told of it, so a
// server that is killed at any point goes on where it was.
//
// Order of calls: construct, `start` once (brings back the running jobs), any of the rest, `stop`
// once. All calls are safe from any thread (one mutex; disk writes of a step happen under it;
// replies are given after it is freed) and none waits for the network. The store, files and clock
// must outlive it.
class Coordinator {
 public:
  struct Parts {
    Store& store;
    const StateFiles& states;
    const UpdateFiles& updates;
    const Clock& clock;
    std::shared_ptr<spdlog::logger> log;
    UpdateLimits limits;
    std::uint64_t max_state_bytes = 4'000'000'000;
    std::function<void(const Error&)> fatal;  // the store cannot go on; called once, may not return
  };
  explicit Coordinator(Parts parts);
  ~Coordinator();

  Status start();
  // Answers every held check-in, finishes the running computation, stops the threads.
  void stop();

  // --- devices (coordinator_devices.cc) ---

  // Answers `reply` now or when there is work, at the latest after request.wait_ms. `gone` tells
  // that nobody listens any more.
  void check_in(const DeviceRow& device, const protocol::CheckinRequest& request,
                CheckinReply reply, std::function<bool()> gone);

  // The most bytes an update of this job may have; ended jobs too, whose devices may still ask for
  // a lost receipt. Never waits for the disk. Errors: kNotFound, reason "job_unknown".
  Result<std::uint64_t> update_bytes_limit(const std::string& job) const;

  struct UpdateTicket {
    std::optional<protocol::Receipt> receipt;  // it was accepted before: this is the answer
    // Else what the update must keep to.
    LayoutPtr layout;
    JobAggregation aggregation;
    UpdateLimits limits;
    // The round that counts it, and how far the task's lies back. In an asynchronous job another
    // round may have begun when it comes to that.
    std::int64_t round = 0;
    std::int64_t attempt = 1;
    std::int64_t staleness = 0;
    bool asynchronous = false;
    Digest global;  // the round's state
  };
  // Whether the device may send this update now. Changes nothing.
  // Errors, each with the reason that docs/protocol.md lists: job_unknown, round_unknown,
  // round_not_open, round_closed, not_selected, already_reported, stale_base, identity_mismatch;
  // kUnavailable: between two rounds of an asynchronous job.
  Result<UpdateTicket> examine_update(const std::string& device,
                                      const protocol::UpdateStatement& statement);

  // The state of a round that is under way, read once. Errors: as StateFiles::read.
  Result<std::shared_ptr<const StateDict>> global_state(const Digest& digest) {
    return held_.get(digest);
  }

  // Takes an update that was checked and whose file is durable in the UpdateFiles. When this
  // returns a receipt the update is durable and counted. Errors: as examine_update (the round may
  // have closed meanwhile); the caller removes the file then.
  //   place  asynchronous: makes the file durable there, once it is known which round counts it;
  //          called under the mutex, so what takes time (the flush) comes before
  using PlaceUpdate = std::function<Status(const UpdateFiles::Key&)>;
  Result<protocol::Receipt> accept_update(UpdateRow update,
                                          const protocol::UpdateStatement& statement,
                                          const PlaceUpdate& place = {});
  // Records why an update was not taken.
  void refuse_update(UpdateRow update, const Error& why);

  Status take_result(const std::string& device, const std::string& task,
                     const protocol::TaskResult& result);

  // A state left for a device; counted to the round that it is for.
  void count_download(const std::string& device, const Digest& state, std::uint64_t bytes);

  // --- operators (coordinator_jobs.cc) ---

  // Makes the initial state, stores the job and begins its first round. Errors: kInvalidArgument,
  // reason "bad_job".
  Result<std::string> submit(const JobDescription& description, const std::string& actor);
  // Errors: kNotFound "job_unknown"; kFailedPrecondition "job_ended".
  Status stop_job(const std::string& job, const std::string& actor);
  // What only the running server knows of a job: phase, who is in, who is awaited, why it waits.
  // Null for a job that does not run.
  Json live_job(const std::string& job) const;
  // "waiting", "training mnist-1 round 3", ...; empty for a device that is away.
  std::string device_activity(const std::string& device) const;

 private:
  using Time = std::chrono::milliseconds;

  // Answers to give once the mutex is free.
  struct Outbox {
    std::vector<std::function<void()>> answers;
    void flush() {
      for (auto& answer : answers) answer();
      answers.clear();
    }
  };

  // coordinator.cc
  void run_timer(std::stop_token stop);
  void tick(Outbox& outbox);
  Status step(JobRun& run, Outbox& outbox);
  Status pause_unrunnable(const JobRow& row, const Error& why);
  std::optional<Time> next_wake() const;
  Time pace(const DeviceId& device) const;
  Status resume_jobs();

  // coordinator_devices.cc
  void send_away(WaitingDevice device, Outbox& outbox);
  std::optional<protocol::Task> task_for(const DeviceId& device);
  protocol::Task training_task(const JobRun& run, const DeviceId& device, const OpenTask& open,
                               Time now) const;
  protocol::Task evaluation_task(const JobRun& run, const std::string& id, Time now) const;

  // coordinator_updates.cc
  Result<UpdateTicket> examine_locked(const std::string& device,
                                      const protocol::UpdateStatement& statement);
  // The accepted update that the statement repeats or contradicts, if any.
  Result<std::optional<UpdateRow>> earlier_update(const JobRun* run, const std::string& device,
                                                  const protocol::UpdateStatement& statement) const;
  Status check_open(const JobRun& run, const std::string& device,
                    const protocol::UpdateStatement& statement) const;
  // The same of a job whose rounds are buffers.
  Status check_open_asynchronous(const JobRun& run, const std::string& device,
                                 const protocol::UpdateStatement& statement) const;
  void offer(const Candidate& candidate, Outbox& outbox);

  // coordinator_rounds.cc
  // The next round, or the next attempt at one that was abandoned.
  Status begin_round(JobRun& run, Outbox& outbox);
  // Makes everyone who waits a candidate of the round.
  Status offer_all_waiting(JobRun& run, Outbox& outbox);
  // Gives the event to the job's machine, stores what changed, and carries out the actions. After
  // an error of the store the machine is as before and the next tick tries again.
  Status handle(JobRun& run, const RoundEvent& event, Outbox& outbox);
  // `next` is the machine after the event: it becomes the run's once the store has the change.
  Status carry_out(JobRun& run, const RoundMachine& next, const RoundAction& action,
                   Outbox& outbox);
  Status invite(JobRun& run, const RoundMachine& next, const InviteDevices& action, Outbox& outbox);
  // Hands the waiting devices among those that are to train their task.
  void give_tasks(JobRun& run, Outbox& outbox);
  Status aggregate(JobRun& run, const RoundMachine& next, const StartAggregation& action);
  Status commit(JobRun& run, const RoundMachine& next, const CommitRound& action, Outbox& outbox);
  Status abandon(JobRun& run, const RoundMachine& next, const AbandonRound& action, Outbox& outbox);
  // The open attempt's row as it must be stored with `next`.
  RoundRow round_row(const JobRun& run, const RoundMachine& next) const;
  // Gives the machine the result that the compute thread left in `run.aggregated`; the timer
  // repeats it after a failure of the store.
  Status take_aggregate(JobRun& run, Outbox& outbox);
  void aggregation_done(const std::string& job, std::int64_t round, std::int64_t attempt,
                        Result<AggregatedRound> result);
  // The round is over: nobody needs its update files and its state any more.
  void let_go_of_round(const JobRun& run);

  // coordinator_evaluation.cc
  // The rows that ask `devices` to evaluate the state that is about to be committed; none when the
  // job wants none.
  Result<std::vector<EvaluationRow>> evaluations_to_ask(const JobRun& run,
                                                        const std::vector<DeviceId>& devices) const;
  // After the commit that stored them.
  void begin_evaluation(JobRun& run, const std::vector<EvaluationRow>& asked, Outbox& outbox);
  void evaluate_centrally(const JobRun& run);
  void central_evaluation_done(const std::string& job, std::int64_t round, const Json& metrics);
  // Stores what has come of the round's evaluation. With `now_or_never` it waits for nobody any
  // more. Ends the job when that was its last step.
  Status settle_evaluation(JobRun& run, bool now_or_never = false);
  Status finish_if_done(JobRun& run);

  // Logs a step that failed and has the timer leave the job alone for a moment, then try it again.
  void retry_later(JobRun& run, const Error& why);
  // The device is no machine's candidate any more.
  void withdraw(const DeviceId& device);
  // The device leaves the waiting room and every machine's candidates; nullopt when it does not
  // wait.
  std::optional<WaitingDevice> take_out(const DeviceId& device);
  static void give(WaitingDevice device, protocol::Task task, Outbox& outbox);
  // Running jobs, the one whose round began first in front.
  std::vector<JobRun*> runs_by_age();
  void remember_update_bytes(const std::string& job, std::uint64_t bytes);
  JobRun* find_run(const std::string& job);
  const JobRun* find_run(const std::string& job) const;
  EventRow event(std::string kind, const JobRun* run, std::string actor = {},
                 Json details = Json::object()) const;
  Time now() const { return parts_.clock.steady(); }

  Parts parts_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::string, std::unique_ptr<JobRun>> runs_;  // running jobs by id
  WaitingRoom waiting_;
  mutable std::mutex limits_mutex_;  // of the next; never held together with a wait
  std::map<std::string, std::uint64_t> update_bytes_;  // at most, of every job, by id
  bool stopping_ = false;
  RateCap refusals_{200};  // records of refused updates a second
  HeldStates held_;
  std::unique_ptr<ComputeThread> compute_;
  std::jthread timer_;
};

}  // namespace muster
