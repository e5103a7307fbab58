#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "core/base/names.h"
#include "core/graph/graph.h"

namespace muster {

// Turns JSON into a Graph, in steps that each need the one before: fields, names, order, shapes,
// parameters.
class GraphReader {
 public:
  GraphReader(std::string where, std::span<const OpKind> kinds, const GraphLimits& limits)
      : where_(std::move(where)), kinds_(kinds), limits_(limits) {}

  Result<Graph> read(const Json& json) {
    JsonObject object(json, where_);
    const Json& input = object.value("input");
    const Json& nodes = object.value("nodes");
    const Json& loss = object.value("loss");
    const std::string output = object.text("output", std::string());
    MUSTER_TRY_STATUS(object.finish());
    MUSTER_TRY_STATUS(read_input(input));
    MUSTER_TRY_STATUS(read_nodes(nodes));
    MUSTER_TRY_STATUS(resolve_inputs());
    MUSTER_TRY_STATUS(sort());
    MUSTER_TRY_STATUS(infer());
    MUSTER_TRY_STATUS(read_output(output));
    MUSTER_TRY_STATUS(make_layout());
    MUSTER_TRY(graph_.loss_, loss_from_json(loss, where_ + ".loss", graph_.output_shape()));
    return std::move(graph_);
  }

 private:
  // A node as it was written.
  struct Draft {
    const Json* json = nullptr;
    std::string where;  // "graph.nodes[2] (fc1)"
    std::string id;
    std::vector<std::string> input_names;
    std::vector<int> inputs;  // indices of drafts
  };

  Error bad_graph(const std::string& message) const {
    return {ErrorCode::kInvalidArgument, message, "bad_graph"};
  }

  Status read_input(const Json& json) {
    JsonObject object(json, where_ + ".input");
    const Json& shape = object.value("shape");
    MUSTER_TRY_STATUS(object.finish());
    const std::string wanted = where_ + ".input.shape: found " + describe(shape) +
                               ", wanted 1 to 8 whole numbers from 1 to 2147483648";
    if (!shape.is_array() || shape.empty() || shape.size() > 8) return bad_graph(wanted);
    for (const Json& dimension : shape) {
      if (!dimension.is_number_integer()) return bad_graph(wanted);
      // An unsigned number over 2^63 turns negative here.
      const auto value = dimension.get<std::int64_t>();
      if (value < 1 || value > (std::int64_t{1} << 31)) return bad_graph(wanted);
      graph_.input_shape_.push_back(value);
    }
    MUSTER_TRY(graph_.input_size_, checked_size(where_ + ".input", graph_.input_shape_));
    return {};
  }

  Result<std::int64_t> checked_size(const std::string& what, const Shape& shape) const {
    MUSTER_TRY_IN(what, const std::int64_t size, element_count(shape));
    if (size < 1 || size > limits_.node_floats) {
      return bad_graph(what + ": shape " + to_string(shape) + " has " + std::to_string(size) +
                       " elements, wanted 1 to " + std::to_string(limits_.node_floats));
    }
    return size;
  }

  Status read_nodes(const Json& json) {
    const std::string path = where_ + ".nodes";
    if (!json.is_array() || json.empty()) {
      return bad_graph(path + ": found " + describe(json) + ", wanted a list of at least one node");
    }
    if (json.size() > limits_.nodes) {
      return bad_graph(path + ": " + std::to_string(json.size()) + " nodes are over the limit " +
                       std::to_string(limits_.nodes));
    }
    drafts_.reserve(json.size());
    for (std::size_t i = 0; i < json.size(); ++i) {
      Draft draft;
      draft.json = &json[i];
      draft.where = path + "[" + std::to_string(i) + "]";
      JsonObject object(json[i], draft.where);
      draft.id = object.text("id");
      if (!object.ok()) return object.finish();
      if (Status name = check_name("node id", draft.id); !name) {
        return with_context(std::move(name).error(), draft.where);
      }
      const std::string before = i == 0 ? "input" : drafts_.back().id;
      draft.input_names = object.texts("inputs", {before});
      if (!object.ok()) return object.finish();
      draft.where += " (" + draft.id + ")";
      if (draft.id == "input") {
        return bad_graph(draft.where + ": the id \"input\" is reserved for the graph's input");
      }
      const auto [place, added] = by_id_.emplace(draft.id, static_cast<int>(i));
      if (!added) {
        return bad_graph(draft.where + ": the id is taken by nodes[" +
                         std::to_string(place->second) + "]");
      }
      drafts_.push_back(std::move(draft));
    }
    return {};
  }

  Status resolve_inputs() {
    for (Draft& draft : drafts_) {
      for (const std::string& name : draft.input_names) {
        if (name == "input") {
          draft.inputs.push_back(GraphNode::kInput);
          continue;
        }
        const auto found = by_id_.find(name);
        if (found == by_id_.end()) {
          return bad_graph(draft.where + ": unknown input " + describe(Json(name)) +
                           ", wanted \"input\" or the id of a node");
        }
        draft.inputs.push_back(found->second);
      }
    }
    return {};
  }

  // Kahn (1962); of the nodes that are ready the first written goes first, so the order is unique.
  Status sort() {
    std::vector<int> waiting(drafts_.size(), 0);
    std::vector<std::vector<int>> users(drafts_.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      for (const int input : drafts_[i].inputs) {
        if (input == GraphNode::kInput) continue;
        ++waiting[i];
        users[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
      }
      if (waiting[i] == 0) ready.push(static_cast<int>(i));
    }
    while (!ready.empty()) {
      const int next = ready.top();
      ready.pop();
      order_.push_back(next);
      for (const int user : users[static_cast<std::size_t>(next)]) {
        if (--waiting[static_cast<std::size_t>(user)] == 0) ready.push(user);
      }
    }
    if (order_.size() == drafts_.size()) return {};
    const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int n) { return n > 0; });
    return bad_graph(drafts_[static_cast<std::size_t>(stuck - waiting.begin())].where +
                     ": is part of a cycle, or behind one");
  }

  Status infer() {
    std::vector<int> place(drafts_.size(), 0);
    for (const int index : order_) {
      const Draft& draft = drafts_[static_cast<std::size_t>(index)];
      place[static_cast<std::size_t>(index)] = static_cast<int>(graph_.nodes_.size());
      GraphNode node;
      node.id = draft.id;
      std::vector<Shape> shapes;
      for (const int input : draft.inputs) {
        const int at =
            input == GraphNode::kInput ? GraphNode::kInput : place[static_cast<std::size_t>(input)];
        node.inputs.push_back(at);
        shapes.push_back(at == GraphNode::kInput ? graph_.input_shape_ : graph_.node(at).shape());
      }
      MUSTER_TRY_STATUS(create_op(draft, shapes, node));
      MUSTER_TRY(node.size, checked_size(draft.where + ": output", node.shape()));
      graph_.nodes_.push_back(std::move(node));
    }
    return {};
  }

  Status create_op(const Draft& draft, std::span<const Shape> shapes, GraphNode& node) {
    JsonObject object(*draft.json, draft.where);
    object.text("id");
    object.texts("inputs", {});
    std::vector<std::string> known;
    for (const OpKind& kind : kinds_) known.emplace_back(kind.name);
    node.op_name = object.choice("op", known);
    if (!object.ok()) return object.finish();
    const auto kind = std::find_if(kinds_.begin(), kinds_.end(),
                                   [&](const OpKind& each) { return each.name == node.op_name; });
    const int inputs = static_cast<int>(std::min<std::size_t>(shapes.size(), 1'000'000));
    if (inputs < kind->min_inputs || inputs > kind->max_inputs) {
      const std::string low = std::to_string(kind->min_inputs);
      const std::string high = std::to_string(kind->max_inputs);
      return bad_graph(draft.where + ": " + node.op_name + " got " + std::to_string(inputs) +
                       " inputs, wanted " + (low == high ? low : low + " to " + high));
    }
    Result<std::unique_ptr<Op>> op = kind->create(object, shapes);
    MUSTER_TRY_STATUS(object.finish());
    if (!op) {
      Error error = with_context(std::move(op).error(), draft.where);
      error.reason = "bad_graph";
      return error;
    }
    node.op = *std::move(op);
    return {};
  }

  Status read_output(const std::string& name) {
    graph_.output_ = graph_.find(name.empty() ? drafts_.back().id : name);
    if (graph_.output_ < 0) {
      return bad_graph(where_ + ".output: unknown node " + describe(Json(name)));
    }
    std::vector<bool> used(graph_.nodes_.size(), false);
    used[static_cast<std::size_t>(graph_.output_)] = true;
    for (std::size_t i = used.size(); i-- > 0;) {
      if (!used[i]) {
        return bad_graph(where_ + ": node " + graph_.nodes_[i].id + " is not used by the output " +
                         graph_.node(graph_.output_).id);
      }
      for (const int input : graph_.nodes_[i].inputs) {
        if (input != GraphNode::kInput) used[static_cast<std::size_t>(input)] = true;
      }
    }
    return {};
  }

  Status make_layout() {
    std::vector<StateLayout::Entry> entries;
    std::map<std::string, bool, std::less<>> trained;
    std::int64_t total = 0;
    for (const GraphNode& node : graph_.nodes_) {
      for (const ParameterSpec& parameter : node.op->plan().parameters) {
        const std::string name = parameter_name(node, parameter);
        MUSTER_TRY_IN(where_ + ": " + name, const std::int64_t size,
                      element_count(parameter.shape));
        // Both terms are at most 2^48, so the sum cannot overflow.
        total += size;
        if (total > limits_.parameters) {
          return bad_graph(where_ + ": with node " + node.id + " there are " +
                           std::to_string(total) + " parameters, over the limit " +
                           std::to_string(limits_.parameters));
        }
        entries.push_back({name, parameter.shape});
        trained[name] = parameter.trained;
      }
    }
    MUSTER_TRY_IN(where_, graph_.layout_, StateLayout::create(std::move(entries)));
    std::vector<Graph::Range>& ranges = graph_.trained_ranges_;
    for (const TensorSpec& tensor : graph_.layout_->tensors()) {
      if (!trained[tensor.name]) continue;
      if (!ranges.empty() && ranges.back().offset + ranges.back().size == tensor.offset) {
        ranges.back().size += tensor.size;
      } else {
        ranges.push_back({tensor.offset, tensor.size});
      }
    }
    return {};
  }

  std::string where_;
  std::span<const OpKind> kinds_;
  GraphLimits limits_;
  std::vector<Draft> drafts_;
  std::map<std::string, int, std::less<>> by_id_;
  std::vector<int> order_;
  Graph graph_;
};

Result<Graph> Graph::from_json(const Json& json, const std::string& where,
                               std::span<const OpKind> kinds, const GraphLimits& limits) {
  return GraphReader(where, kinds, limits).read(json);
}

}  // namespace muster
