#include "core/strategy/custom/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/names.h"

namespace muster {
namespace {

// The program's code is the boundary: what it throws ends here.
Result<StrategyResult> call(const CoordinatorRegistry::Coordinator& coordinator,
                            StrategyContext& context, const Json& config, const StrategyTask& task,
                            const StrategyObserver& observer) {
  try {
    return coordinator(context, config, task, observer);
  } catch (const std::exception& thrown) {
    return Error{ErrorCode::kInternal, "it threw: " + printable_sentence(thrown.what()), "threw"};
  } catch (...) {
    return Error{ErrorCode::kInternal, "it threw something that is no exception", "threw"};
  }
}

}  // namespace

Status CoordinatorRegistry::add(std::string name, Coordinator coordinator) {
  MUSTER_TRY_STATUS(check_name("coordinator", name));
  if (!coordinator) {
    return Error{ErrorCode::kInvalidArgument, "coordinator " + name + ": there is no function",
                 "no_function"};
  }
  if (coordinators_.contains(name)) {
    return Error{ErrorCode::kAlreadyExists, "coordinator " + name + " is registered already",
                 "coordinator_exists"};
  }
  coordinators_.emplace(std::move(name), std::move(coordinator));
  return {};
}

std::vector<std::string> CoordinatorRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, coordinator] : coordinators_) names.push_back(name);
  return names;
}

Result<StrategyResult> CoordinatorRegistry::run(StrategyContext& context, const Custom& strategy,
                                                const StrategyTask& task,
                                                const StrategyObserver& observer) const {
  const auto found = coordinators_.find(strategy.coordinator);
  if (found == coordinators_.end()) {
    const std::string known =
        coordinators_.empty() ? "none are" : fmt::format("{} are", fmt::join(names(), ", "));
    return Error{ErrorCode::kNotFound,
                 fmt::format("strategy Custom: no coordinator {} is registered; {}",
                             describe(Json(strategy.coordinator)), known),
                 "unknown_coordinator"};
  }
  const std::uint64_t bytes_before = context.bytes_moved();
  const std::string name = "coordinator " + strategy.coordinator;
  MUSTER_TRY_IN(name, StrategyResult result,
                call(found->second, context, strategy.config, task, observer));
  if (Status same = check_same_layout(task.start->layout(), result.state.layout()); !same) {
    return Error{ErrorCode::kInternal, name + ": its result: " + same.error().message,
                 "bad_result"};
  }
  if (Status finite = check_finite(result.state.layout(), result.state.values()); !finite) {
    return Error{ErrorCode::kFailedPrecondition, name + ": its result: " + finite.error().message,
                 "non_finite"};
  }
  result.bytes_moved = context.bytes_moved() - bytes_before;
  return result;
}

}  // namespace muster
