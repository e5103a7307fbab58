#pragma once

#include <span>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/graph/ops/standardize.h"
#include "core/train/data/dataset.h"

namespace muster {

// Means and variances of features, so that a model can begin with inputs of mean 0 and variance 1.
// A value; it is fitted on a device's own examples, and merging those of many devices gives what
// fitting all their examples in one place would give (up to the rounding of doubles), without an
// example leaving its device. What travels is the state as JSON, {"type": "standardize", "count",
// "mean", "variance"}; the model carries it in its node "standardize"
// (core/graph/ops/standardize.h).
//
// All sums are doubles. A feature that is constant has a variance of exactly 0, and the node then
// only takes the mean off.
class Standardizer {
 public:
  // What shares a mean and a variance: nothing; all entries with one first index (a channel of an
  // image of shape [channels, height, width]); all features.
  enum class Per { kFeature, kChannel, kAll };

  // Block by block of examples in their order: within a block in two passes, and blocks merged as
  // below. Errors: kInvalidArgument, reason "bad_data": no examples, or a value that is not finite.
  static Result<Standardizer> fit(const Dataset& data, Per per = Per::kFeature);

  // The pooled count, mean and variance (Chan, Golub and LeVeque 1983, equations 2.1), in the
  // order given. Errors: kInvalidArgument, reason "bad_state": none, or lengths that differ.
  static Result<Standardizer> merge(std::span<const Standardizer> parts);

  // Hostile input: lengths, counts (1 to 2^53), numbers that are not finite, negative variances and
  // unknown fields are refused. Errors: kInvalidArgument, reason "bad_field", with the path
  // `where`.
  static Result<Standardizer> from_json(const Json& json, const std::string& where = "standardize");
  Json to_json() const;

  const StandardizeState& state() const { return state_; }

 private:
  explicit Standardizer(StandardizeState state) : state_(std::move(state)) {}
  StandardizeState state_;
};

// True when a model has a node {"op": "standardize"} without "mean" and "variance": such a node is
// to be fitted before the graph is built, which would refuse it.
bool has_unfitted_standardizers(const Json& model);

// Gives each such node its state, fitted on the training data: per feature, or as the node's "per"
// says ("feature", "channel" or "all"; the field goes away). `model` is a job's model, {"graph":
// {...}} in canonical form or not, or the graph itself; one without such nodes (a preset) comes
// back as it is. Only a node directly behind the graph's input can be fitted, as the data are its
// input. Errors: kInvalidArgument, reason "bad_graph": a node elsewhere, an unknown "per", a graph
// whose input has another shape than the data; and as Standardizer::fit.
Result<Json> fit_standardizers(const Json& model, const Dataset& data);

// The same with a state that is there already, such as the merged one of many devices.
Result<Json> fill_standardizers(const Json& model, const Standardizer& standardizer);

}  // namespace muster
