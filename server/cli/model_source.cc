#include "server/cli/model_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/base/file.h"
#include "core/graph/model.h"
#include "core/graph/presets.h"
#include "core/strategy/job.h"

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

Result<Json> read_model(const std::string& source) {
  MUSTER_TRY(const Json found, find_model(source));
  MUSTER_TRY_IN(source, Json model, resolve_model(found));
  return model;
}

Status check_size(const StateLayout& layout) {
  const std::int64_t parameters = layout.num_elements();
  if (parameters <= kMaxModelParameters) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the model has {} parameters, at most {} are wanted", parameters,
                           kMaxModelParameters),
               "bad_model"};
}

Result<StateDict> read_state_file(const std::filesystem::path& file, const LayoutPtr& expected) {
  MUSTER_TRY(const MappedFile mapped, MappedFile::open(file));
  MUSTER_TRY_IN(file.string(), StateDict state, read_state(mapped.bytes(), expected));
  return state;
}

Status write_state_file(const std::filesystem::path& file, const StateDict& state,
                        const std::map<std::string, std::string>& metadata) {
  MUSTER_TRY_STATUS(check_target(file));
  const Result<Bytes> content = write_state(state, metadata);
  if (content) return write_file_durably(file, *content);
  if (content.error().code != ErrorCode::kResourceExhausted) return content.error();
  return write_file_durably(file, write_state(state));
}

bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code failed;
  if (std::filesystem::equivalent(a, b, failed)) return true;
  const std::filesystem::path first = std::filesystem::weakly_canonical(a, failed);
  if (failed) return false;
  return first == std::filesystem::weakly_canonical(b, failed) && !failed;
}

Status check_writable(const std::filesystem::path& file) {
  const auto refused = [&](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cannot write {}: {}", file.string(), why), "bad_target"};
  };
  std::error_code failed;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, failed))
    return refused(folder.string() + " is no folder");
  // A name that is too long, for one.
  if (std::filesystem::status(file, failed).type() == std::filesystem::file_type::none)
    return refused(failed.message());
  MUSTER_TRY_STATUS(check_target(file));
  std::string temporary = (folder / ".muster-write-XXXXXX").string();
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return refused(std::generic_category().message(errno));
  ::close(descriptor);
  ::unlink(temporary.c_str());
  return {};
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
