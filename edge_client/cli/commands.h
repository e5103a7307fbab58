#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace muster::cli {

// The exit codes that --help and docs/device-owners.md list.
enum ExitCode {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  kServerNotVerified = 3,
  kCertificateRejected = 4,
  kLocked = 5
};

int exit_code_of(const Error& error);

// The three commands: one function each, arguments as the user gave them. Errors carry their next
// step.
struct EnrollArguments {
  std::string server;
  std::string code;  // the code itself, "-" (from standard input) or "@FILE"
  std::filesystem::path folder;
  std::string name;
};
Status enroll_command(const EnrollArguments& arguments);

struct RunArguments {
  std::filesystem::path folder;
  std::string data;
  std::vector<std::string> tags;
  std::uint64_t exit_after = 0;
  bool quiet = false;
  bool json = false;
};
Status run_command(const RunArguments& arguments);

struct StatusArguments {
  std::filesystem::path folder;
  bool json = false;
};
Status status_command(const StatusArguments& arguments);

}  // namespace muster::cli
