#include "edge_client/pending_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/file.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStatement = "statement.json";
constexpr const char* kAccepted = "accepted.json";
constexpr const char* kBody = "update.safetensors";

Result<protocol::UpdateStatement> read_statement(const fs::path& file) {
  MUSTER_TRY(const std::string text, read_file(file, 1 << 20));
  MUSTER_TRY(const Json json, parse_json(text));
  return protocol::update_statement_from_json(json);
}

}  // namespace

Result<PendingUpdate> PendingUpdate::open(const fs::path& folder, KeptStates kept) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Error{ErrorCode::kFailedPrecondition,
                 fmt::format("create {}: {}", folder.string(), error.message())};
  }
  return PendingUpdate(folder, std::move(kept));
}

std::optional<protocol::UpdateStatement> PendingUpdate::look(const fs::path& folder) {
  auto statement = read_statement(folder / kStatement);
  if (!statement) return std::nullopt;
  return *std::move(statement);
}

fs::path PendingUpdate::body() const {
  return folder_ / kBody;
}

std::optional<protocol::UpdateStatement> PendingUpdate::read() const {
  std::error_code none;
  if (fs::exists(folder_ / kAccepted, none)) {
    const auto accepted = read_statement(folder_ / kAccepted);
    if (accepted && finish_accept(accepted->job)) return std::nullopt;
    remove();
  }
  if (!fs::exists(folder_ / kStatement, none)) return std::nullopt;
  auto statement = read_statement(folder_ / kStatement);
  if (statement) {
    const auto mapped = MappedFile::open(body());
    if (mapped && sha256(mapped->bytes()) == statement->digest) return *std::move(statement);
  }
  remove();
  return std::nullopt;
}

Status PendingUpdate::write(protocol::UpdateStatement& statement, ByteView body_bytes,
                            std::span<const KeptState> kept) const {
  remove();
  statement.digest = sha256(body_bytes);
  for (const KeptState& state : kept) MUSTER_TRY_STATUS(write_kept(folder_, state));
  MUSTER_TRY_STATUS(write_file_durably(body(), body_bytes, 0600));
  return write_file_durably(folder_ / kStatement, as_bytes(protocol::statement_text(statement)),
                            0600);
}

Status PendingUpdate::accept(const std::string& job) const {
  std::error_code error;
  fs::rename(folder_ / kStatement, folder_ / kAccepted, error);
  (void)sync_folder(folder_).has_value();
  return finish_accept(job);
}

Status PendingUpdate::finish_accept(const std::string& job) const {
  Status taken = kept_.take(job, folder_);
  if (!taken) kept_.forget(job);
  remove();
  return taken;
}

void PendingUpdate::remove() const {
  std::error_code none;
  fs::remove(folder_ / kStatement, none);
  fs::remove(folder_ / kAccepted, none);
  (void)sync_folder(folder_).has_value();
  fs::remove(body(), none);
  for (const KeptKind kind : kKeptKinds) fs::remove(folder_ / kept_file_name(kind), none);
}

void remove_old_states(const fs::path& folder, std::size_t keep) {
  std::error_code none;
  std::vector<std::pair<fs::file_time_type, fs::path>> states;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".part") {
      fs::remove(entry.path(), none);
    } else if (entry.path().extension() == ".safetensors") {
      states.emplace_back(entry.last_write_time(none), entry.path());
    }
  }
  std::sort(states.rbegin(), states.rend());
  for (std::size_t i = keep; i < states.size(); ++i) fs::remove(states[i].second, none);
}

}  // namespace muster
