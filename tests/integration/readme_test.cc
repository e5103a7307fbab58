#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

#include "core/base/file.h"
#include "tests/support/federation.h"
#include "tests/support/process.h"

// What the README and --help show, done: the commands of "The same by hand" as they stand there,
// the help of every command, the JSON of every command that has --json, and the example trainer.
namespace muster {
namespace {

using muster::testing::free_port;
using muster::testing::Outcome;
using muster::testing::Process;
using muster::testing::run;
using muster::testing::take;
using muster::testing::TemporaryFolder;
using muster::testing::write_csv;

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// --- the README ---

std::string readme() {
  return take(read_file(fs::path(MUSTER_SOURCE_DIR) / "README.md", 1 << 20));
}

// The ```sh blocks under a heading, up to the next heading of the same level, one after the other.
std::string shell_blocks(const std::string& text, const std::string& heading) {
  std::istringstream lines(text);
  std::string commands;
  bool in_section = false;
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (!in_block && line.starts_with("## ")) in_section = line == "## " + heading;
    if (!in_section) continue;
    if (line == "```sh") {
      in_block = true;
    } else if (line == "```") {
      in_block = false;
    } else if (in_block) {
      commands += line + "\n";
    }
  }
  return commands;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("the README has no \"" + from + "\"");
  text.replace(at, from.size(), to);
}

TEST(Readme, TheCommandsByHandRunAsTheyStand) {
  const TemporaryFolder folder;
  std::string commands = shell_blocks(readme(), "The same by hand");
  ASSERT_NE(commands, "");
  const int port = free_port();
  const int enroll_port = free_port();
  const std::string here = (folder.path() / "by-hand").string();
  fs::create_directory(here);
  // Where things are and what ports are free differ; nothing else does.
  replace(commands, "$PWD/build/release/server:$PWD/build/release/edge_client",
          fs::path(MUSTER_BINARY).parent_path().string() + ":" +
              fs::path(MUSTER_EDGE_BINARY).parent_path().string());
  replace(commands, "\"$(mktemp -d)\"", "'" + here + "'");
  replace(
      commands, "muster init fl --host localhost",
      fmt::format("muster init fl --host localhost --port {} --enroll-port {}", port, enroll_port));
  replace(commands, "localhost:8444", fmt::format("localhost:{}", enroll_port));
  const fs::path script = folder.path() / "by-hand.sh";
  std::ofstream(script) << "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n" << commands;

  // timeout ends the whole process group: nothing stays, whatever goes wrong.
  const Outcome outcome =
      run({"/usr/bin/timeout", "-k", "5", "110", "/bin/bash", "-ex", script}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << commands << outcome.output << outcome.errors;
  EXPECT_NE(outcome.output.find("fashion-1 finished in "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("fashion-2 is stopped"), std::string::npos) << outcome.output;
  EXPECT_GT(fs::file_size(fs::path(here) / "model.safetensors"), 199'210U * 4U);
}

TEST(Readme, ShowsEveryCommandOfTheMainJob) {
  const std::string commands = shell_blocks(readme(), "The same by hand");
  for (const char* command :
       {"muster init ", "muster serve ", "muster token create ", "muster-edge enroll ",
        "muster-edge run ", "muster job submit ", "muster job list", "muster job show ",
        "muster job watch ", "muster job stop ", "muster round list ", "muster round show ",
        "muster device list", "muster device show ", "muster model export "}) {
    EXPECT_NE(commands.find(command), std::string::npos) << command;
  }
}

// --- --help ---

// The names listed under "Subcommands:".
Words subcommands(const std::string& help) {
  Words names;
  std::istringstream lines(help);
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Subcommands:")) {
      listed = true;
    } else if (listed && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (listed && !line.starts_with("  ")) {
      break;
    }
  }
  return names;
}

// The help of a program and all its commands, by the words after the program's name.
void collect_help(const std::string& program, const Words& words, const fs::path& folder,
                  std::map<Words, std::string>& found) {
  Words call{program};
  call.insert(call.end(), words.begin(), words.end());
  call.push_back("--help");
  const Outcome outcome = run(call, folder);
  EXPECT_EQ(outcome.exit_code, 0) << ::testing::PrintToString(call) << outcome.errors;
  found[words] = outcome.output;
  for (const std::string& name : subcommands(outcome.output)) {
    Words deeper = words;
    deeper.push_back(name);
    collect_help(program, deeper, folder, found);
  }
}

std::map<Words, std::string> all_help(const std::string& program) {
  const TemporaryFolder folder;
  std::map<Words, std::string> found;
  collect_help(program, {}, folder.path(), found);
  return found;
}

TEST(Help, EveryCommandPrintsAnExampleThatNamesIt) {
  for (const auto& [program, name, at_least] :
       {std::tuple<std::string, std::string, std::size_t>{MUSTER_BINARY, "muster", 20},
        {MUSTER_EDGE_BINARY, "muster-edge", 4}}) {
    const auto help = all_help(program);
    EXPECT_GE(help.size(), at_least) << name << " lists fewer commands than it has";
    for (const auto& [words, text] : help) {
      std::string command = name;
      for (const std::string& word : words) command += " " + word;
      if (words.empty()) {
        EXPECT_NE(text.find("Exit codes:"), std::string::npos) << name;
        continue;
      }
      const std::size_t example = text.find("Example:");
      ASSERT_NE(example, std::string::npos) << command << "\n" << text;
      EXPECT_NE(text.find(command, example), std::string::npos) << command << "\n" << text;
    }
  }
}

// --- --json, and the example trainer ---

// A server in a process of its own with two enrolled devices.
class Session {
 public:
  Session() {
    const int enroll_port = free_port();
    must({MUSTER_BINARY, "init", root(), "--host", "localhost", "--port",
          std::to_string(free_port()), "--enroll-port", std::to_string(enroll_port)});
    server_ =
        std::make_unique<Process>(Words{MUSTER_BINARY, "serve", root()}, folder_.path() / "server");
    server_->wait_for_output("serves");
    const Json codes = json({"token", "create", "--uses", "2"}).at("codes");
    for (int i = 0; i < 2; ++i) {
      must({MUSTER_EDGE_BINARY, "enroll", "--server",
            fmt::format("https://localhost:{}", enroll_port), "--code",
            codes[static_cast<std::size_t>(i)].get<std::string>(), "--dir", device_folder(i),
            "--name", fmt::format("device-{}", i)});
    }
  }

  std::string root() const { return (folder_.path() / "fl").string(); }
  const fs::path& folder() const { return folder_.path(); }
  std::string device_folder(int i) const {
    return (folder_.path() / fmt::format("device-{}", i)).string();
  }

  std::unique_ptr<Process> start(const Words& arguments, const std::string& name) {
    return std::make_unique<Process>(arguments, folder_.path() / name);
  }
  Outcome call(const Words& arguments) {
    return run(arguments, folder_.path(), {{"MUSTER_DIR", root()}});
  }
  std::string must(const Words& arguments) {
    const Outcome outcome = call(arguments);
    if (outcome.exit_code != 0) {
      throw std::runtime_error(::testing::PrintToString(arguments) + ": " + outcome.errors);
    }
    return outcome.output;
  }
  // What a command of `muster` prints with --json.
  Json json(Words words) {
    words.insert(words.begin(), MUSTER_BINARY);
    words.emplace_back("--json");
    return take(parse_json(must(words), {.bytes = 1 << 22, .depth = 64}));
  }
  // Writes a job for the two devices; returns its file.
  std::string job_file(Json job) {
    job["strategy"] = {{"type", "Federated"}, {"num_clients", 2}, {"rounds", 2}};
    job["local"] = {{"batch_size", 8}, {"optimizer", {{"type", "sgd"}, {"lr", 0.05}}}};
    const fs::path file = folder_.path() / "job.json";
    take(write_file_durably(file, as_bytes(job.dump())));
    return file.string();
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Process> server_;
};

// One JSON object a line, at least `count` of them.
void expect_json_lines(const std::string& output, std::size_t count) {
  std::istringstream lines(output);
  std::size_t found = 0;
  for (std::string line; std::getline(lines, line); ++found) {
    const auto parsed = parse_json(line);
    ASSERT_TRUE(parsed) << parsed.error().message << "\n" << line;
    EXPECT_TRUE(parsed->is_object()) << line;
  }
  EXPECT_GE(found, count) << output;
}

TEST(Json, OfEveryCommandThatHasItParses) {
  Session session;
  const std::string csv = write_csv(session.folder(), 120, 3).string();
  Words device{MUSTER_EDGE_BINARY, "run", "--dir", "", "--data", "", "--json"};
  std::vector<std::unique_ptr<Process>> devices;
  for (int i = 0; i < 2; ++i) {
    device[3] = session.device_folder(i);
    device[5] = fmt::format("csv:{};target=label;shard={}/2", csv, i);
    devices.push_back(session.start(device, fmt::format("device-{}-log", i)));
  }
  const std::string job = session.job_file(
      {{"name", "small"}, {"model", {{"preset", "logistic"}, {"input", {4}}, {"classes", 3}}}});
  EXPECT_EQ(session.json({"job", "submit", job}).at("job"), "small-1");
  expect_json_lines(session.must({MUSTER_BINARY, "job", "watch", "small-1", "--json"}), 2);
  expect_json_lines(session.must({MUSTER_BINARY, "job", "submit", job, "--watch", "--json"}), 2);

  // Each with a field that its JSON must have. Those with none were run above.
  const std::string model = (session.folder() / "model.safetensors").string();
  const std::map<Words, std::pair<Words, std::string>> calls{
      {{"token", "create"}, {{}, "codes"}},
      {{"token", "list"}, {{}, "tokens"}},
      {{"job", "list"}, {{}, "jobs"}},
      {{"job", "show"}, {{"small-1"}, "global_state"}},
      {{"round", "list"}, {{"small-1"}, "rounds"}},
      {{"round", "show"}, {{"small-1", "1"}, "participants"}},
      {{"device", "list"}, {{}, "devices"}},
      {{"device", "show"}, {{"device-0"}, "certificate"}},
      {{"model", "export"}, {{"small-1", "-o", model}, "state"}},
      {{"model", "init"}, {{job, "-o", model}, "state"}},
      {{"model", "show"}, {{job}, "nodes"}},
      {{"fit"}, {{job, "--data", "csv:" + csv + ";target=label", "-o", model}, "epochs"}},
      {{"job", "submit"}, {}},
      {{"job", "watch"}, {}},
      {{"job", "stop"}, {}}};
  for (const auto& [words, help] : all_help(MUSTER_BINARY)) {
    if (help.find("--json") == std::string::npos) continue;
    ASSERT_TRUE(calls.contains(words)) << ::testing::PrintToString(words) << " is not tried here";
    const auto& [arguments, field] = calls.at(words);
    if (field.empty()) continue;
    Words all = words;
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_TRUE(session.json(all).contains(field)) << ::testing::PrintToString(all);
  }

  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Json status = take(parse_json(
        session.must({MUSTER_EDGE_BINARY, "status", "--dir", session.device_folder(i), "--json"})));
    EXPECT_EQ(status.at("device"), fmt::format("device-{}", i));
    EXPECT_EQ(status.at("running"), true);
    devices[at]->signal(SIGTERM);
    EXPECT_EQ(devices[at]->wait(), 0) << devices[at]->errors();
    expect_json_lines(devices[at]->output(), 4);
  }
  // Nobody is left to train the third: it still runs when it is stopped.
  EXPECT_EQ(session.json({"job", "submit", job}).at("job"), "small-3");
  EXPECT_EQ(session.json({"job", "stop", "small-3"}).at("status"), "stopped");
}

TEST(Example, ACustomTrainerTakesPartInAJobToItsEnd) {
  Session session;
  const std::string example =
      (fs::path(MUSTER_EDGE_BINARY).parent_path() / "edge-example-custom-trainer").string();
  std::vector<std::unique_ptr<Process>> devices;
  for (int i = 0; i < 2; ++i) {
    devices.push_back(
        session.start({example, session.device_folder(i)}, fmt::format("device-{}-log", i)));
  }
  const std::string job =
      session.job_file({{"name", "custom"}, {"model", {{"preset", "logistic"}}}});
  session.must({MUSTER_BINARY, "job", "submit", job, "--watch"});
  EXPECT_EQ(session.json({"job", "show", "custom-1"}).at("status"), "finished");
  const Json rounds = session.json({"round", "list", "custom-1"}).at("rounds");
  ASSERT_EQ(rounds.size(), 2U);
  for (const Json& round : rounds) {
    EXPECT_EQ(round.at("phase"), "committed");
    EXPECT_EQ(round.at("metrics").at("examples"), 1'000);
  }
  EXPECT_LT(rounds[1].at("metrics").at("train_loss").get<double>(),
            rounds[0].at("metrics").at("train_loss").get<double>());
  for (const auto& device : devices) EXPECT_TRUE(device->running()) << device->output();
}

}  // namespace
}  // namespace muster
