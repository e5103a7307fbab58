#include <fmt/format.h>

#include <memory>

#include "core/aggregate/settings.h"
#include "core/base/file.h"
#include "server/cli/command.h"
#include "server/cli/operator_client.h"
#include "server/cli/text.h"
#include "server/cli/watch.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kJobFileLimitBytes = 1 << 20;

std::string strategy_text(const Json& strategy) {
  const Json& json = strategy.at("aggregation");
  const auto aggregation = aggregation_from_json(json, "aggregation");
  return aggregation ? describe(*aggregation) : json.at("method").get<std::string>();
}

Status submit(const Command& shared, const std::filesystem::path& file, bool watch_it) {
  const Result<std::string> text = read_file(file, kJobFileLimitBytes);
  if (!text) return Error{ErrorCode::kInvalidArgument, text.error().message, "bad_job_file"};
  MUSTER_TRY_IN(file.string(), const Json job, parse_json(*text));
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json reply, client.post("/v1/jobs", job));
  const std::string id = reply.at("job").get<std::string>();
  if (watch_it) return watch_job(client, id, shared.json);
  if (shared.json) {
    print_json(reply);
  } else {
    print(fmt::format("{0}\n", id));
    say(fmt::format("submitted; follow it with: muster job watch {}\n", id));
  }
  return {};
}

Status list(const Command& shared) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json reply, client.get("/v1/jobs"));
  if (shared.json) {
    print_json(reply);
    return {};
  }
  Table table({"JOB", "STRATEGY", "STATUS", "ROUNDS", "TEST ACC", "DEVICE ACC", "UP", "DOWN",
               "TIME", "WHY"});
  for (const Json& job : reply.at("jobs")) {
    const Json& evaluated = job.at("last_evaluated");
    const Json metrics = evaluated.is_object() ? evaluated.at("metrics") : Json();
    const Json& live = job.at("live");
    const std::string why = live.is_object() ? live.at("explain").get<std::string>()
                                             : job.at("status_reason").get<std::string>();
    table.add({job.at("job"), strategy_text(job.at("strategy")), job.at("status"),
               fmt::format("{}/{}", job.at("rounds_committed").get<std::int64_t>(),
                           job.at("rounds").get<std::int64_t>()),
               metric_text(metrics, "test_accuracy"), metric_text(metrics, "eval_accuracy"),
               bytes_text(job.at("bytes_up").get<std::int64_t>()),
               bytes_text(job.at("bytes_down").get<std::int64_t>()),
               duration_text(job.at("elapsed_ms").get<std::int64_t>()), why});
  }
  print(table.text());
  return {};
}

std::string names_text(const Json& names) {
  std::string text;
  for (const Json& name : names) text += (text.empty() ? "" : ", ") + name.get<std::string>();
  return text.empty() ? "none" : text;
}

Status show(const Command& shared, const std::string& id) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json job, client.get("/v1/jobs/" + id));
  if (shared.json) {
    print_json(job);
    return {};
  }
  print(fmt::format("{}: {}, {} of {} rounds committed\n", id, job.at("status").get<std::string>(),
                    job.at("rounds_committed").get<std::int64_t>(),
                    job.at("rounds").get<std::int64_t>()));
  if (const std::string reason = job.at("status_reason").get<std::string>(); !reason.empty())
    print("  " + reason + "\n");
  if (const Json& live = job.at("live"); live.is_object()) {
    print(fmt::format("  round {} ({}): {}\n", live.at("round").get<std::int64_t>(),
                      live.at("phase").get<std::string>(), live.at("explain").get<std::string>()));
    if (live.contains("reported")) {
      print("  candidates  " + names_text(live.at("candidates")) + "\n");
      print("  invited     " + names_text(live.at("invited")) + "\n");
      print("  reported    " + names_text(live.at("reported")) + "\n");
    }
  }
  print(fmt::format("  state       {} ({})\n", job.at("global_state").get<std::string>(),
                    job.at("state_bytes").is_number()
                        ? bytes_text(job.at("state_bytes").get<std::int64_t>())
                        : "file missing"));
  print(fmt::format("  bytes       {} up, {} down\n",
                    bytes_text(job.at("bytes_up").get<std::int64_t>()),
                    bytes_text(job.at("bytes_down").get<std::int64_t>())));
  if (const Json& last = job.at("last_round"); last.is_object()) {
    if (const std::string text = aggregation_text(last.at("metrics")); !text.empty())
      print("  last round  " + text + "\n");
  }
  print("  settings, with every default:\n" + job.at("description").dump(2) + "\n");
  return {};
}

Status watch(const Command& shared, const std::string& id) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  return watch_job(client, id, shared.json);
}

Status stop(const Command& shared, const std::string& id) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json job, client.post("/v1/jobs/" + id + "/stop", Json::object()));
  if (shared.json) {
    print_json(job);
  } else {
    print(fmt::format("{} is stopped after {} rounds; its last state stays\n", id,
                      job.at("rounds_committed").get<std::int64_t>()));
  }
  return {};
}

}  // namespace

void add_job_commands(CLI::App& app, Command& shared) {
  CLI::App* group = add_group(app, "job", "Submit, follow and stop training jobs",
                              "muster job submit job.json --watch");
  const auto finish = [&shared](CLI::App* command) {
    add_directory_option(*command, shared);
    add_json_flag(*command, shared);
  };
  const auto with_id = [&](const char* name, const char* description,
                           Status (*call)(const Command&, const std::string&)) {
    CLI::App* command =
        add_command(*group, name, description, fmt::format("muster job {} fashion-mnist-1", name));
    auto id = std::make_shared<std::string>();
    command->add_option("job", *id, "The job's id, as `muster job list` prints it")->required();
    finish(command);
    command->callback(
        [&shared, id, call] { shared.run = [&shared, id, call] { return call(shared, *id); }; });
  };

  CLI::App* add = add_command(*group, "submit", "Submit a job file; prints the job's id",
                              "muster job submit job.json --watch");
  auto file = std::make_shared<std::filesystem::path>();
  auto watch_it = std::make_shared<bool>(false);
  add->add_option("file", *file, "Job file (docs/jobs.md)")->required();
  add->add_flag("--watch", *watch_it, "Follow it until it ends");
  finish(add);
  add->callback([&shared, file, watch_it] {
    shared.run = [&shared, file, watch_it] { return submit(shared, *file, *watch_it); };
  });

  CLI::App* all = add_command(
      *group, "list", "List the jobs, how far they are and what they wait for", "muster job list");
  finish(all);
  all->callback([&shared] { shared.run = [&shared] { return list(shared); }; });

  with_id("show", "Show one job: progress, who is in, what waits and why, all settings", show);
  with_id("watch",
          "Follow a job until it ends: round, devices in, loss, accuracy, bytes, time left", watch);
  with_id("stop", "Stop a job; its last committed state stays", stop);
}

}  // namespace muster::cli
