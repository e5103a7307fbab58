#include "core/graph/presets.h"

#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor/state.h"

namespace muster {
namespace {

Json node(const std::string& id, std::string_view op, Json attributes = Json::object()) {
  attributes["id"] = id;
  attributes["op"] = op;
  return attributes;
}

Json dense(const std::string& id, std::int64_t units) {
  return node(id, "dense", {{"units", units}});
}

Json max_pool(const std::string& id) {
  return node(id, "max_pool2d", {{"kernel", 2}, {"stride", 2}});
}

std::int64_t read_classes(JsonObject& options) {
  const std::int64_t fewest = options.find("loss") != nullptr ? 1 : 2;
  return options.integer("classes", 10, {fewest, 1'000'000});
}

// What is wrong with a shape's numbers the graph's reader says.
Json read_input(JsonObject& options) {
  const Json* input = options.find("input");
  return input != nullptr ? *input : Json{28, 28};
}

// A model on images: the nodes that come first bring the input to [channels, height, width].
Json read_image(JsonObject& options, Json& nodes) {
  Json input = read_input(options);
  const bool is_shape = input.is_array() && (input.size() == 2 || input.size() == 3);
  if (!is_shape) {
    options.fail("input", describe(input) +
                              " found, [height, width] or [channels, height, width] is wanted");
  } else if (input.size() == 2) {
    nodes.push_back(node("image", "reshape", {{"shape", {1, input[0], input[1]}}}));
  }
  return input;
}

Json logistic(JsonObject& options) {
  const std::int64_t classes = read_classes(options);
  return {{"input", read_input(options)},
          {"nodes", {node("flat", "flatten"), dense("fc1", classes)}}};
}

std::vector<std::int64_t> read_hidden(JsonObject& options) {
  constexpr std::size_t kMost = 64;
  const Json* found = options.find("hidden");
  if (found == nullptr) return {128, 64};
  std::vector<std::int64_t> units;
  const bool is_list = found->is_array() && found->size() <= kMost;
  for (const Json& each : is_list ? *found : Json::array()) {
    // An unsigned number over 2^63 turns negative here.
    const std::int64_t value = each.is_number_integer() ? each.get<std::int64_t>() : 0;
    if (value < 1 || value > 1'000'000) break;
    units.push_back(value);
  }
  if (!is_list || units.size() != found->size()) {
    options.fail("hidden", describe(*found) +
                               " found, a list of at most 64 integers from 1 to 1000000 is wanted");
  }
  return units;
}

Json mlp(JsonObject& options) {
  static const std::vector<std::string> kActivations{"gelu", "leaky_relu", "relu", "sigmoid",
                                                     "tanh"};
  const std::int64_t classes = read_classes(options);
  Json input = read_input(options);
  const std::vector<std::int64_t> hidden = read_hidden(options);
  const bool given = options.find("activation") != nullptr;
  const std::string activation = given ? options.choice("activation", kActivations) : "relu";
  Json nodes = Json::array({node("flat", "flatten")});
  std::size_t layer = 0;
  for (const std::int64_t units : hidden) {
    const std::string number = std::to_string(++layer);
    nodes.push_back(dense("fc" + number, units));
    nodes.push_back(node(activation + number, activation));
  }
  nodes.push_back(dense("fc" + std::to_string(layer + 1), classes));
  return {{"input", std::move(input)}, {"nodes", std::move(nodes)}};
}

Json two_hidden_layers(JsonObject& options) {
  const std::int64_t classes = read_classes(options);
  return {{"input", read_input(options)},
          {"nodes",
           {node("flat", "flatten"), dense("fc1", 200), node("relu1", "relu"), dense("fc2", 200),
            node("relu2", "relu"), dense("fc3", classes)}}};
}

Json conv5x5(const std::string& id, int filters, const Json& padding) {
  return node(id, "conv2d", {{"filters", filters}, {"kernel", 5}, {"padding", padding}});
}

Json fedavg_cnn(JsonObject& options) {
  const std::int64_t classes = read_classes(options);
  Json nodes = Json::array();
  Json input = read_image(options, nodes);
  for (Json& each :
       std::vector<Json>{conv5x5("conv1", 32, "same"), node("relu1", "relu"), max_pool("pool1"),
                         conv5x5("conv2", 64, "same"), node("relu2", "relu"), max_pool("pool2"),
                         node("flat", "flatten"), dense("fc1", 512), node("relu3", "relu"),
                         dense("fc2", classes)}) {
    nodes.push_back(std::move(each));
  }
  return {{"input", std::move(input)}, {"nodes", std::move(nodes)}};
}

Json lenet5(JsonObject& options) {
  const std::int64_t classes = read_classes(options);
  Json nodes = Json::array();
  Json input = read_image(options, nodes);
  for (Json& each :
       std::vector<Json>{conv5x5("conv1", 6, 2), node("relu1", "relu"), max_pool("pool1"),
                         conv5x5("conv2", 16, "valid"), node("relu2", "relu"), max_pool("pool2"),
                         node("flat", "flatten"), dense("fc1", 120), node("relu3", "relu"),
                         dense("fc2", 84), node("relu4", "relu"), dense("fc3", classes)}) {
    nodes.push_back(std::move(each));
  }
  return {{"input", std::move(input)}, {"nodes", std::move(nodes)}};
}

// The pieces of a residual network, each taking the node before as its input unless told.
class ResidualNodes {
 public:
  explicit ResidualNodes(Json nodes, std::int64_t groups)
      : nodes_(std::move(nodes)), groups_(groups) {}

  void add(const std::string& id, std::string_view op, Json attributes = Json::object()) {
    nodes_.push_back(node(id, op, std::move(attributes)));
  }
  // Without a bias: the norm behind it has one.
  void conv(const std::string& id, int filters, int kernel, int stride) {
    add(id, "conv2d",
        {{"filters", filters},
         {"kernel", kernel},
         {"stride", stride},
         {"padding", kernel / 2},
         {"bias", false}});
  }
  void norm(const std::string& id) { add(id, "group_norm", {{"num_groups", groups_}}); }

  // He et al. 2016, figure 2 and option B. `name` "layer2"; `from` is the node whose output enters.
  // Returns the node whose output leaves.
  std::string block(const std::string& name, const std::string& from, int filters, int stride) {
    conv(name + ".conv1", filters, 3, stride);
    norm(name + ".bn1");
    add(name + ".relu1", "relu");
    conv(name + ".conv2", filters, 3, 1);
    norm(name + ".bn2");
    std::string shortcut = from;
    if (stride != 1) {
      conv(name + ".downsample.0", filters, 1, stride);
      nodes_.back()["inputs"] = Json::array({from});
      norm(name + ".downsample.1");
      shortcut = name + ".downsample.1";
    }
    add(name + ".add", "add", {{"inputs", {name + ".bn2", shortcut}}});
    add(name + ".relu2", "relu");
    return name + ".relu2";
  }

  Json take() { return std::move(nodes_); }

 private:
  Json nodes_;
  std::int64_t groups_;
};

Json resnet8_gn(JsonObject& options) {
  const std::int64_t classes = read_classes(options);
  const std::int64_t groups = options.integer("num_groups", 8, {1, 16});
  if (16 % groups != 0) {
    options.fail("num_groups", std::to_string(groups) + " found, 1, 2, 4, 8 or 16 is wanted");
  }
  Json first = Json::array();
  Json input = read_image(options, first);
  ResidualNodes nodes(std::move(first), groups);
  nodes.conv("conv1", 16, 3, 1);
  nodes.norm("bn1");
  nodes.add("relu1", "relu");
  std::string last = nodes.block("layer1", "relu1", 16, 1);
  last = nodes.block("layer2", last, 32, 2);
  nodes.block("layer3", last, 64, 2);
  nodes.add("pool", "global_avg_pool");
  nodes.add("fc", "dense", {{"units", classes}});
  return {{"input", std::move(input)}, {"nodes", nodes.take()}};
}

// As many ids as Vocabulary::ascii of core/train/data/text_windows.h has, the default of text data.
constexpr std::int64_t kAsciiVocabulary = 98;

Json char_lstm(JsonObject& options) {
  const std::int64_t vocabulary = options.integer("vocabulary", kAsciiVocabulary, {2, 1'000'000});
  const std::int64_t window = options.integer("window", 80, {1, 100'000});
  return {{"input", {window}},
          {"nodes",
           {node("embedding", "embedding", {{"vocabulary", vocabulary}, {"units", 8}}),
            node("lstm", "lstm", {{"units", 256}, {"layers", 2}, {"return_sequences", true}}),
            dense("fc", vocabulary)}}};
}

}  // namespace

std::span<const Preset> presets() {
  static constexpr std::array kTable{
      Preset{"2nn", "two hidden layers of 200 (McMahan et al. 2017)", two_hidden_layers},
      Preset{"char_lstm", "next character, two LSTM layers of 256", char_lstm},
      Preset{"fedavg_cnn", "two 5x5 convolutions (McMahan et al. 2017)", fedavg_cnn},
      Preset{"lenet5", "two 5x5 convolutions (LeCun et al. 1998)", lenet5},
      Preset{"logistic", "one dense layer", logistic},
      Preset{"mlp", "dense layers of your choice", mlp},
      Preset{"resnet8_gn", "residual network of depth 8 with group norm", resnet8_gn},
  };
  return kTable;
}

Result<Json> graph_of_preset(const Json& model, const std::string& where) {
  JsonObject object(model, where);
  std::vector<std::string> known;
  for (const Preset& preset : presets()) known.emplace_back(preset.name);
  const std::string name = object.choice("preset", known);
  if (!object.ok()) return object.finish().error();
  const Json* loss = object.find("loss");
  Json graph;
  for (const Preset& preset : presets()) {
    if (preset.name == name) graph = preset.build(object);
  }
  MUSTER_TRY_STATUS(object.finish());
  return Json{{"input", {{"shape", std::move(graph["input"])}}},
              {"nodes", std::move(graph["nodes"])},
              {"loss", loss != nullptr ? *loss : Json{{"type", "softmax_cross_entropy"}}}};
}

}  // namespace muster
