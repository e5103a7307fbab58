#include "edge_client/kept_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/tensor/safetensors.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMethod = "method";
constexpr const char* kDigest = "digest";
// With metadata a header is longer than that of the model, which was taken.
constexpr SafetensorsLimits kLimits{.header_bytes = 16 << 20};

Error refused(std::string what) {
  return {ErrorCode::kDataLoss, std::move(what), "bad_kept_state"};
}

Result<StateDict> read_kept(const fs::path& file, std::string_view method,
                            const LayoutPtr& layout) {
  MUSTER_TRY(const MappedFile mapped, MappedFile::open(file));
  const ByteView bytes = mapped.bytes();
  MUSTER_TRY(const SafetensorsHeader header,
             parse_safetensors_header(bytes, bytes.size(), kLimits));
  const auto text = [&](const char* key) {
    const auto found = header.metadata.find(key);
    return found == header.metadata.end() ? std::string() : found->second;
  };
  if (text(kMethod) != method) {
    return refused(
        fmt::format("it is of \"{}\", \"{}\" is wanted", printable(text(kMethod)), method));
  }
  MUSTER_TRY(StateDict state, read_state(bytes, layout, kLimits));
  if (state_digest(state).hex() != text(kDigest)) return refused("it does not have its digest");
  MUSTER_TRY_STATUS(check_finite(state.layout(), state.values()));
  return state;
}

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return Error{ErrorCode::kFailedPrecondition,
               fmt::format("create {}: {}", folder.string(), error.message()), "file"};
}

}  // namespace

std::string kept_file_name(KeptKind kind) {
  return kind == KeptKind::kCorrection ? "correction.safetensors" : "residual.safetensors";
}

Status write_kept(const fs::path& folder, const KeptState& kept) {
  const SafetensorsMetadata metadata{{kMethod, kept.method},
                                     {kDigest, state_digest(kept.state).hex()}};
  MUSTER_TRY(const Bytes file, write_state(kept.state, metadata, kLimits));
  return write_file_durably(folder / kept_file_name(kept.kind), file, 0600);
}

std::optional<StateDict> KeptStates::read(
    const std::string& job, KeptKind kind, std::string_view method, const LayoutPtr& layout,
    const std::function<void(const std::string&)>& log) const {
  const fs::path file = folder_of(job) / kept_file_name(kind);
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  fs::last_write_time(folder_of(job), fs::file_time_type::clock::now(), none);
  auto state = read_kept(file, method, layout);
  if (state) return *std::move(state);
  fs::remove(file, none);
  log(fmt::format("the kept {} was removed, the training begins without it: {}",
                  file.filename().string(), state.error().message));
  return std::nullopt;
}

Status KeptStates::take(const std::string& job, const fs::path& from) const {
  const fs::path folder = folder_of(job);
  bool taken = false;
  for (const KeptKind kind : kKeptKinds) {
    const fs::path file = from / kept_file_name(kind);
    std::error_code error;
    if (!fs::exists(file, error)) continue;
    MUSTER_TRY_STATUS(make_folder(folder));
    fs::rename(file, folder / kept_file_name(kind), error);
    if (error) {
      return Error{
          ErrorCode::kInternal,
          fmt::format("move {} to {}: {}", file.string(), folder.string(), error.message()),
          "file"};
    }
    taken = true;
  }
  if (!taken) return {};
  MUSTER_TRY_STATUS(sync_folder(folder));
  MUSTER_TRY_STATUS(sync_folder(folder_));
  remove_old(job);
  return {};
}

void KeptStates::forget(const std::string& job) const {
  std::error_code none;
  fs::remove_all(folder_of(job), none);
}

void KeptStates::remove_old(const std::string& used) const {
  std::error_code none;
  std::vector<std::pair<fs::file_time_type, fs::path>> others;
  for (const auto& entry : fs::directory_iterator(folder_, none)) {
    if (entry.path().filename() == used || !entry.is_directory(none)) continue;
    others.emplace_back(entry.last_write_time(none), entry.path());
  }
  std::sort(others.rbegin(), others.rend());
  for (std::size_t i = kMostJobs - 1; i < others.size(); ++i)
    fs::remove_all(others[i].second, none);
}

}  // namespace muster
