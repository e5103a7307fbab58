#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>

#include "core/base/console.h"
#include "edge_client/cli/commands.h"

namespace {

using namespace muster::cli;

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0  done, or stopped by SIGTERM or SIGINT\n"
    "  1  failure\n"
    "  2  wrong usage or bad input\n"
    "  3  the server could not be verified (another authority, another host, expired); nothing was "
    "sent\n"
    "  4  the server rejected this device's certificate\n"
    "  5  another muster-edge works in this folder\n";

// Keys are in memory: a crash must not write them to a disk.
void forbid_core_files() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

CLI::App* add_command(CLI::App& app, const char* name, const char* text, const char* example) {
  CLI::App* command = app.add_subcommand(name, text);
  command->footer(fmt::format("Example:\n  {}\n\n{}", example, kExitCodes));
  return command;
}

int run(int argc, char** argv) {
  CLI::App app("The device's side of Muster: trains models on data that stays here.",
               "muster-edge");
  app.require_subcommand(1);
  app.footer(kExitCodes);

  EnrollArguments enroll;
  CLI::App* enroll_app = add_command(
      app, "enroll", "Make a key and get this device's certificate with a one-time code.",
      "muster-edge enroll --server https://fl.example.org:8444 --code @code.txt --dir ~/muster");
  enroll_app
      ->add_option("--server", enroll.server, "The server's enrolment address, https://HOST:PORT")
      ->required();
  enroll_app
      ->add_option(
          "--code", enroll.code,
          "The code from the operator; '-' reads it from standard input, '@FILE' from a file")
      ->required();
  enroll_app->add_option("--dir", enroll.folder, "The device's folder; made when it is not there")
      ->required();
  enroll_app->add_option("--name", enroll.name, "The device's name (default: from its key)");

  RunArguments run;
  CLI::App* run_app = add_command(
      app, "run", "Wait for work, train, send the result; until stopped.",
      "muster-edge run --dir ~/muster --data 'csv:meter.csv;target=load;targets=values'");
  run_app->add_option("--dir", run.folder, "The device's folder, as given to enroll")->required();
  run_app
      ->add_option("--data", run.data,
                   "The data to train on: idx:IMAGES,LABELS or csv:FILE;target=COLUMN "
                   "(docs/device-owners.md)")
      ->required();
  run_app
      ->add_option(
          "--tags", run.tags,
          "What this device says of itself: a,b (jobs select by the tags of its enrolment code)")
      ->delimiter(',');
  run_app->add_option("--exit-after", run.exit_after, "End after this many tasks (0: never)");
  auto* quiet = run_app->add_flag("--quiet", run.quiet, "Print warnings and errors only");
  run_app->add_flag("--json", run.json, "Print one JSON object per event to standard output")
      ->excludes(quiet);

  StatusArguments status;
  CLI::App* status_app =
      add_command(app, "status", "Show this device's identity and what waits to be sent.",
                  "muster-edge status --dir ~/muster --json");
  status_app->add_option("--dir", status.folder, "The device's folder")->required();
  status_app->add_flag("--json", status.json, "Print JSON");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kUsage;
    return muster::check_printed() ? kOk : kFailure;  // the help
  }
  muster::Status done;
  if (*enroll_app) done = enroll_command(enroll);
  if (*run_app) done = run_command(run);
  if (*status_app) done = status_command(status);
  // What was printed must have arrived; a command's own error comes first.
  const muster::Status printed = muster::check_printed();
  if (done) done = printed;
  if (done) return kOk;
  muster::say(fmt::format("muster-edge: {}\n", done.error().message));
  return exit_code_of(done.error());
}

}  // namespace

int main(int argc, char** argv) {
  muster::hold_standard_streams();
  forbid_core_files();
  try {
    return run(argc, argv);
  } catch (const std::exception& exception) {
    muster::say(fmt::format("muster-edge: {}\n", exception.what()));
    return kFailure;
  }
}
