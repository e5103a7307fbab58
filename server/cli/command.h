#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "core/base/error.h"

// The `muster` program: one file a group of commands, each adding its subcommands to the parser and
// leaving what the chosen one does in `Command::run`.
namespace muster::cli {

// Exit codes, as `muster --help` lists them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the server or the disk said no
inline constexpr int kExitUsage = 2;   // the command line or an input file is wrong
inline constexpr int kExitNotVerified =
    3;  // the server could not be verified, or refused our certificate
inline constexpr int kExitUnreachable = 4;  // no connection to the server, or it cannot answer now

int exit_code(const Error& error);

// What the chosen command shares with main. Lives for the whole program.
struct Command {
  std::filesystem::path directory;  // --dir, MUSTER_DIR, or the current directory
  bool json = false;                // --json
  bool is_local = false;            // the command calls no server
  std::function<Status()> run;      // set by the subcommand that was chosen
};

// A subcommand with an example below its help and, where it prints data, --json.
CLI::App* add_command(CLI::App& group, const std::string& name, const std::string& description,
                      const std::string& example);
// A group of subcommands ("job") with an example.
CLI::App* add_group(CLI::App& app, const std::string& name, const std::string& description,
                    const std::string& example);
void add_json_flag(CLI::App& command, Command& shared);
void add_directory_option(CLI::App& command, Command& shared);

void add_init_command(CLI::App& app, Command& shared);
void add_serve_command(CLI::App& app, Command& shared);
void add_token_commands(CLI::App& app, Command& shared);
void add_job_commands(CLI::App& app, Command& shared);
void add_round_commands(CLI::App& app, Command& shared);
void add_device_commands(CLI::App& app, Command& shared);
void add_model_commands(CLI::App& app, Command& shared);
void add_fit_command(CLI::App& app, Command& shared);

}  // namespace muster::cli
