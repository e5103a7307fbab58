#include "server/cli/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/graph/presets.h"
#include "core/tensor/safetensors.h"

namespace muster::cli {
namespace {

Json model_of(Json json) {
  if (!json.is_object()) return json;
  if (json.contains("model")) return json["model"];
  if (json.contains("nodes")) return Json{{"graph", std::move(json)}};
  return json;
}

Result<Json> find_model(const std::string& source) {
  std::string known;
  for (const Preset& preset : presets()) {
    if (preset.name == source) return Json{{"preset", source}};
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  std::error_code unused;
  if (!std::filesystem::exists(source, unused)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("there is no file \"{}\", and no preset of that name; known: {}",
                             printable(source), known),
                 "bad_model"};
  }
  MUSTER_TRY(Json json, read_json_file(source, "bad_model"));
  return model_of(std::move(json));
}

}  // namespace

Result<Json> read_json_file(const std::filesystem::path& file, const std::string& reason) {
  const Result<std::string> text = read_file(file, kJobFileLimitBytes);
  if (!text) return Error{ErrorCode::kInvalidArgument, text.error().message, reason};
  MUSTER_TRY_IN(file.string(), Json json, parse_json(*text));
  return json;
}

Result<ModelSource> read_model(const std::string& source) {
  MUSTER_TRY(const Json found, find_model(source));
  MUSTER_TRY_IN(source, Json model, resolve_model(found));
  MUSTER_TRY_IN(source, Graph graph, graph_from_model(model));
  return ModelSource{.model = std::move(model), .graph = std::move(graph)};
}

StateDict first_state(const Graph& graph, std::uint64_t seed) {
  return graph.initial_state(derive_seed(seed, {"initial state"}));
}

Result<StateDict> read_state_file(const std::filesystem::path& file, const LayoutPtr& expected) {
  MUSTER_TRY(const MappedFile mapped, MappedFile::open(file));
  MUSTER_TRY_IN(file.string(), StateDict state, read_state(mapped.bytes(), expected));
  return state;
}

Status write_state_file(const std::filesystem::path& file, const StateDict& state,
                        const std::map<std::string, std::string>& metadata) {
  MUSTER_TRY_STATUS(check_target(file));
  if (metadata.empty()) return write_file_durably(file, write_state(state));
  // The canonical header, with the metadata before the first tensor and padded anew.
  constexpr std::size_t kLength = 8;
  std::string header = safetensors_header(state.layout()).substr(kLength);
  header.erase(header.find_last_not_of(' ') + 1);
  const bool has_tensors = header != "{}";
  header.insert(1, Json(std::string(kMetadataName)).dump() + ":" + Json(metadata).dump() +
                       (has_tensors ? "," : ""));
  header.append((64 - (kLength + header.size()) % 64) % 64, ' ');
  Bytes content(kLength);
  store_le64(header.size(), content);
  const ByteView text = as_bytes(header);
  content.insert(content.end(), text.begin(), text.end());
  const ByteView values = std::as_bytes(state.values());
  content.insert(content.end(), values.begin(), values.end());
  return write_file_durably(file, content);
}

Status check_target(const std::filesystem::path& file) {
  std::error_code unused;
  const std::filesystem::file_status target = std::filesystem::status(file, unused);
  if (!std::filesystem::exists(target) || std::filesystem::is_regular_file(target)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} is no regular file; name a file to write", file.string()),
               "bad_target"};
}

}  // namespace muster::cli
