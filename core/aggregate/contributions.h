#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/aggregate/aggregator.h"

namespace muster {

// The contributions that an aggregator has noted: who is in, checked, in order of their names. What
// all rules share; owned by an aggregator.
class Contributions {
 public:
  explicit Contributions(const StateLayout& layout) : layout_(&layout) {}

  // Errors: those that Aggregator::validate shares among all rules.
  Status check(const Contribution& contribution) const;
  // Of a checked one.
  void add(Contribution contribution);
  bool has(const std::string& contributor) const;

  // Sorted by contributor.
  const std::vector<Contribution>& all() const { return all_; }
  // Names only: somebody whose values are in a sum already.
  void add_folded(std::string contributor);
  const std::vector<std::string>& folded() const { return folded_; }  // sorted
  // Every contribution becomes a name among the folded.
  void fold_all();

  std::int64_t size() const { return static_cast<std::int64_t>(all_.size() + folded_.size()); }
  // Errors: kAlreadyExists, reason "already_contributed": somebody is in both.
  Status check_disjoint(const Contributions& other) const;
  void take(Contributions& other);

  // For values that were not known to be finite and are not: the error with contributor, tensor and
  // index. Reads all of that contribution.
  Status check_finite(const Contribution& contribution) const;

 private:
  const StateLayout* layout_;
  std::vector<Contribution> all_;
  std::vector<std::string> folded_;
};

}  // namespace muster
