#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include "server/cli/command.h"
#include "server/cli/text.h"
#include "server/directory.h"
#include "server/server.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kStopGrace{30};

struct ServeOptions {
  std::filesystem::path root;
  bool verbose = false;
};

Status init(const InitOptions& options) {
  MUSTER_TRY_STATUS(init_directory(options));
  print(fmt::format(
      "made {0}: authority, server and operator certificates, database and muster.json\n"
      "  keep {0}/authority/authority.key safe: whoever has it can add devices and operators\n"
      "next:\n"
      "  muster serve {0}\n"
      "  muster token create --dir {0} --uses 10 --ttl 1h\n",
      options.root.string()));
  return {};
}

Status serve(const ServeOptions& options) {
  // Blocked before any thread starts, so that every thread inherits it and only sigwait below sees
  // them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  auto log = std::make_shared<spdlog::logger>(
      "muster", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  log->set_level(options.verbose ? spdlog::level::debug : spdlog::level::info);
  log->flush_on(spdlog::level::info);

  const auto fatal = [log](const Error& error) {
    log->critical("{}", error.message);
    log->flush();
    std::_Exit(kExitFailed);
  };
  MUSTER_TRY(const std::unique_ptr<Server> server,
             Server::start({options.root, log, nullptr, fatal}));
  const std::string& host = server->config().hosts.front();
  log->info("serving {} on https://{}:{} (operators, devices)", options.root.string(), host,
            server->api_port());
  if (server->enroll_port() != 0)
    log->info("enrolment on https://{}:{}", host, server->enroll_port());
  const std::string enrolment = server->enroll_port() != 0
                                    ? fmt::format("enrolment on port {}", server->enroll_port())
                                    : "enrolment closed";
  print(fmt::format("muster serves {} on https://{}:{}, {}; Ctrl-C stops it\n",
                    options.root.string(), host, server->api_port(), enrolment));

  int received = 0;
  sigwait(&signals, &received);
  log->info("stopping: running requests have {} s; a second signal ends at once",
            kStopGrace.count());
  pthread_sigmask(SIG_UNBLOCK, &signals,
                  nullptr);  // the second one gets the default: the process ends
  server->stop(kStopGrace);
  log->info("stopped");
  return {};
}

}  // namespace

void add_init_command(CLI::App& app, Command& shared) {
  CLI::App* command = add_command(
      app, "init", "Make a server's directory: authority, certificates, database, config file",
      "muster init fl --host fl.example.org --host 192.0.2.7");
  auto options = std::make_shared<InitOptions>();
  command->add_option("directory", options->root, "New or empty directory")->required();
  command
      ->add_option("--host", options->hosts, "Name or address that devices will call (repeatable)")
      ->required();
  command->add_option("--port", options->api_port, "API port")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command->add_option("--enroll-port", options->enroll_port, "Enrolment port")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command->callback([&shared, options] {
    shared.is_local = true;
    shared.run = [options] { return init(*options); };
  });
}

void add_serve_command(CLI::App& app, Command& shared) {
  CLI::App* command = add_command(
      app, "serve", "Run the server on a directory that `muster init` made", "muster serve fl");
  auto options = std::make_shared<ServeOptions>();
  command->add_option("directory", options->root, "The server's directory")->required();
  command->add_flag("--verbose", options->verbose, "Log every request");
  command->callback([&shared, options] {
    shared.is_local = true;
    shared.run = [options] { return serve(*options); };
  });
}

}  // namespace muster::cli
