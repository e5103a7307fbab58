#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/aggregate/contribution.h"
#include "core/aggregate/settings.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/workers.h"
#include "core/tensor/state.h"

namespace muster {

// What an aggregate starts from. Views; they stay with the caller until `finish`.
struct AggregationBase {
  const StateDict* global = nullptr;  // the round's global state
  UpdateContent content = UpdateContent::kState;
  // What the rule kept of the round before (Outcome::rule_state); null before the first.
  const StateDict* rule_state = nullptr;
  std::int64_t population = 1;  // devices in all: N of SCAFFOLD, m of FedDyn
  // Of local training, where a rule needs to undo it: FedNova (all three), SCAFFOLD and q-FedAvg
  // (the learning rate).
  double local_lr = 0;
  double local_momentum = 0;
  double local_mu = 0;
};

// What came of a round.
struct Outcome {
  StateDict global;                          // the next global state
  std::optional<StateDict> rule_state = {};  // what the rule keeps for the next round; rule_state.h
  // What the rule did with whom, for the log; an object, empty for most rules:
  // {"selected": [...], "clipped": [...], "filtered": [...]} of contributors' names.
  Json report = Json::object();
};

// Turns the updates of one round into the next global state.
//
// One object serves one round: `accumulate` once a contributor, in any order, then `finish` once.
// Contributions are noted and their values are read in `finish` (or `fold`), in blocks and in order
// of the contributors' names, so who came first and how many threads there are makes no difference
// to any bit. The values have to stay readable until then. One thread at a time. After an error of
// any call but `finish` the aggregate is bit for bit what it was before; only a `save` whose sink
// fails leaves it folded.
class Aggregator {
 public:
  virtual ~Aggregator() = default;

  // Whether `accumulate` would take it. Changes nothing. Nothing broadcasts.
  // Errors: kInvalidArgument naming contributor and tensor; reason "missing_tensor",
  // "extra_tensor", "shape_mismatch", "non_finite", "bad_examples" (negative, or over
  // 2^53, which is what a double counts to), "bad_contributor" (no UTF-8 text), "bad_steps",
  // "bad_loss", "bad_staleness", "too_stale" (a rule that wants them); kAlreadyExists,
  // "already_contributed"; kFailedPrecondition, "finished".
  virtual Status validate(const Contribution& contribution) const = 0;
  virtual Status accumulate(Contribution contribution) = 0;

  // Takes all that `other` holds, which is finished afterwards. For aggregating in a tree: means
  // are merged as sums in double-double (16 bytes a parameter), rules that need all updates at once
  // pass them on.
  // Errors: kInvalidArgument, reason "other_rule" (another rule, base or content);
  // kAlreadyExists, "already_contributed" (somebody is in both). Then neither has changed.
  virtual Status merge(Aggregator& other) = 0;

  // Reads the values noted so far into sums, so that their owner may let go of them: 16 bytes a
  // parameter from then on. Rules that need all updates at once read them into memory.
  // Errors: kInvalidArgument, reason "non_finite".
  virtual Status fold(Workers* workers = nullptr) = 0;

  // Everything that `restore_aggregator` needs to go on in another process: a safetensors file
  // whose metadata say what it is. Folds first, and what was folded stays so when
  // the sink then fails; `save` may be called again. Errors: as fold and `sink`.
  using ByteSink = std::function<Status(ByteView)>;
  virtual Status save(const ByteSink& sink, Workers* workers = nullptr) = 0;

  // Errors: kFailedPrecondition, reason "no_contributors" (none, or all weights zero),
  // "insufficient_for_rule" (naming n, the rule's parameters and the bound), "non_finite" (the
  // result does not fit a float32), "finished" (second call); kInvalidArgument, "non_finite" naming
  // contributor and tensor.
  virtual Result<Outcome> finish(Workers* workers = nullptr) = 0;

  virtual std::int64_t num_contributors() const = 0;
};

// The aggregator of a rule.
// Errors: kInvalidArgument, reason "bad_aggregation": a rule state that is not the rule's, a local
// learning rate that the rule needs and that is not over 0.
Result<std::unique_ptr<Aggregator>> make_aggregator(const AggregationSettings& settings,
                                                    const AggregationBase& base);

// One that goes on where `save` was called.
//   saved  what the sink was given; has to stay where it is until `finish`
// Errors: kDataLoss, reason "bad_aggregate": it is not what save writes; kInvalidArgument,
// "other_rule": it was saved for another rule, content, base state or population.
Result<std::unique_ptr<Aggregator>> restore_aggregator(const AggregationSettings& settings,
                                                       const AggregationBase& base, ByteView saved);

}  // namespace muster
