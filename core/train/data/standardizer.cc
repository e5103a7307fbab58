#include "core/train/data/standardizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/bytes.h"

namespace muster {
namespace {

constexpr std::int64_t kMostExamples = std::int64_t{1} << 53;  // exact as a double

// Running figures; m2 is the sum of squared differences from the mean.
struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;
};

// Chan, Golub and LeVeque 1983, equations (2.1a) and (2.1b).
Moments merged(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  const double count = a.count + b.count;
  const double difference = b.mean - a.mean;
  return {count, a.mean + difference * (b.count / count),
          a.m2 + b.m2 + difference * difference * (a.count * (b.count / count))};
}

// Adds `rows` examples of width all.size() to the figures of each feature.
void add_block(std::span<const float> block, std::size_t rows, std::vector<Moments>& all,
               std::vector<double>& mean, std::vector<double>& m2) {
  const std::size_t width = all.size();
  const auto count = static_cast<double>(rows);
  std::fill(mean.begin(), mean.end(), 0.0);
  std::fill(m2.begin(), m2.end(), 0.0);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* x = block.data() + r * width;
    for (std::size_t i = 0; i < width; ++i) mean[i] += static_cast<double>(x[i]);
  }
  for (double& value : mean) value /= count;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* x = block.data() + r * width;
    for (std::size_t i = 0; i < width; ++i) {
      const double difference = static_cast<double>(x[i]) - mean[i];
      m2[i] += difference * difference;
    }
  }
  for (std::size_t i = 0; i < width; ++i) all[i] = merged(all[i], {count, mean[i], m2[i]});
}

Error bad_data(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "standardize: " + message, "bad_data"};
}

Result<std::vector<Moments>> moments_of(const Dataset& data) {
  // Few enough rows that the sum of equal floats is exact, and so a constant's mean is the
  // constant.
  constexpr std::int64_t kMostRows = 256;
  constexpr std::int64_t kMostFloats = 1 << 16;
  if (data.size() == 0) return bad_data("there are no examples to fit it on");
  const auto width = static_cast<std::size_t>(data.example_size());
  const std::int64_t most =
      std::clamp<std::int64_t>(kMostFloats / data.example_size(), 1, kMostRows);
  std::vector<float> block(static_cast<std::size_t>(most) * width);
  std::vector<Moments> all(width);
  std::vector<double> mean(width);
  std::vector<double> m2(width);
  std::vector<std::int64_t> positions;
  for (std::int64_t at = 0; at < data.size(); at += most) {
    positions.resize(static_cast<std::size_t>(std::min(most, data.size() - at)));
    std::iota(positions.begin(), positions.end(), at);
    data.copy_features(positions, block);
    add_block(block, positions.size(), all, mean, m2);
  }
  for (std::size_t i = 0; i < width; ++i) {
    if (!std::isfinite(all[i].mean) || !std::isfinite(all[i].m2)) {
      return bad_data("feature " + std::to_string(i) + " has a value that is not finite");
    }
  }
  return all;
}

std::size_t groups_of(const Shape& shape, std::size_t width, Standardizer::Per per) {
  switch (per) {
    case Standardizer::Per::kFeature:
      return width;
    case Standardizer::Per::kChannel:
      return static_cast<std::size_t>(shape[0]);
    case Standardizer::Per::kAll:
      return 1;
  }
  return width;
}

Error bad_state(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "standardize: " + message, "bad_state"};
}

}  // namespace

Result<Standardizer> Standardizer::fit(const Dataset& data, Per per) {
  MUSTER_TRY(const std::vector<Moments> all, moments_of(data));
  const std::size_t groups = groups_of(data.shape(), all.size(), per);
  if (groups > kMostStandardized) {
    return bad_data(std::to_string(groups) + " features are over the limit of " +
                    std::to_string(kMostStandardized));
  }
  const std::size_t each = all.size() / groups;
  StandardizeState state;
  state.count = data.size();
  for (std::size_t g = 0; g < groups; ++g) {
    Moments group;
    for (std::size_t i = g * each; i < (g + 1) * each; ++i) group = merged(group, all[i]);
    state.mean.push_back(group.mean);
    state.variance.push_back(group.m2 / group.count);
  }
  return Standardizer(std::move(state));
}

Result<Standardizer> Standardizer::merge(std::span<const Standardizer> parts) {
  if (parts.empty()) return bad_state("there is no state to merge");
  const std::size_t width = parts[0].state_.mean.size();
  StandardizeState pooled;
  std::vector<Moments> all(width);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const StandardizeState& part = parts[p].state_;
    if (part.mean.size() != width) {
      return bad_state("state " + std::to_string(p) + " has " + std::to_string(part.mean.size()) +
                       " features, the ones before it have " + std::to_string(width));
    }
    // Both are at most 2^53.
    pooled.count += part.count;
    if (pooled.count > kMostExamples) return bad_state("there are more than 2^53 examples in all");
    const auto count = static_cast<double>(part.count);
    for (std::size_t i = 0; i < width; ++i) {
      all[i] = merged(all[i], {count, part.mean[i], part.variance[i] * count});
    }
  }
  for (const Moments& each : all) {
    pooled.mean.push_back(each.mean);
    pooled.variance.push_back(each.m2 / each.count);
  }
  return Standardizer(std::move(pooled));
}

Result<Standardizer> Standardizer::from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  StandardizeState state;
  object.choice("type", {"standardize"});
  state.count = object.integer("count", {1, kMostExamples});
  read_standardize_fields(object, state);
  MUSTER_TRY_STATUS(object.finish());
  return Standardizer(std::move(state));
}

Json Standardizer::to_json() const {
  return {{"type", "standardize"},
          {"count", state_.count},
          {"mean", state_.mean},
          {"variance", state_.variance}};
}

namespace {

bool is_unfitted(const Json& node) {
  return node.is_object() && node.contains("op") && node["op"] == "standardize" &&
         !node.contains("mean") && !node.contains("variance");
}

// The graph of a model, or of what may be one; nullptr when there is none. What is wrong with it is
// for Graph::from_json to say.
template <typename AnyJson>
AnyJson* graph_of(AnyJson& model) {
  if (!model.is_object()) return nullptr;
  AnyJson* graph = model.contains("graph") ? &model["graph"] : &model;
  const bool usable =
      graph->is_object() && graph->contains("nodes") && (*graph)["nodes"].is_array();
  return usable ? graph : nullptr;
}

Error bad_graph(std::size_t node, const std::string& message) {
  return {ErrorCode::kInvalidArgument,
          "graph.nodes[" + std::to_string(node) + "]: standardize: " + message, "bad_graph"};
}

Result<Standardizer::Per> read_per(const Json& node, std::size_t index) {
  const auto found = node.find("per");
  if (found == node.end() || *found == "feature") return Standardizer::Per::kFeature;
  if (*found == "channel") return Standardizer::Per::kChannel;
  if (*found == "all") return Standardizer::Per::kAll;
  return bad_graph(index, "per is " + describe(*found) + ", wanted feature, channel or all");
}

using StateFor = std::function<Result<Standardizer>(Standardizer::Per)>;

Result<Json> with_states(const Json& model, const StateFor& state_for) {
  Json filled = model;
  Json* graph = graph_of(filled);
  if (graph == nullptr) return filled;
  Json& nodes = (*graph)["nodes"];
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Json& node = nodes[i];
    if (!is_unfitted(node)) continue;
    const bool at_input =
        node.contains("inputs") ? node["inputs"] == Json::array({"input"}) : i == 0;
    if (!at_input) {
      return bad_graph(i,
                       "only a node directly behind the graph's input can be fitted; give this one "
                       "\"mean\" and \"variance\", or move it");
    }
    MUSTER_TRY(const Standardizer::Per per, read_per(node, i));
    MUSTER_TRY(const Standardizer standardizer, state_for(per));
    node.erase("per");
    node["count"] = standardizer.state().count;
    node["mean"] = standardizer.state().mean;
    node["variance"] = standardizer.state().variance;
  }
  return filled;
}

}  // namespace

bool has_unfitted_standardizers(const Json& model) {
  const Json* graph = graph_of(model);
  return graph != nullptr &&
         std::any_of((*graph)["nodes"].begin(), (*graph)["nodes"].end(), is_unfitted);
}

Result<Json> fit_standardizers(const Json& model, const Dataset& data) {
  if (!has_unfitted_standardizers(model)) return model;
  const Json& graph = *graph_of(model);
  const auto input = graph.find("input");
  const bool shaped = input != graph.end() && input->is_object() && input->contains("shape");
  const Json shape = shaped ? (*input)["shape"] : Json();
  if (shape.is_array() && data.size() > 0 && shape != Json(data.shape())) {
    return Error{ErrorCode::kInvalidArgument,
                 "graph.input.shape: " +
                     printable(shape.dump(-1, ' ', false, Json::error_handler_t::replace), 80) +
                     " found, the data to fit standardize on "
                     "has " +
                     to_string(data.shape()),
                 "bad_graph"};
  }
  return with_states(model, [&](Standardizer::Per per) { return Standardizer::fit(data, per); });
}

Result<Json> fill_standardizers(const Json& model, const Standardizer& standardizer) {
  return with_states(model,
                     [&](Standardizer::Per) -> Result<Standardizer> { return standardizer; });
}

}  // namespace muster
