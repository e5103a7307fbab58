#include "core/strategy/executors/population_based.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/strategy/executors/population_crew.h"
#include "core/train/settings.h"

namespace muster {
namespace {

Error bad_strategy(std::string message) {
  return {ErrorCode::kInvalidArgument, "PopulationBased: " + std::move(message), "bad_strategy"};
}

Status check(const PopulationBased& strategy, const StrategyTask& task) {
  if (task.data.train.size() == 0 || task.data.holdout.size() == 0) {
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("PopulationBased: there are {} training rows and {} held-out rows to "
                             "score members with, at least one of each is wanted",
                             task.data.train.size(), task.data.holdout.size()),
                 "no_data"};
  }
  if (strategy.population_size > kMostLineageEntries / strategy.generations) {
    return bad_strategy(fmt::format("{} members in {} generations are over {} in all",
                                    strategy.population_size, strategy.generations,
                                    kMostLineageEntries));
  }
  for (const char* path : {"epochs", "max_steps", "max_seconds"}) {
    if (!strategy.search_space.contains(path)) continue;
    return bad_strategy(
        fmt::format("search_space: \"{}\" cannot be searched, a generation has \"steps\"", path));
  }
  return {};
}

Json json_of(const Hyperparameters& values) {
  Json json = Json::object();
  for (const auto& [path, value] : values) json[path] = value;
  return json;
}

// The highest score; ties go to the lower place.
std::size_t best_of(const std::vector<Member>& members) {
  const auto best = std::ranges::max_element(members, {}, &Member::score);
  return static_cast<std::size_t>(best - members.begin());
}

// One fit, from generation to generation.
class PopulationRun {
 public:
  PopulationRun(const PopulationBased& strategy, const StrategyTask& task,
                const StrategyObserver& observer, PopulationCrew crew)
      : strategy_(strategy),
        task_(task),
        observer_(observer),
        crew_(std::move(crew)),
        local_(to_json(task.settings)),
        generation_(std::min(task.steps_done / strategy.steps, strategy.generations)) {}

  // Draws the first members.
  Status begin();
  bool done() const { return generation_ == strategy_.generations || time_is_up(); }
  Status next();
  Result<StrategyResult> finish() const;
  Error interrupted(Error error) const;

 private:
  // The best of the last complete generation.
  struct Best {
    std::shared_ptr<const StateDict> state;
    Member member;
    Metrics training;
    Metrics holdout;
  };

  bool time_is_up() const { return ends_ && task_.clock() >= *ends_; }
  std::uint64_t seed_of(std::string_view purpose, std::int64_t generation,
                        std::int64_t member) const {
    return derive_seed(task_.seed, {"population", purpose, fmt::format("{}", generation),
                                    fmt::format("{}", member)});
  }
  Result<std::optional<MemberTurn>> turn_of(std::size_t member);
  Result<std::vector<MemberOutcome>> train();
  void note(std::vector<MemberOutcome>& outcomes, std::vector<LineageEntry> lineage);
  std::vector<LineageEntry> lineage_of_generation() const;
  void succeed(const std::vector<Succession>& next);
  Json report() const;
  StrategyResult result() const;

  const PopulationBased& strategy_;
  const StrategyTask& task_;
  const StrategyObserver& observer_;
  PopulationCrew crew_;
  Json local_;
  std::int64_t generation_;  // that are complete
  std::optional<std::chrono::steady_clock::time_point> ends_;
  std::vector<Member> members_;
  std::vector<std::int64_t> parents_;  // of the members, in the generation before
  std::vector<std::shared_ptr<const StateDict>> states_;
  std::vector<LineageEntry> lineage_;
  Json generations_ = Json::array();
  std::optional<Best> best_;
};

Status PopulationRun::begin() {
  if (task_.settings.max_seconds > 0) {
    ends_ = task_.clock() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                std::chrono::duration<double>(task_.settings.max_seconds));
  }
  const auto start = std::make_shared<const StateDict>(task_.start->clone());
  for (std::int64_t id = 0; id < strategy_.population_size; ++id) {
    Random random(seed_of("sample", generation_, id));
    members_.push_back({.id = id, .hyperparameters = sample(strategy_.search_space, random)});
    parents_.push_back(id);
    states_.push_back(start);
  }
  // A path that leads to nothing does so for every member.
  MUSTER_TRY_IN("PopulationBased: search_space", [[maybe_unused]] const Json local,
                with_hyperparameters(local_, members_.front().hyperparameters));
  return {};
}

// Nothing: its hyperparameters do not go together, which is the member's failure.
Result<std::optional<MemberTurn>> PopulationRun::turn_of(std::size_t member) {
  Member& its = members_[member];
  MUSTER_TRY(const Json local, with_hyperparameters(local_, its.hyperparameters));
  Result<LocalSettings> settings = local_settings_from_json(local, "local");
  if (!settings) {
    its.failure = settings.error().message;
    return std::optional<MemberTurn>();
  }
  settings->epochs = strategy_.steps;
  settings->max_steps = strategy_.steps;
  settings->max_seconds = 0;
  return std::optional(MemberTurn{.settings = *std::move(settings),
                                  .seed = seed_of("train", generation_, its.id),
                                  .start = states_[member].get()});
}

Result<std::vector<MemberOutcome>> PopulationRun::train() {
  std::vector<MemberTurn> turns;
  std::vector<std::size_t> whose;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    MUSTER_TRY(std::optional<MemberTurn> turn, turn_of(i));
    if (!turn) continue;
    turns.push_back(*std::move(turn));
    whose.push_back(i);
  }
  MUSTER_TRY(std::vector<MemberOutcome> trained, crew_.train(turns));
  std::vector<MemberOutcome> outcomes(members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    outcomes[i].score = -std::numeric_limits<double>::infinity();
    outcomes[i].failure = members_[i].failure;
  }
  for (std::size_t k = 0; k < whose.size(); ++k) outcomes[whose[k]] = std::move(trained[k]);
  return outcomes;
}

Status PopulationRun::next() {
  for (Member& member : members_) member.failure.clear();
  MUSTER_TRY(std::vector<MemberOutcome> outcomes, train());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    members_[i].score = outcomes[i].score;
    members_[i].failure = outcomes[i].failure;
  }
  // Also after the last generation: all may have failed.
  MUSTER_TRY(const std::vector<Succession> next,
             next_generation(members_, strategy_.search_space, strategy_.exploit, strategy_.explore,
                             seed_of("next", generation_, 0)));
  ++generation_;
  note(outcomes, lineage_of_generation());
  succeed(next);
  return {};
}

std::vector<LineageEntry> PopulationRun::lineage_of_generation() const {
  std::vector<LineageEntry> entries;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    entries.push_back({.generation = generation_,
                       .member = members_[i].id,
                       .parent = parents_[i],
                       .score = members_[i].score,
                       .hyperparameters = members_[i].hyperparameters});
  }
  return entries;
}

// Keeps what the generation came to, and tells it.
void PopulationRun::note(std::vector<MemberOutcome>& outcomes, std::vector<LineageEntry> lineage) {
  lineage_.insert(lineage_.end(), lineage.begin(), lineage.end());
  Json scores = Json::array();
  Json failures = Json::object();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (outcomes[i].state) {
      states_[i] = std::make_shared<const StateDict>(*std::move(outcomes[i].state));
      scores.push_back(members_[i].score);
    } else {
      scores.push_back(nullptr);
      failures[fmt::format("{}", members_[i].id)] = members_[i].failure;
    }
  }
  const std::size_t best = best_of(members_);
  best_ = Best{.state = states_[best],
               .member = members_[best],
               .training = std::move(outcomes[best].training),
               .holdout = std::move(outcomes[best].holdout)};
  generations_.push_back({{"generation", generation_},
                          {"best", members_[best].id},
                          {"scores", std::move(scores)},
                          {"failures", std::move(failures)}});
  if (observer_.generation) {
    observer_.generation({.generation = generation_,
                          .generations = strategy_.generations,
                          .members = members_,
                          .lineage = std::move(lineage),
                          .best = members_[best].id});
  }
  if (!observer_.progress) return;
  const auto loss = best_->training.find("loss");
  observer_.progress({.steps_done = generation_ * strategy_.steps,
                      .steps_total = strategy_.generations * strategy_.steps,
                      .loss = loss == best_->training.end() ? 0 : loss->second});
}

void PopulationRun::succeed(const std::vector<Succession>& next) {
  const std::vector<std::shared_ptr<const StateDict>> before = states_;
  for (std::size_t i = 0; i < next.size(); ++i) {
    states_[i] = before[static_cast<std::size_t>(next[i].parent)];
    parents_[i] = next[i].parent;
    members_[i].hyperparameters = next[i].hyperparameters;
  }
}

Json PopulationRun::report() const {
  Json report = crew_.report();
  report["generations"] = generations_;
  if (!best_) return report;
  report["best"] = {{"member", best_->member.id},
                    {"generation", generation_},
                    {"score", best_->member.score},
                    {"hyperparameters", json_of(best_->member.hyperparameters)},
                    {"holdout", Json(best_->holdout)}};
  Json line = Json::array();
  for (const LineageEntry& entry : ancestry(lineage_, generation_, best_->member.id)) {
    line.push_back(to_json(entry));
  }
  report["ancestry"] = std::move(line);
  return report;
}

StrategyResult PopulationRun::result() const {
  return {.state = best_ ? best_->state->clone() : task_.start->clone(),
          .metrics = best_ ? best_->training : Metrics(),
          .steps = best_ ? generation_ * strategy_.steps : task_.steps_done,
          .complete = generation_ == strategy_.generations,
          .report = report()};
}

Result<StrategyResult> PopulationRun::finish() const {
  if (!best_ && !(generation_ == strategy_.generations)) {
    return Error{ErrorCode::kDeadlineExceeded,
                 "PopulationBased: the time was up before the first generation", "no_time"};
  }
  return result();
}

Error PopulationRun::interrupted(Error error) const {
  if (!is_worker_lost(error) || !observer_.interrupted) return error;
  StrategyResult last = result();
  last.complete = false;
  observer_.interrupted(last);
  return error;
}

}  // namespace

Json to_json(const LineageEntry& entry) {
  return {{"generation", entry.generation},
          {"member", entry.member},
          {"parent", entry.parent},
          {"score", std::isfinite(entry.score) ? Json(entry.score) : Json()},
          {"hyperparameters", json_of(entry.hyperparameters)}};
}

Result<StrategyResult> fit_population_based(StrategyContext& context,
                                            const PopulationBased& strategy,
                                            const StrategyTask& task,
                                            const StrategyObserver& observer) {
  const std::uint64_t bytes_before = context.bytes_moved();
  MUSTER_TRY_STATUS(check(strategy, task));
  MUSTER_TRY(PopulationCrew crew, PopulationCrew::create(context, task, strategy.min_workers));
  PopulationRun run(strategy, task, observer, std::move(crew));
  MUSTER_TRY_STATUS(run.begin());
  while (!run.done()) {
    if (Status next = run.next(); !next) return run.interrupted(std::move(next).error());
  }
  MUSTER_TRY(StrategyResult result, run.finish());
  result.bytes_moved = context.bytes_moved() - bytes_before;
  return result;
}

}  // namespace muster
