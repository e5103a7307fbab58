#pragma once

#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tensor/safetensors.h"
#include "core/tensor/state.h"

// Where a command finds a model or a state, and where it leaves one.
namespace muster::cli {

// What a job may be long, in bytes.
inline constexpr std::uint64_t kJobFileLimitBytes = 1 << 20;

// A JSON file from outside. Errors: kInvalidArgument, reason `reason` for a file that cannot be
// read; the message names the file.
Result<Json> read_json_file(const std::filesystem::path& file, const std::string& reason);

// The resolved model that `source` names: a preset, or a file with a job, a model ({"preset":
// NAME},
// {"graph": {...}}, {"json": {...}} ...) or a graph. A preset's name wins over a file of that name:
// write "./mlp". Errors: kInvalidArgument; the message names the file, the field and the node.
Result<Json> read_model(const std::string& source);

// Errors: kInvalidArgument, reason "bad_model": more parameters than a job's model may have.
Status check_size(const StateLayout& layout);

// A state out of a safetensors file; `expected` as in read_state.
// Errors: as read_state and MappedFile::open; the message names the file.
Result<StateDict> read_state_file(const std::filesystem::path& file,
                                  const LayoutPtr& expected = nullptr);

// Writes a state, and texts beside it, durably as safetensors; the old file stays when it fails.
// Equal arguments give equal bytes, those of write_state. Of a model with so many tensors that no
// header has room for the texts, the state is written without them.
Status write_state_file(const std::filesystem::path& file, const StateDict& state,
                        const SafetensorsMetadata& metadata = {});

// Whether both names lead to one file, there or not yet.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// That a file can be written there, before the work that it is for: a temporary file is made in its
// folder and removed. Errors: kInvalidArgument, reason "bad_target".
Status check_writable(const std::filesystem::path& file);

// What is there and no regular file (a folder, a pipe) is not replaced.
// Errors: kInvalidArgument, reason "bad_target".
Status check_target(const std::filesystem::path& file);

}  // namespace muster::cli
