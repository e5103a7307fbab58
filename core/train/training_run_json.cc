// The JSON in the saved form of a run; training_run.h describes it.
#include <charconv>
#include <string>
#include <utility>

#include "core/base/digest.h"
#include "core/tensor/safetensors.h"
#include "core/train/training_run.h"

namespace muster {
namespace {

constexpr std::int64_t kFormat = 1;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const EpochMetrics& epoch) {
  return {{"epoch", epoch.epoch},
          {"examples", epoch.examples},
          {"loss", epoch.loss},
          {"accuracy", or_null(epoch.accuracy)},
          {"holdout", epoch.holdout}};
}

// A field that is null or what `read` makes of it.
template <typename Read>
auto read_or_null(JsonObject& object, std::string_view key, Read read)
    -> std::optional<decltype(read())> {
  const Json* found = object.find(key);
  if (found != nullptr && found->is_null()) return std::nullopt;
  return read();
}

Metrics read_metrics(JsonObject& object, std::string_view key) {
  const Json& json = object.value(key);
  Metrics metrics;
  if (!object.ok()) return metrics;
  if (!json.is_object()) {
    object.fail(key, describe(json) + " found, an object of numbers is wanted");
    return metrics;
  }
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number()) {
      object.fail(key, "holds what is no number");
      return metrics;
    }
    metrics.emplace(name, value.get<double>());
  }
  return metrics;
}

Result<EpochMetrics> epoch_from_json(const Json& json, const std::string& where,
                                     std::int64_t most_examples) {
  EpochMetrics epoch;
  JsonObject object(json, where);
  epoch.epoch = object.integer("epoch", {1, 1'000'000});
  epoch.examples = object.integer("examples", {1, most_examples});
  epoch.loss = object.number("loss");
  epoch.accuracy = read_or_null(object, "accuracy", [&] {
    return object.number("accuracy", {0.0, 1.0});
  });
  epoch.holdout = read_metrics(object, "holdout");
  MUSTER_TRY_STATUS(object.finish());
  return epoch;
}

// A 64-bit seed is text, because many JSON readers keep only 53 bits of a number.
std::uint64_t read_seed(JsonObject& object) {
  const std::string text = object.text("seed");
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size() || text != std::to_string(seed)) {
    object.fail("seed", "not a 64-bit number in decimal digits");
  }
  return seed;
}

Digest graph_digest(const Graph& graph) {
  return sha256(graph.to_json().dump());
}

}  // namespace

const Digest& TrainingRun::data_digest() const {
  if (!data_digest_) data_digest_ = data_->digest();
  return *data_digest_;
}

Json TrainingRun::saved_json(const Digest& tensors) const {
  const Tally::Figures& tally = tally_.figures();
  Json epochs = Json::array();
  for (const EpochMetrics& epoch : epochs_) epochs.push_back(to_json(epoch));
  Json json = {{"format", kFormat},
               {"settings", muster::to_json(settings_)},
               {"seed", std::to_string(seeds_.own)},
               {"start", state_digest(*start_).hex()},
               {"graph", graph_digest(*graph_).hex()},
               {"data", data_digest().hex()},
               {"tensors", tensors.hex()},
               {"examples", data_->size()},
               {"steps", steps_},
               {"spent_seconds", spent_seconds()},
               {"tally",
                {{"loss_sum", tally.loss_sum},
                 {"weight", tally.weight},
                 {"examples", tally.examples},
                 {"correct", or_null(tally.correct)}}},
               {"epochs", std::move(epochs)}};
  if (options_.gradient_offset != nullptr) {
    json["gradient_offset"] = state_digest(*options_.gradient_offset).hex();
  }
  return json;
}

// The metrics of the epochs up to here: all of them, or the last ones, in order. That of the epoch
// the run is in is among them only where the time was up in it.
Status TrainingRun::read_epochs(const Json& json) {
  const auto bad = [](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument, "epochs" + what};
  };
  if (!json.is_array() || json.size() > kMostEpochsKept) {
    return bad(": an array of at most 1000 is wanted");
  }
  for (const Json& one : json) {
    const std::string where = "[" + std::to_string(epochs_.size()) + "]";
    MUSTER_TRY(EpochMetrics metrics, epoch_from_json(one, "epochs" + where, data_->size()));
    const std::int64_t next = epochs_.empty() ? metrics.epoch : epochs_.back().epoch + 1;
    const bool from_the_first = json.size() == kMostEpochsKept || !epochs_.empty();
    if (metrics.epoch != next || (!from_the_first && metrics.epoch != 1)) {
      return bad(where + ".epoch: " + std::to_string(metrics.epoch) +
                 " found, numbers that rise from 1 are wanted");
    }
    epochs_.push_back(std::move(metrics));
  }
  const std::int64_t last = epochs_.empty() ? 0 : epochs_.back().epoch;
  if (last < epoch() || (last > 0 && last > progress().epoch)) {
    return bad(": they end with epoch " + std::to_string(last) + ", after " +
               std::to_string(steps_) + " steps it is " + std::to_string(epoch()));
  }
  return {};
}

// Everything but the settings, which this run was made with. Errors come without "saved run".
Result<Digest> TrainingRun::read_json(const Json& json) {
  JsonObject object(json, "");
  (void)object.integer("format", {kFormat, kFormat});
  (void)object.value("settings");
  const std::uint64_t seed = read_seed(object);
  const std::string start = object.text("start");
  const std::string graph = object.text("graph");
  const std::string data = object.text("data");
  const std::string tensors = object.text("tensors");
  const std::int64_t examples = object.integer("examples", {1, data_->size()});
  steps_ = object.integer("steps", {0, total_steps_});
  const double spent = object.number("spent_seconds", {0.0, 1e12});
  const Json& tally = object.value("tally");
  const Json& epochs = object.value("epochs");
  const StateDict* own_offset = options_.gradient_offset;
  std::string offset;
  if (own_offset != nullptr || object.find("gradient_offset") != nullptr) {
    offset = object.text("gradient_offset");
  }
  if (object.ok() && offset != (own_offset == nullptr ? "" : state_digest(*own_offset).hex())) {
    object.fail("gradient_offset", "the run had another gradient offset than the one given");
  }
  if (object.ok() && start != state_digest(*start_).hex()) {
    object.fail("start", "the run began from another state than the one given");
  }
  if (object.ok() && examples != data_->size()) {
    object.fail("examples",
                std::to_string(examples) + " found, the data has " + std::to_string(data_->size()));
  }
  if (object.ok() && graph != graph_digest(*graph_).hex()) {
    object.fail("graph", "the run trained another model than the one given");
  }
  if (object.ok() && data != data_digest().hex()) {
    object.fail("data", "the run trained on other examples than those given");
  }
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY_IN("tensors", const Digest saved_tensors, Digest::from_hex(tensors));

  // The order of the epoch that the run is in, and its figures.
  seeds_ = TrainingSeeds(seed);
  order_ = BatchOrder(data_->size(), settings_, seeds_.order);
  replica_.weights().optimizer_state().steps = steps_;
  const std::int64_t seen = position() == 0 && steps_ > 0 ? data_->size() : position();
  const std::int64_t targets = seen * graph_->loss().targets_per_example();
  Tally::Figures figures;
  JsonObject fields(tally, "tally");
  figures.loss_sum = fields.number("loss_sum");
  figures.weight = fields.number("weight", {0.0, 1e300});
  figures.examples = fields.integer("examples", {seen, seen});
  figures.correct = read_or_null(fields, "correct", [&] {
    return fields.integer("correct", {0, targets});
  });
  MUSTER_TRY_STATUS(fields.finish());
  tally_ = Tally(graph_->loss(), figures);

  MUSTER_TRY_STATUS(read_epochs(epochs));
  start_clock(spent);
  return saved_tensors;
}

}  // namespace muster
