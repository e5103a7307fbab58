#include "server/directory.h"

#include <fmt/format.h>

#include <chrono>

#include "certs/authority.h"
#include "core/base/file.h"
#include "core/base/names.h"
#include "storage/store.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kConfigLimitBytes = 1 << 20;
constexpr std::chrono::hours kServerLifetime{24 * 825};
constexpr std::chrono::hours kOperatorLifetime{24 * 365};

Status check_host(const std::string& host) {
  const bool plain =
      host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:") ==
      std::string::npos;
  if (host.empty() || host.size() > 253 || !plain) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("host \"{}\" is no host name or address; wanted for example "
                             "fl.example.org or 192.0.2.7",
                             printable(host)),
                 "bad_host"};
  }
  return {};
}

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("make folder {}: {}", folder.string(), error.message()), "disk_error"};
  }
  return {};
}

Status write_identity(const fs::path& folder, const std::string& stem, const KeyPair& pair,
                      const Certificate& authority) {
  MUSTER_TRY_STATUS(make_folder(folder));
  MUSTER_TRY_STATUS(pair.key.write(folder / (stem + ".key")));
  MUSTER_TRY_STATUS(write_file_durably(folder / (stem + ".pem"), as_bytes(pair.certificate.pem())));
  return write_file_durably(folder / "authority.pem", as_bytes(authority.pem()));
}

}  // namespace

std::string url_host(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

Result<ServerConfig> server_config_from_json(const Json& json) {
  ServerConfig config;
  JsonObject object(json, "muster.json");
  config.hosts = object.texts("hosts", {});
  config.bind_address = object.text("bind_address", config.bind_address);
  config.api_port = static_cast<int>(object.integer("api_port", config.api_port, {0, 65535}));
  config.enroll_port =
      static_cast<int>(object.integer("enroll_port", config.enroll_port, {0, 65535}));
  config.enrolment_open = object.boolean("enrolment_open", config.enrolment_open);
  config.worker_threads = object.integer("worker_threads", config.worker_threads, {1, 256});
  config.max_connections =
      object.integer("max_connections", config.max_connections, {1, 1'000'000});
  config.max_examples =
      object.integer("max_examples", config.max_examples, {1, std::int64_t{1} << 40});
  config.max_state_bytes =
      object.integer("max_state_bytes", config.max_state_bytes, {1, std::int64_t{1} << 42});
  config.device_certificate_days =
      object.integer("device_certificate_days", config.device_certificate_days, {1, 3650});
  if (config.hosts.empty()) object.fail("hosts", "is empty; wanted at least one name or address");
  MUSTER_TRY_STATUS(object.finish());
  for (const std::string& host : config.hosts) MUSTER_TRY_STATUS(check_host(host));
  return config;
}

Json to_json(const ServerConfig& config) {
  return Json{{"hosts", config.hosts},
              {"bind_address", config.bind_address},
              {"api_port", config.api_port},
              {"enroll_port", config.enroll_port},
              {"enrolment_open", config.enrolment_open},
              {"worker_threads", config.worker_threads},
              {"max_connections", config.max_connections},
              {"max_examples", config.max_examples},
              {"max_state_bytes", config.max_state_bytes},
              {"device_certificate_days", config.device_certificate_days}};
}

Status init_directory(const InitOptions& options) {
  if (options.hosts.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "no host given; wanted the name or address that devices will call, for example "
                 "--host fl.example.org",
                 "bad_host"};
  }
  for (const std::string& host : options.hosts) MUSTER_TRY_STATUS(check_host(host));
  if (options.api_port == options.enroll_port && options.api_port != 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("API and enrolment port are both {}; wanted two ports", options.api_port),
        "bad_port"};
  }
  std::error_code error;
  if (fs::exists(options.root, error) && !fs::is_empty(options.root, error)) {
    const std::string root = options.root.string();
    const bool served = fs::exists(ServerDirectory{options.root}.config(), error);
    return Error{
        ErrorCode::kAlreadyExists,
        served ? fmt::format("{0} is a server's directory already; run it with `muster serve {0}`",
                             root)
               : fmt::format("{} is not empty; name a new directory (an init that did not finish "
                             "can be removed)",
                             root),
        "directory_not_empty"};
  }
  const ServerDirectory directory{options.root};
  for (const fs::path& folder : {directory.root, directory.states(), directory.updates(),
                                 directory.spool(), directory.authority()}) {
    MUSTER_TRY_STATUS(make_folder(folder));
  }

  const WallTime now = std::chrono::system_clock::now();
  MUSTER_TRY(const Authority authority, Authority::create(now));
  MUSTER_TRY_STATUS(authority.write(directory.authority()));
  MUSTER_TRY(const KeyPair server, issue_key_pair(authority, {Role::kServer, "server"}, now,
                                                  kServerLifetime, options.hosts));
  MUSTER_TRY_STATUS(
      write_identity(directory.server_identity(), "server", server, authority.certificate()));
  MUSTER_TRY(const KeyPair admin,
             issue_key_pair(authority, {Role::kOperator, "operator"}, now, kOperatorLifetime));
  MUSTER_TRY_STATUS(
      write_identity(directory.operator_identity(), "operator", admin, authority.certificate()));
  const Json operator_json{
      {"server", fmt::format("https://{}:{}", url_host(options.hosts.front()), options.api_port)}};
  MUSTER_TRY_STATUS(write_file_durably(directory.operator_identity() / "operator.json",
                                       as_bytes(operator_json.dump(2) + "\n")));

  MUSTER_TRY(const auto store, Store::open(directory.database(), /*create=*/true));
  EventRow event;
  event.at_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  event.kind = "server_initialised";
  event.details =
      Json{{"hosts", options.hosts}, {"authority", authority.certificate().fingerprint().hex()}};
  MUSTER_TRY_STATUS(store->add_event(event));

  // The config file comes last: a directory without it is an init that did not finish.
  ServerConfig config;
  config.hosts = options.hosts;
  config.api_port = options.api_port;
  config.enroll_port = options.enroll_port;
  return write_file_durably(directory.config(), as_bytes(to_json(config).dump(2) + "\n"));
}

Status empty_folder(const fs::path& folder) {
  MUSTER_TRY_STATUS(make_folder(folder));
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code of_entry;
    fs::remove_all(entry->path(), of_entry);
    if (of_entry) error = of_entry;
  }
  if (!error) return {};
  return Error{ErrorCode::kUnavailable,
               fmt::format("empty folder {}: {}", folder.string(), error.message()), "disk_error"};
}

Result<ServerConfig> read_server_config(const ServerDirectory& directory) {
  std::error_code error;
  if (!fs::exists(directory.config(), error)) {
    return Error{
        ErrorCode::kNotFound,
        fmt::format(
            "{} has no muster.json; make a server's directory with `muster init {} --host NAME`",
            directory.root.string(), directory.root.string()),
        "no_server_directory"};
  }
  MUSTER_TRY(const std::string text, read_file(directory.config(), kConfigLimitBytes));
  MUSTER_TRY_IN(directory.config().string(), const Json json, parse_json(text));
  return server_config_from_json(json);
}

Result<OperatorFolder> OperatorFolder::find(const fs::path& path) {
  for (const fs::path& folder : {path / "operator", path}) {
    std::error_code error;
    if (!fs::exists(folder / "operator.json", error)) continue;
    MUSTER_TRY(const std::string text, read_file(folder / "operator.json", kConfigLimitBytes));
    MUSTER_TRY_IN((folder / "operator.json").string(), const Json json, parse_json(text));
    JsonObject object(json, (folder / "operator.json").string());
    OperatorFolder found{folder, object.text("server")};
    MUSTER_TRY_STATUS(object.finish());
    return found;
  }
  return Error{
      ErrorCode::kNotFound,
      fmt::format("{} holds no operator.json; name the server's directory (or a copy of its "
                  "operator folder) with --dir or MUSTER_DIR",
                  path.string()),
      "no_operator_folder"};
}

}  // namespace muster
