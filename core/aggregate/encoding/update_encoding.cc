#include "core/aggregate/encoding/update_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/aggregate/encoding/body.h"
#include "core/base/zstd.h"

namespace muster {
namespace {

using Format = UpdateEncoding::Format;

struct FormatRow {
  Format format;
  const char* name;
  UpdateContent content;  // default
};
constexpr std::array<FormatRow, 5> kFormats{{{Format::kFloat32, "float32", UpdateContent::kState},
                                             {Format::kFloat16, "float16", UpdateContent::kState},
                                             {Format::kBFloat16, "bfloat16", UpdateContent::kState},
                                             {Format::kInt8, "int8", UpdateContent::kDelta},
                                             {Format::kTopK, "top_k", UpdateContent::kDelta}}};

constexpr const char* kState = "state";
constexpr const char* kDelta = "delta";
constexpr JsonObject::NumberRange kFraction{std::numeric_limits<double>::min(), 1.0};

const FormatRow& row_of(Format format) {
  return kFormats[static_cast<std::size_t>(format)];
}

const FormatRow& read_format(JsonObject& object) {
  std::vector<std::string> names;
  for (const FormatRow& row : kFormats) names.emplace_back(row.name);
  const std::string name = object.choice("format", names);
  const auto row = std::find_if(kFormats.begin(), kFormats.end(),
                                [&](const FormatRow& each) { return each.name == name; });
  return row == kFormats.end() ? kFormats.front() : *row;
}

const char* content_name(UpdateContent content) {
  return content == UpdateContent::kState ? kState : kDelta;
}

}  // namespace

Result<UpdateEncoding> update_encoding_from_json(const Json& json, const std::string& where) {
  UpdateEncoding encoding;
  JsonObject object(json, where);
  const FormatRow& row = read_format(object);
  encoding.format = row.format;
  encoding.content = row.content;
  if (object.find("content") != nullptr) {
    const std::string content = object.choice("content", {kState, kDelta});
    encoding.content = content == kDelta ? UpdateContent::kDelta : UpdateContent::kState;
  }
  if (encoding.format == Format::kTopK) {
    if (object.ok() && encoding.content != UpdateContent::kDelta) {
      object.fail("content", "\"state\" found; top_k sends changes only, \"delta\" is wanted");
    }
    encoding.fraction = object.number("fraction", kFraction);
  }
  if (object.find("compression") != nullptr) {
    encoding.compressed = object.choice("compression", {"none", "zstd"}) == "zstd";
  }
  if (encoding.compressed) encoding.level = object.integer("level", encoding.level, {1, 19});
  MUSTER_TRY_STATUS(object.finish());
  return encoding;
}

Json to_json(const UpdateEncoding& encoding) {
  Json json = {{"format", row_of(encoding.format).name},
               {"content", content_name(encoding.content)},
               {"compression", encoding.compressed ? "zstd" : "none"}};
  if (encoding.format == Format::kTopK) json["fraction"] = encoding.fraction;
  if (encoding.compressed) json["level"] = encoding.level;
  return json;
}

std::string describe(const UpdateEncoding& encoding) {
  std::string text = row_of(encoding.format).name;
  if (encoding.format == Format::kTopK) text += fmt::format(" {}", encoding.fraction);
  if (encoding.content == UpdateContent::kDelta) text += " delta";
  if (encoding.compressed) text += ", zstd";
  return text;
}

std::int64_t top_k_count(double fraction, std::int64_t elements) {
  const double count = std::ceil(fraction * static_cast<double>(elements));
  return std::min(std::max<std::int64_t>(1, static_cast<std::int64_t>(count)), elements);
}

std::uint64_t encoded_bytes(const UpdateEncoding& encoding, const StateLayout& layout) {
  const auto tensors = update_body::tensors_of(encoding, layout);
  return safetensors_header(tensors).size() + (tensors.empty() ? 0 : tensors.back().end);
}

std::uint64_t most_body_bytes(const UpdateEncoding& encoding, const StateLayout& layout) {
  const std::uint64_t most = encoded_bytes(encoding, layout) + update_body::kHeaderSlack;
  return encoding.compressed ? zstd_bound(most) : most;
}

}  // namespace muster
