#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

// The mean of states that are JSON rather than tensors (a scaler's means, k-means centres, counts),
// leaf by leaf, weighted by examples.
//
// Numbers are averaged: the exact weighted mean rounded once to a double, in any order. A number on
// which all agree stays as it is, so integers stay integers and one contributor is the identity.
// Objects need equal keys and arrays equal lengths; texts, booleans and nulls pass where all agree.
// A contributor of no examples has to fit but counts nothing.
//
// One object serves one mean: `accumulate` once a contributor, in any order, then `finish` once. It
// keeps the states. One thread at a time. After an error of `accumulate` nothing has changed.
class JsonMean {
 public:
  // Errors name contributor and place (a JSON pointer, RFC 6901). kInvalidArgument, reason
  // "missing_key", "extra_key", "length_mismatch", "type_mismatch", "value_mismatch" (a non-number
  // that differs), "non_finite", "too_deep" (over 64 levels) or "bad_examples" (negative, over
  // 2^53 in all); kAlreadyExists, "already_contributed"; kFailedPrecondition, "finished".
  Status accumulate(const std::string& contributor, Json state, std::int64_t examples);

  // Errors: kFailedPrecondition, reason "no_contributors" (none, or all of no examples; then it
  // stays open) or "finished".
  Result<Json> finish();

  std::int64_t num_contributors() const { return static_cast<std::int64_t>(entries_.size()); }

 private:
  struct Entry {
    Json state;
    std::int64_t examples = 0;
  };
  std::map<std::string, Entry> entries_;
  std::int64_t total_examples_ = 0;
  bool finished_ = false;
};

}  // namespace muster
