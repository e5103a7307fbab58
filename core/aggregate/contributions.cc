#include "core/aggregate/contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/aggregate/update_check.h"
#include "core/base/bytes.h"

namespace muster {
namespace {

// Weights are doubles, which hold no more than this exactly.
constexpr std::int64_t kMostExamples = std::int64_t{1} << 53;

Error refused(const Contribution& contribution, std::string_view what, std::int64_t found,
              std::string_view wanted, std::string reason) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("contribution of {}: {} {}, wanted {}", printable(contribution.contributor),
                      what, found, wanted),
          std::move(reason)};
}

Error already_contributed(const std::string& contributor) {
  return {ErrorCode::kAlreadyExists,
          fmt::format("contribution of {}: it is in the aggregate already, and counts once",
                      printable(contributor)),
          "already_contributed"};
}

bool before(const Contribution& a, const std::string& contributor) {
  return a.contributor < contributor;
}

}  // namespace

Status Contributions::check(const Contribution& contribution) const {
  if (has(contribution.contributor)) return already_contributed(contribution.contributor);
  // It goes into saved aggregates and reports, which are JSON.
  if (!is_utf8(contribution.contributor)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("contribution of {}: the name is no UTF-8 text",
                             printable(contribution.contributor)),
                 "bad_contributor"};
  }
  MUSTER_TRY_STATUS(check_layout(*layout_, contribution));
  if (contribution.examples < 0 || contribution.examples > kMostExamples) {
    return refused(contribution, "examples", contribution.examples, "0 to 9007199254740992",
                   "bad_examples");
  }
  if (contribution.steps < 0) {
    return refused(contribution, "steps", contribution.steps, "0 or more", "bad_steps");
  }
  if (contribution.staleness < 0) {
    return refused(contribution, "staleness", contribution.staleness, "0 or more", "bad_staleness");
  }
  // Last, because only this takes time.
  return contribution.known_finite ? Status{} : check_finite(contribution);
}

void Contributions::add(Contribution contribution) {
  const auto at = std::lower_bound(all_.begin(), all_.end(), contribution.contributor, before);
  all_.insert(at, std::move(contribution));
}

bool Contributions::has(const std::string& contributor) const {
  const auto at = std::lower_bound(all_.begin(), all_.end(), contributor, before);
  return (at != all_.end() && at->contributor == contributor) ||
         std::binary_search(folded_.begin(), folded_.end(), contributor);
}

void Contributions::add_folded(std::string contributor) {
  const auto at = std::lower_bound(folded_.begin(), folded_.end(), contributor);
  folded_.insert(at, std::move(contributor));
}

void Contributions::fold_all() {
  const auto middle = static_cast<std::ptrdiff_t>(folded_.size());
  folded_.reserve(folded_.size() + all_.size());
  for (Contribution& contribution : all_) folded_.push_back(std::move(contribution.contributor));
  std::inplace_merge(folded_.begin(), folded_.begin() + middle, folded_.end());
  all_.clear();
}

Status Contributions::check_disjoint(const Contributions& other) const {
  for (const Contribution& contribution : other.all_) {
    if (has(contribution.contributor)) return already_contributed(contribution.contributor);
  }
  for (const std::string& contributor : other.folded_) {
    if (has(contributor)) return already_contributed(contributor);
  }
  return {};
}

void Contributions::take(Contributions& other) {
  const auto middle = static_cast<std::ptrdiff_t>(all_.size());
  all_.insert(all_.end(), std::make_move_iterator(other.all_.begin()),
              std::make_move_iterator(other.all_.end()));
  std::inplace_merge(
      all_.begin(), all_.begin() + middle, all_.end(),
      [](const Contribution& a, const Contribution& b) { return a.contributor < b.contributor; });
  const auto folded_middle = static_cast<std::ptrdiff_t>(folded_.size());
  folded_.insert(folded_.end(), std::make_move_iterator(other.folded_.begin()),
                 std::make_move_iterator(other.folded_.end()));
  std::inplace_merge(folded_.begin(), folded_.begin() + folded_middle, folded_.end());
  other.all_.clear();
  other.folded_.clear();
}

Status Contributions::check_finite(const Contribution& contribution) const {
  return check_values(*layout_, contribution);
}

}  // namespace muster
