#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

// muster.json: what an operator may change. Every field has a default; unknown ones are refused.
struct ServerConfig {
  std::vector<std::string>
      hosts;  // names and addresses the server is called by; in its certificate
  std::string bind_address = "0.0.0.0";
  int api_port = 8443;
  int enroll_port = 8444;
  bool enrolment_open = true;  // false: no enrolment port at all
  std::int64_t worker_threads = 4;
  std::int64_t max_connections = 4096;
  std::int64_t max_examples = 10'000'000;  // cap on one update's weight
  std::int64_t max_state_bytes = 4'000'000'000;
  std::int64_t device_certificate_days = 90;
};

Result<ServerConfig> server_config_from_json(const Json& json);
Json to_json(const ServerConfig& config);

// Where things lie in the one directory of a server. Pure names; nothing is touched.
struct ServerDirectory {
  std::filesystem::path root;

  std::filesystem::path config() const { return root / "muster.json"; }
  std::filesystem::path database() const { return root / "muster.db"; }
  std::filesystem::path states() const { return root / "states"; }
  std::filesystem::path updates() const { return root / "updates"; }
  std::filesystem::path spool() const { return root / "spool"; }
  std::filesystem::path authority() const { return root / "authority"; }
  std::filesystem::path server_identity() const { return root / "server"; }
  std::filesystem::path operator_identity() const { return root / "operator"; }
};

// A host as it stands in a URL: IPv6 addresses in brackets.
std::string url_host(const std::string& host);

struct InitOptions {
  std::filesystem::path root;
  std::vector<std::string> hosts;  // at least one
  int api_port = 8443;
  int enroll_port = 8444;
};

// Makes a server's directory: authority, server and operator certificates, database, config file.
// The directory (mode 0700) may exist when it is empty. Errors: kAlreadyExists when it is not
// empty; kInvalidArgument for a host that is no name or address.
Status init_directory(const InitOptions& options);

// Makes the folder where it is missing and removes what it holds.
Status empty_folder(const std::filesystem::path& folder);

// Errors: kNotFound with the command that makes one.
Result<ServerConfig> read_server_config(const ServerDirectory& directory);

// What a command needs to call a server as an operator: operator.json, operator.key, operator.pem,
// authority.pem in one folder. `init_directory` makes it inside the server's directory; the folder
// can be copied to another machine.
struct OperatorFolder {
  std::filesystem::path folder;
  std::string server_url;

  // `path` is such a folder, or a server's directory. Errors: kNotFound with the next step.
  static Result<OperatorFolder> find(const std::filesystem::path& path);
};

}  // namespace muster
