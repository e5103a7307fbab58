#include "server/cli/model_show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/graph/graph_run.h"
#include "core/graph/model.h"
#include "core/graph/summary.h"
#include "core/tensor/safetensors.h"
#include "server/cli/model_source.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t dimension : shape)
    text += (text.empty() ? "" : " x ") + fmt::to_string(dimension);
  return text.empty() ? "-" : text;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// A model that is a JSON state.
Status show_json_model(const Command& shared, const Json& model) {
  MUSTER_TRY(const JsonTemplate state, json_from_model(model));
  const auto bytes = static_cast<std::int64_t>(safetensors_bytes(*state.layout()));
  if (shared.json) {
    print_json(Json{{"model", model}, {"numbers", state.num_numbers()}, {"state_bytes", bytes}});
  } else {
    print(fmt::format("{}\n\nnumbers        {}, a state of {}\n", state.json().dump(2),
                      count_text(state.num_numbers()), bytes_text(bytes)));
  }
  return {};
}

Status show_graph(const Command& shared, const ShowModelOptions& options, const Json& model) {
  MUSTER_TRY_IN(options.source, const Graph graph, graph_from_model(model));
  MUSTER_TRY_IN(options.source, const GraphSummary summary, summarize(graph, options.batch));
  const auto limit = static_cast<std::int64_t>(GraphRunOptions{}.limit_bytes);
  const Loss& loss = graph.loss();
  if (shared.json) {
    Json json = to_json(summary);
    json["loss"] = loss.to_json();
    json["model"] = model;
    json["limit_bytes"] = limit;
    json["over_limit"] = summary.workspace_bytes > limit;
    print_json(json);
    return {};
  }
  Table table({"NODE", "OP", "INPUTS", "OUTPUT", "PARAMETERS", "MULTIPLY-ADDS", "KEPT"});
  table.add({"input", "-", "-", shape_text(summary.input), "-", "-", "-"});
  for (const NodeSummary& node : summary.nodes) {
    table.add({node.id, node.op, joined(node.inputs), shape_text(node.output),
               count_text(node.parameters), count_text(node.multiply_adds),
               bytes_text(node.kept_bytes) + (node.kept_bytes > limit ? " !" : "")});
  }
  print(table.text());
  print(fmt::format(
      "\nloss           {}\nparameters     {}{}, a state of {}\nmultiply-adds  {} an example, "
      "forward\nmemory         {} to train on batches of {}: parameters, gradient, and {} of work "
      "space\n",
      loss.type(), count_text(summary.parameters),
      summary.untrained > 0 ? fmt::format(" ({} not trained)", count_text(summary.untrained)) : "",
      bytes_text(summary.state_bytes), count_text(summary.multiply_adds),
      bytes_text(summary.training_bytes), summary.batch, bytes_text(summary.workspace_bytes)));
  if (summary.workspace_bytes > limit) {
    print(fmt::format(
        "               ! over the trainer's limit of {} of work space: use smaller batches, or "
        "local.accumulate\n",
        bytes_text(limit)));
  }
  return {};
}

// A tensor's figures over its finite elements.
struct Figures {
  double min = 0;
  double max = 0;
  double mean = 0;
  std::int64_t finite = 0;
  std::int64_t not_finite = 0;
};

Figures figures_of(std::span<const float> values) {
  Figures figures;
  double sum = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++figures.not_finite;
      continue;
    }
    const double element = value;
    figures.min = figures.finite == 0 ? element : std::min(figures.min, element);
    figures.max = figures.finite == 0 ? element : std::max(figures.max, element);
    sum += element;
    ++figures.finite;
  }
  if (figures.finite > 0) figures.mean = sum / static_cast<double>(figures.finite);
  return figures;
}

Json tensor_json(const TensorSpec& tensor, Dtype dtype, const Figures& figures) {
  const auto or_null = [&](double value) { return figures.finite > 0 ? Json(value) : Json(); };
  return {{"name", tensor.name},           {"dtype", to_string(dtype)},
          {"shape", tensor.shape},         {"elements", tensor.size},
          {"min", or_null(figures.min)},   {"max", or_null(figures.max)},
          {"mean", or_null(figures.mean)}, {"not_finite", figures.not_finite}};
}

Json state_json(const StateDict& state, const SafetensorsHeader& header, ByteView file) {
  std::map<std::string, Dtype> dtypes;
  for (const SafetensorsTensor& tensor : header.tensors) dtypes[tensor.name] = tensor.dtype;
  Json tensors = Json::array();
  std::int64_t not_finite = 0;
  for (const TensorSpec& tensor : state.layout().tensors()) {
    const Figures figures = figures_of(state.tensor(tensor));
    not_finite += figures.not_finite;
    tensors.push_back(tensor_json(tensor, dtypes[tensor.name], figures));
  }
  return {{"tensors", std::move(tensors)},     {"elements", state.layout().num_elements()},
          {"not_finite", not_finite},          {"digest", state_digest(state).hex()},
          {"file_digest", sha256(file).hex()}, {"bytes", file.size()},
          {"metadata", header.metadata}};
}

std::string figure_text(const Json& value) {
  return value.is_null() ? "-" : fmt::format("{:.6g}", value.get<double>());
}

Status show_state(const Command& shared, const std::filesystem::path& path) {
  MUSTER_TRY(const MappedFile file, MappedFile::open(path));
  MUSTER_TRY_IN(path.string(), const SafetensorsHeader header,
                parse_safetensors_header(file.bytes(), file.bytes().size()));
  MUSTER_TRY_IN(path.string(), const StateDict state, read_state(file.bytes()));
  const Json json = state_json(state, header, file.bytes());
  if (shared.json) {
    print_json(json);
    return {};
  }
  Table table({"TENSOR", "TYPE", "SHAPE", "ELEMENTS", "MIN", "MAX", "MEAN", "NOT FINITE"});
  for (const Json& tensor : json.at("tensors")) {
    table.add({printable(tensor.at("name").get<std::string>()), tensor.at("dtype"),
               shape_text(tensor.at("shape").get<Shape>()),
               count_text(tensor.at("elements").get<std::int64_t>()), figure_text(tensor.at("min")),
               figure_text(tensor.at("max")), figure_text(tensor.at("mean")),
               count_text(tensor.at("not_finite").get<std::int64_t>())});
  }
  print(table.text());
  print(fmt::format("\nin all      {} tensors, {} elements, {}\nSHA-256     {} (canonical form)\n",
                    json.at("tensors").size(), count_text(state.layout().num_elements()),
                    bytes_text(static_cast<std::int64_t>(file.bytes().size())),
                    json.at("digest").get<std::string>()));
  if (json.at("file_digest") != json.at("digest"))
    print(fmt::format("            {} (the file)\n", json.at("file_digest").get<std::string>()));
  for (const auto& [key, value] : header.metadata)
    print(fmt::format("{:<11} {}\n", printable(key, 40), printable_sentence(value, 100)));
  return {};
}

// A state has its name's ending, or begins as safetensors do and as no JSON does.
bool is_state(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return true;
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file || file->bytes().size() < 9) return false;
  const std::string_view text = as_text(file->bytes());
  return text[8] == '{' && text.find_first_of(std::string_view("{\t\n\r ")) != 0;
}

}  // namespace

Status show_model(const Command& shared, const ShowModelOptions& options) {
  if (is_state(options.source)) return show_state(shared, options.source);
  MUSTER_TRY(const Json model, read_model(options.source));
  return is_json_model(model) ? show_json_model(shared, model) : show_graph(shared, options, model);
}

}  // namespace muster::cli
