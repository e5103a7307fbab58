#include "core/aggregate/robust/saved_contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/aggregate/blocks.h"
#include "core/base/aligned_floats.h"
#include "core/tensor/safetensors.h"

namespace muster {
namespace {

constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMostContributors = 1'000'000;
constexpr SafetensorsLimits kLimits{.header_bytes = kMostHeaderBytes, .tensors = kMostContributors};

Error bad_aggregate(std::string message) {
  return {ErrorCode::kDataLoss, "saved aggregate: " + std::move(message), "bad_aggregate"};
}

std::string tensor_name(std::size_t index, std::size_t count) {
  return fmt::format("c{:0{}}", index, std::to_string(count).size());
}

Json to_json(const Contribution& contribution) {
  Json json{{"name", contribution.contributor},
            {"examples", contribution.examples},
            {"steps", contribution.steps},
            {"staleness", contribution.staleness}};
  if (contribution.initial_loss) json["initial_loss"] = *contribution.initial_loss;
  return json;
}

Result<Contribution> contribution_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  Contribution contribution;
  contribution.contributor = object.text("name");
  contribution.examples = object.integer("examples");
  contribution.steps = object.integer("steps");
  contribution.staleness = object.integer("staleness");
  if (object.find("initial_loss") != nullptr) {
    contribution.initial_loss = object.number("initial_loss");
  }
  MUSTER_TRY_STATUS(object.finish());
  return contribution;
}

// Errors: kInvalidArgument, "other_rule".
Status check_identity(const Json& aggregate, const Json& identity) {
  for (const auto& [key, wanted] : identity.items()) {
    const auto found = aggregate.find(key);
    if (found == aggregate.end()) return bad_aggregate(key + " is missing");
    if (*found == wanted) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("saved aggregate: {} {} found, {} is wanted", key,
                             printable(found->dump()), printable(wanted.dump())),
                 "other_rule"};
  }
  return {};
}

Result<std::vector<Contribution>> read_entries(const SafetensorsHeader& header,
                                               const Json& identity) {
  const auto text = header.metadata.find("aggregate");
  if (text == header.metadata.end() || header.metadata.size() != 1) {
    return bad_aggregate(
        fmt::format("{} metadata found, wanted \"aggregate\" only", header.metadata.size()));
  }
  const auto json = parse_json(text->second, {.bytes = kMostHeaderBytes, .depth = 8});
  if (!json) return bad_aggregate(json.error().message);
  if (!json->is_object()) return bad_aggregate("the metadatum is no object");
  MUSTER_TRY_STATUS(check_identity(*json, identity));

  JsonObject object(*json, "aggregate");
  for (const auto& [key, unused] : identity.items()) object.find(key);
  object.integer("format", {1, 1});
  const Json& entries = object.value("contributors");
  if (auto status = object.finish(); !status) return bad_aggregate(status.error().message);
  if (!entries.is_array()) {
    return bad_aggregate("contributors is " + describe(entries) + ", an array is wanted");
  }
  std::vector<Contribution> contributions;
  for (const Json& entry : entries) {
    auto contribution = contribution_from_json(
        entry, fmt::format("aggregate.contributors[{}]", contributions.size()));
    if (!contribution) return bad_aggregate(contribution.error().message);
    if (!contributions.empty() && contributions.back().contributor >= contribution->contributor) {
      return bad_aggregate(fmt::format("contributor {} is followed by {}",
                                       printable(contributions.back().contributor),
                                       printable(contribution->contributor)));
    }
    contributions.push_back(*std::move(contribution));
  }
  return contributions;
}

ValuesPtr values_in(ByteView bytes, const StateDict& global) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0) {
    return view_of(global.layout(),
                   {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
  }
  StateDict copy(global.layout_ptr());
  std::memcpy(copy.values().data(), bytes.data(), bytes.size());
  return values_of(std::move(copy));
}

}  // namespace

Json contributions_identity(const AggregationSettings& settings, const AggregationBase& base) {
  return {{"rule", to_json(settings)},
          {"content", base.content == UpdateContent::kState ? "state" : "delta"},
          {"base", state_digest(*base.global).hex()},
          {"population", base.population}};
}

Status write_contributions(const Json& identity, std::span<const Contribution> contributions,
                           std::int64_t elements, const Aggregator::ByteSink& sink) {
  Json aggregate = identity;
  aggregate["format"] = 1;
  aggregate["contributors"] = Json::array();
  std::vector<StateLayout::Entry> entries;
  for (const Contribution& contribution : contributions) {
    aggregate["contributors"].push_back(to_json(contribution));
    entries.push_back({tensor_name(entries.size(), contributions.size()), {elements}});
  }
  MUSTER_TRY(const LayoutPtr layout, StateLayout::create(std::move(entries)));
  MUSTER_TRY(const std::string header,
             safetensors_header(*layout, {{"aggregate", aggregate.dump()}}, kLimits));
  MUSTER_TRY_STATUS(sink(as_bytes(header)));
  const AlignedFloats scratch = make_aligned_floats(kBlock);
  for (const Contribution& contribution : contributions) {
    for (std::int64_t at = 0; at < elements; at += kBlock) {
      const std::int64_t count = std::min(kBlock, elements - at);
      const float* values = contribution.values->read(at, count, scratch.get());
      MUSTER_TRY_STATUS(sink(std::as_bytes(std::span(values, static_cast<std::size_t>(count)))));
    }
  }
  return {};
}

Result<std::vector<Contribution>> read_contributions(ByteView saved, const Json& identity,
                                                     const StateDict& global) {
  const auto header = parse_safetensors_header(saved, saved.size(), kLimits);
  if (!header) return bad_aggregate(header.error().message);
  MUSTER_TRY(std::vector<Contribution> contributions, read_entries(*header, identity));
  if (header->tensors.size() != contributions.size()) {
    return bad_aggregate(fmt::format("{} tensors found, {} are wanted", header->tensors.size(),
                                     contributions.size()));
  }
  const Shape shape{global.layout().num_elements()};
  for (std::size_t i = 0; i < contributions.size(); ++i) {
    const SafetensorsTensor& tensor = header->tensors[i];
    const std::string name = tensor_name(i, contributions.size());
    if (tensor.name != name || tensor.dtype != Dtype::kF32 || tensor.shape != shape) {
      return bad_aggregate(fmt::format("tensor {}: {} {} {} found, {} F32 {} is wanted", i,
                                       printable(tensor.name), to_string(tensor.dtype),
                                       to_string(tensor.shape), name, to_string(shape)));
    }
    contributions[i].values = values_in(
        saved.subspan(header->data_begin + tensor.begin, tensor.end - tensor.begin), global);
  }
  return contributions;
}

}  // namespace muster
