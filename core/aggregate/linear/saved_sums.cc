#include "core/aggregate/linear/saved_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/tensor/safetensors.h"

namespace muster {
namespace {

constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{256} << 20;  // a million names

Error bad_aggregate(std::string message) {
  return {ErrorCode::kDataLoss, "saved aggregate: " + std::move(message), "bad_aggregate"};
}

// --- double-doubles as text ---

std::string text_of(const DoubleDouble& value) {
  return fmt::format("{:016x}{:016x}", std::bit_cast<std::uint64_t>(value.high),
                     std::bit_cast<std::uint64_t>(value.low));
}

Json texts_of(const std::vector<DoubleDouble>& values) {
  Json texts = Json::array();
  for (const DoubleDouble& value : values) texts.push_back(text_of(value));
  return texts;
}

// Errors: no such text, not finite, or below 0, which no sum of weights is.
Result<DoubleDouble> double_double_of(const Json& text) {
  DoubleDouble value;
  Bytes bytes;
  if (text.is_string()) {
    auto decoded = hex_decode(text.get_ref<const std::string&>());
    if (decoded) bytes = *std::move(decoded);
  }
  if (bytes.size() != 16) return bad_aggregate(describe(text) + " is no sum");
  std::reverse(bytes.begin(), bytes.begin() + 8);  // digits begin with the highest byte
  std::reverse(bytes.begin() + 8, bytes.end());
  value.high = std::bit_cast<double>(load_le64(ByteView(bytes).first(8)));
  value.low = std::bit_cast<double>(load_le64(ByteView(bytes).subspan(8)));
  if (!std::isfinite(value.high) || !std::isfinite(value.low) || value.high < 0) {
    return bad_aggregate(describe(text) + " is no finite sum of 0 or more");
  }
  return value;
}

Status read_all(const Json& texts, std::vector<DoubleDouble>& into, std::string_view what) {
  if (!texts.is_array() || texts.size() != into.size()) {
    return bad_aggregate(
        fmt::format("{} {} found, {} sums are wanted", what, printable(texts.dump()), into.size()));
  }
  for (std::size_t i = 0; i < into.size(); ++i) {
    MUSTER_TRY(into[i], double_double_of(texts[i]));
  }
  return {};
}

// --- the file ---

std::vector<std::string> tensor_names(std::size_t num_sums) {
  std::vector<std::string> names;
  for (const char* half : {"high", "low"}) {
    for (std::size_t i = 0; i < num_sums; ++i) names.push_back(fmt::format("{}/{}", half, i));
  }
  return names;
}

std::string header_of(const std::string& aggregate, std::size_t num_sums, std::int64_t elements) {
  Json header{{"__metadata__", {{"aggregate", aggregate}}}};
  std::int64_t at = 0;
  const std::int64_t bytes = elements * 8;
  for (const std::string& name : tensor_names(num_sums)) {
    header[name] = {{"dtype", "F64"}, {"shape", {elements}}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  std::string file(8, '\0');
  store_le64(text.size(), std::as_writable_bytes(std::span(file)));
  return file + text;
}

ByteView bytes_of(const std::vector<double>& values) {
  return std::as_bytes(std::span(values));
}

// The doubles of one tensor, which all have to be finite.
Status read_doubles(const SafetensorsHeader& header, ByteView saved, const std::string& name,
                    std::int64_t elements, std::vector<double>& into) {
  const auto found =
      std::find_if(header.tensors.begin(), header.tensors.end(),
                   [&](const SafetensorsTensor& tensor) { return tensor.name == name; });
  if (found == header.tensors.end()) return bad_aggregate(name + " is missing");
  if (found->dtype != Dtype::kF64 || found->shape != Shape{elements}) {
    return bad_aggregate(fmt::format("{} is {} {}, F64 [{}] is wanted", name,
                                     to_string(found->dtype), to_string(found->shape), elements));
  }
  into.resize(static_cast<std::size_t>(elements));
  const ByteView bytes = saved.subspan(header.data_begin + found->begin, found->end - found->begin);
  if (!into.empty()) std::memcpy(into.data(), bytes.data(), bytes.size());
  const auto bad =
      std::find_if_not(into.begin(), into.end(), [](double value) { return std::isfinite(value); });
  if (bad == into.end()) return {};
  return bad_aggregate(
      fmt::format("{} has the value {} at index {}", name, *bad, bad - into.begin()));
}

Status check_names(const std::vector<std::string>& names) {
  const auto unordered = std::adjacent_find(names.begin(), names.end(), std::greater_equal<>());
  if (unordered == names.end()) return {};
  return bad_aggregate(fmt::format("contributor {} is followed by {}", printable(*unordered),
                                   printable(*std::next(unordered))));
}

Status check_member(const Json& aggregate, const std::string& key, const Json& wanted) {
  const auto found = aggregate.find(key);
  if (found == aggregate.end()) return bad_aggregate(key + " is missing");
  if (*found == wanted) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("saved aggregate: {} {} found, {} is wanted", key,
                           printable(found->dump()), printable(wanted.dump())),
               "other_rule"};
}

// The rule first: aggregates of other rules have other members.
// Errors: kInvalidArgument, "other_rule"; kDataLoss, "bad_aggregate".
Status check_identity(const Json& aggregate, const Json& identity) {
  MUSTER_TRY_STATUS(check_member(aggregate, "rule", identity.at("rule")));
  for (const auto& [key, wanted] : identity.items()) {
    MUSTER_TRY_STATUS(check_member(aggregate, key, wanted));
  }
  return {};
}

}  // namespace

Json identity_of(const AggregationSettings& settings, const AggregationBase& base) {
  return {
      {"rule", to_json(settings)},
      {"content", base.content == UpdateContent::kState ? "state" : "delta"},
      {"base", state_digest(*base.global).hex()},
      {"rule_state", base.rule_state == nullptr ? "" : state_digest(*base.rule_state).hex()},
      {"population", base.population},
      {"local", {{"lr", base.local_lr}, {"momentum", base.local_momentum}, {"mu", base.local_mu}}}};
}

Status write_sums(const Json& identity, const std::vector<std::string>& contributors,
                  const FoldedSums& folded, std::int64_t elements,
                  const Aggregator::ByteSink& sink) {
  const auto sorted = [](std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    return names;
  };
  Json aggregate = identity;
  aggregate["format"] = 1;
  aggregate["contributors"] = contributors;
  aggregate["clipped"] = sorted(folded.totals.clipped);
  aggregate["filtered"] = sorted(folded.totals.filtered);
  aggregate["divisor"] = text_of(folded.totals.divisor);
  aggregate["weights"] = texts_of(folded.totals.weights);
  aggregate["scalars"] = texts_of(folded.totals.scalars);
  const std::string header = header_of(aggregate.dump(), folded.sums.size(), elements);
  MUSTER_TRY_STATUS(sink(as_bytes(header)));
  for (const PartialSums& sum : folded.sums) MUSTER_TRY_STATUS(sink(bytes_of(sum.high)));
  for (const PartialSums& sum : folded.sums) MUSTER_TRY_STATUS(sink(bytes_of(sum.low)));
  return {};
}

Result<SavedSums> read_sums(ByteView saved, const Json& identity, std::size_t num_sums,
                            std::size_t num_scalars, std::int64_t elements) {
  const auto header =
      parse_safetensors_header(saved, saved.size(), {.header_bytes = kMostHeaderBytes});
  if (!header) return bad_aggregate(header.error().message);
  const auto text = header->metadata.find("aggregate");
  if (text == header->metadata.end()) return bad_aggregate("no metadatum \"aggregate\"");
  const auto json = parse_json(text->second, {.bytes = kMostHeaderBytes, .depth = 8});
  if (!json) return bad_aggregate(json.error().message);
  if (!json->is_object()) return bad_aggregate("the metadatum is no object");
  MUSTER_TRY_STATUS(check_identity(*json, identity));

  JsonObject object(*json, "aggregate");
  for (const auto& [key, unused] : identity.items()) object.find(key);
  object.integer("format", {1, 1});
  SavedSums result{.folded = {.totals = Totals(num_sums, num_scalars), .sums = {}},
                   .contributors = object.texts("contributors", {})};
  Totals& totals = result.folded.totals;
  totals.clipped = object.texts("clipped", {});
  totals.filtered = object.texts("filtered", {});
  const Json& divisor = object.value("divisor");
  const Json& weights = object.value("weights");
  const Json& scalars = object.value("scalars");
  if (auto status = object.finish(); !status) return bad_aggregate(status.error().message);
  MUSTER_TRY(totals.divisor, double_double_of(divisor));
  MUSTER_TRY_STATUS(read_all(weights, totals.weights, "weights"));
  MUSTER_TRY_STATUS(read_all(scalars, totals.scalars, "scalars"));
  for (const auto* names : {&result.contributors, &totals.clipped, &totals.filtered}) {
    MUSTER_TRY_STATUS(check_names(*names));
  }

  const std::size_t sums = result.contributors.empty() ? 0 : num_sums;
  if (header->tensors.size() != 2 * sums) {
    return bad_aggregate(
        fmt::format("{} tensors found, {} are wanted", header->tensors.size(), 2 * sums));
  }
  result.folded.sums.resize(sums);
  for (std::size_t i = 0; i < sums; ++i) {
    PartialSums& sum = result.folded.sums[i];
    MUSTER_TRY_STATUS(read_doubles(*header, saved, fmt::format("high/{}", i), elements, sum.high));
    MUSTER_TRY_STATUS(read_doubles(*header, saved, fmt::format("low/{}", i), elements, sum.low));
  }
  return result;
}

}  // namespace muster
