#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/tensor/state.h"

// A little node of every op, for tests that hold for all of them. A new op is one line here.
namespace muster {

struct OpSample {
  std::string op;
  Shape input;
  Json attributes = Json::object();
  int inputs = 1;
};

inline std::vector<OpSample> op_samples() {
  return {
      {"add", {3, 4}, {}, 2},
      {"avg_pool2d", {2, 5, 6}, {{"kernel", 2}}},
      {"batch_norm", {3, 4}, {}},
      {"concat", {3, 4}, {}, 2},
      {"conv2d", {2, 5, 6}, {{"filters", 3}, {"kernel", 2}}},
      {"dense", {4}, {{"units", 3}}},
      {"dropout", {9}, {}},
      {"embedding", {3}, {{"vocabulary", 5}, {"units", 2}}},
      {"flatten", {2, 3}, {}},
      {"gelu", {9}, {}},
      {"global_avg_pool", {2, 3, 5}, {}},
      {"group_norm", {4, 5}, {{"num_groups", 2}}},
      {"gru", {3, 2}, {{"units", 3}}},
      {"layer_norm", {2, 5}, {}},
      {"leaky_relu", {9}, {}},
      {"lstm", {3, 2}, {{"units", 3}}},
      {"max_pool2d", {2, 5, 6}, {{"kernel", 2}}},
      {"multiply", {3, 4}, {}, 2},
      {"relu", {9}, {}},
      {"reshape", {2, 6}, {{"shape", {3, -1}}}},
      {"sigmoid", {9}, {}},
      {"softmax", {2, 5}, {}},
      {"standardize", {2}, {{"mean", {0.5, 2}}, {"variance", {1, 3}}}},
      {"tanh", {9}, {}},
  };
}

inline Json graph_of(const OpSample& sample) {
  Json node = sample.attributes.is_null() ? Json::object() : sample.attributes;
  node["id"] = "n";
  node["op"] = sample.op;
  node["inputs"] = std::vector<std::string>(static_cast<std::size_t>(sample.inputs), "input");
  return {{"input", {{"shape", sample.input}}},
          {"nodes", Json::array({node})},
          {"loss", {{"type", "mse"}}}};
}

}  // namespace muster
