#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <new>

#include "core/base/bytes.h"
#include "core/base/console.h"
#include "server/cli/command.h"

namespace muster::cli {

int exit_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return kExitUsage;
    case ErrorCode::kUnauthenticated:
      return kExitNotVerified;
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
      return kExitUnreachable;
    default:
      return kExitFailed;
  }
}

CLI::App* add_command(CLI::App& group, const std::string& name, const std::string& description,
                      const std::string& example) {
  CLI::App* command = group.add_subcommand(name, description);
  command->footer("\nExample:\n  " + example);
  return command;
}

CLI::App* add_group(CLI::App& app, const std::string& name, const std::string& description,
                    const std::string& example) {
  CLI::App* group = add_command(app, name, description, example);
  group->require_subcommand(1);
  return group;
}

void add_json_flag(CLI::App& command, Command& shared) {
  command.add_flag("--json", shared.json, "Print JSON instead of a table");
}

void add_directory_option(CLI::App& command, Command& shared) {
  // Not the parser's envname: for a nested command that one wins over the option.
  command.add_option("--dir", shared.directory,
                     "Server's directory, or a copy of its operator folder (default: $MUSTER_DIR, "
                     "else the current directory)");
}

namespace {

constexpr const char* kFooter =
    "\nExample:\n"
    "  muster init fl --host localhost && muster serve fl\n"
    "\nExit codes: 0 done, 1 refused or failed, 2 wrong command line or input, 3 the server could "
    "not be\n"
    "verified or refused our certificate, 4 the server could not be reached or cannot answer now.";

// The parser calls a mistyped command a missing one; this names it and the known ones.
Status check_command_words(const CLI::App& app, int argc, char** argv) {
  const CLI::App* group = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const std::vector<const CLI::App*> known =
        group->get_subcommands([](const CLI::App*) { return true; });
    if (known.empty()) return {};
    const auto chosen = std::ranges::find_if(
        known, [&](const CLI::App* command) { return command->get_name() == argv[i]; });
    if (chosen == known.end()) {
      std::string names;
      for (const CLI::App* command : known)
        names += (names.empty() ? "" : ", ") + command->get_name();
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("\"{}\" is no command of {}; known: {}", printable(argv[i]),
                               group->get_name(), names)};
    }
    group = *chosen;
  }
  return {};
}

// A server of another version may answer in another form: that is an error, not a crash.
Status run_guarded(const Command& shared) {
  try {
    return shared.run();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kResourceExhausted,
                 "there is not enough memory: a smaller model or batch takes less"};
  } catch (const std::exception& unexpected) {
    return Error{ErrorCode::kInternal,
                 fmt::format("unexpected answer or failure: {}", unexpected.what())};
  }
}

// What a command has printed must have arrived; its own error comes first.
Status with_output(Status done) {
  const Status printed = check_printed();
  return done ? printed : done;
}

int run_program(int argc, char** argv) {
  hold_standard_streams();
  // A crash must not leave keys in a core file.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGPIPE,
              SIG_IGN);  // a peer that hangs up is an error of the call, not of the process

  CLI::App app{"muster: run a federated learning server, submit jobs, read rounds", "muster"};
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("muster 0.1.0"));
  app.require_subcommand(1);
  Command shared;
  const char* from_environment = std::getenv("MUSTER_DIR");
  shared.directory =
      from_environment != nullptr && *from_environment != '\0' ? from_environment : ".";
  add_init_command(app, shared);
  add_serve_command(app, shared);
  add_token_commands(app, shared);
  add_job_commands(app, shared);
  add_round_commands(app, shared);
  add_device_commands(app, shared);
  add_model_commands(app, shared);
  add_fit_command(app, shared);

  if (const Status known = check_command_words(app, argc, argv); !known) {
    say(fmt::format("muster: {}\n", known.error().message));
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kExitUsage;
    shared.run = [] { return Status(); };  // the help is printed
  }
  const Status done = with_output(run_guarded(shared));
  if (done) return kExitOk;
  say(fmt::format("muster: {}\n", done.error().message));
  if (done.error().code == ErrorCode::kUnavailable && !shared.is_local) {
    say("is `muster serve` running there?\n");
  }
  return shared.is_local && done.error().code == ErrorCode::kUnavailable ? kExitFailed
                                                                         : exit_code(done.error());
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  return muster::cli::run_program(argc, argv);
}
