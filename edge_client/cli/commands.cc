#include "edge_client/cli/commands.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <iostream>

#include "core/base/console.h"
#include "core/base/file.h"
#include "core/train/data/data_spec.h"
#include "core/train/stock_trainer.h"
#include "edge_client/agent.h"
#include "edge_client/cli/display.h"
#include "edge_client/cli/stop_signals.h"
#include "edge_client/client.h"
#include "edge_client/identity_files.h"
#include "edge_client/pending_update.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kCodeBytes = 4096;

Error advise(Error error, std::string_view step) {
  error.message += fmt::format(" ({})", step);
  return error;
}

Error with_next_step(Error error) {
  if (error.reason == "server_not_verified" || error.reason == "wrong_authority") {
    return advise(
        std::move(error),
        "check the address and this device's clock; if the server was set up anew, enrol again");
  }
  if (error.reason == "certificate_rejected") {
    return advise(std::move(error),
                  "the certificate may be expired or revoked: ask the operator for a new code and "
                  "enrol into a new folder");
  }
  if (error.reason == "locked") return advise(std::move(error), "stop the other muster-edge first");
  if (error.reason == "not_reachable")
    return advise(std::move(error), "is the server running, and the address right?");
  return error;
}

Result<std::string> read_code(const std::string& argument) {
  std::string text = argument;
  if (argument == "-") {
    std::getline(std::cin, text);
  } else if (argument.starts_with('@')) {
    MUSTER_TRY(text, read_file(argument.substr(1), kCodeBytes));
  }
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "the enrolment code is empty; it looks like muster1-...-..."};
  }
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string date(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  return gmtime_r(&seconds, &parts) == nullptr ? "" : fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

}  // namespace

int exit_code_of(const Error& error) {
  if (error.reason == "server_not_verified" || error.reason == "wrong_authority")
    return kServerNotVerified;
  if (error.reason == "certificate_rejected") return kCertificateRejected;
  if (error.reason == "locked") return kLocked;
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kFailure;
}

Status enroll_command(const EnrollArguments& arguments) {
  EnrollOptions options;
  options.folder = arguments.folder;
  options.name = arguments.name;
  MUSTER_TRY(options.server, ServerUrl::parse(arguments.server));
  MUSTER_TRY(options.code, read_code(arguments.code));
  const auto name = enroll(options);
  if (!name) return with_next_step(name.error());
  print(fmt::format(
      "Enrolled as {}. The key is in {} and does not leave it.\nNext: muster-edge run --dir {} "
      "--data SPEC\n",
      *name, (arguments.folder / identity_files::kKey).string(), arguments.folder.string()));
  return {};
}

Status run_command(const RunArguments& arguments) {
  // Before any thread starts, so that all of them leave these signals to the one that waits for
  // them.
  std::stop_source stop;
  const StopSignals signals(stop);
  MUSTER_TRY(const DeviceIdentity identity, DeviceIdentity::read(arguments.folder));
  MUSTER_TRY(LocalData data, load_data(arguments.data));
  StockTrainer trainer(std::move(data));
  AgentOptions options;
  options.folder = arguments.folder;
  options.tags = {arguments.tags.begin(), arguments.tags.end()};
  options.exit_after_tasks = arguments.exit_after;
  Display display(Display::choose_mode(arguments.quiet, arguments.json));
  auto ended = run_agent(identity, trainer, options, stop.get_token(),
                         [&](const AgentEvent& event) { display.show(event); });
  display.finish();
  return ended ? Status{} : with_next_step(std::move(ended).error());
}

Status status_command(const StatusArguments& arguments) {
  MUSTER_TRY(const DeviceIdentity identity, DeviceIdentity::read(arguments.folder));
  const auto lock = FileLock::acquire(arguments.folder / identity_files::kLock);
  const bool running = !lock && lock.error().reason == "locked";
  const auto waiting = PendingUpdate::look(arguments.folder / identity_files::kPending);

  const std::string from = date(identity.certificate.not_before());
  const std::string until = date(identity.certificate.not_after());
  const std::string authority = identity.authority.fingerprint().hex();
  if (arguments.json) {
    Json json{{"device", identity.name},
              {"server", identity.server.text()},
              {"running", running},
              {"valid_from", from},
              {"valid_until", until},
              {"authority", authority},
              {"serial", identity.certificate.serial()},
              {"pending", nullptr}};
    if (waiting) {
      json["pending"] = {
          {"job", waiting->job}, {"round", waiting->round}, {"digest", waiting->digest.hex()}};
    }
    print(json.dump(2) + "\n");
    return {};
  }
  print(fmt::format(
      "device       {}\nserver       {}\nrunning      {}\ncertificate  {} to {}, serial "
      "{}\nauthority    {}\n",
      identity.name, identity.server.text(), running ? "yes" : "no", from, until,
      identity.certificate.serial(), authority));
  if (waiting) {
    print(fmt::format("to be sent   update for round {} of {}\n", waiting->round, waiting->job));
  } else {
    print("to be sent   nothing\n");
  }
  return {};
}

}  // namespace muster::cli
