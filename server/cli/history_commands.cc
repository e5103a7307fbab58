#include <fmt/format.h>

#include <memory>

#include "server/cli/command.h"
#include "server/cli/operator_client.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

Status list_rounds(const Command& shared, const std::string& job) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json reply, client.get("/v1/jobs/" + job + "/rounds"));
  if (shared.json) {
    print_json(reply);
    return {};
  }
  Table table({"ROUND", "TRY", "PHASE", "DEVICES", "TRAIN LOSS", "TEST LOSS", "TEST ACC",
               "DEVICE ACC", "UP", "DOWN", "TOOK", "STATE", "AGGREGATION"});
  for (const Json& round : reply.at("rounds")) {
    const Json& metrics = round.at("metrics");
    const std::int64_t ended = round.at("ended_at_ms").get<std::int64_t>();
    const std::string aggregation = aggregation_text(metrics);
    table.add(
        {fmt::to_string(round.at("round").get<std::int64_t>()),
         fmt::to_string(round.at("attempt").get<std::int64_t>()), round.at("phase"),
         fmt::to_string(metrics.value("updates", std::int64_t{0})),
         metric_text(metrics, "train_loss"), metric_text(metrics, "test_loss"),
         metric_text(metrics, "test_accuracy"), metric_text(metrics, "eval_accuracy"),
         bytes_text(round.at("bytes_up").get<std::int64_t>()),
         bytes_text(round.at("bytes_down").get<std::int64_t>()),
         ended == 0 ? "-" : duration_text(ended - round.at("started_at_ms").get<std::int64_t>()),
         round.at("state").is_string() ? round.at("state").get<std::string>().substr(0, 12) : "-",
         aggregation.empty() ? "-" : aggregation});
  }
  print(table.text());
  return {};
}

Status show_round(const Command& shared, const std::string& job, std::int64_t number) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json round, client.get(fmt::format("/v1/jobs/{}/rounds/{}", job, number)));
  if (shared.json) {
    print_json(round);
    return {};
  }
  print(fmt::format(
      "{} round {} attempt {}: {}\n  {}\n  trained from {}\n  became       {}\n  selection seed "
      "{}\n\n",
      job, number, round.at("attempt").get<std::int64_t>(), round.at("phase").get<std::string>(),
      round.at("reason").get<std::string>(), round.at("base").get<std::string>(),
      round.at("state").is_string() ? round.at("state").get<std::string>() : "-",
      round.at("seed").get<std::string>()));
  if (const std::string text = aggregation_text(round.at("metrics")); !text.empty())
    print("  " + text + "\n\n");
  Table table(
      {"DEVICE", "VERDICT", "BEGAN IN", "EXAMPLES", "LOSS", "BYTES", "RECEIVED (UTC)", "DIGEST"});
  for (const Json& participant : round.at("participants")) {
    const std::string began = fmt::to_string(participant.at("began_round").get<std::int64_t>());
    if (!participant.contains("digest")) {
      table.add(
          {participant.at("device"), participant.at("verdict"), began, "-", "-", "-", "-", "-"});
      continue;
    }
    const std::string reason = participant.at("reason").get<std::string>();
    table.add(
        {participant.at("device"),
         participant.at("verdict").get<std::string>() + (reason.empty() ? "" : " (" + reason + ")"),
         began, fmt::to_string(participant.at("examples").get<std::int64_t>()),
         metric_text(participant.at("metrics"), "loss"),
         bytes_text(participant.at("bytes").get<std::int64_t>()),
         time_text(participant.at("received_at_ms").get<std::int64_t>()),
         participant.at("digest").is_string()
             ? participant.at("digest").get<std::string>().substr(0, 12)
             : "-"});
  }
  print(table.text());
  for (const Json& refused : round.at("refused")) {
    print(fmt::format("refused: {}: {} ({})\n", refused.at("device").get<std::string>(),
                      refused.at("detail").get<std::string>(),
                      refused.at("reason").get<std::string>()));
  }
  return {};
}

Status list_devices(const Command& shared) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json reply, client.get("/v1/devices"));
  if (shared.json) {
    print_json(reply);
    return {};
  }
  Table table({"DEVICE", "DOES", "EXAMPLES", "TAGS", "LAST SEEN (UTC)", "ENROLLED (UTC)"});
  for (const Json& device : reply.at("devices")) {
    std::string tags;
    for (const Json& tag : device.at("tags"))
      tags += (tags.empty() ? "" : ",") + tag.get<std::string>();
    const std::string activity = device.at("activity").get<std::string>();
    table.add({device.at("device"), activity.empty() ? "away" : activity,
               fmt::to_string(device.at("examples").get<std::int64_t>()), tags.empty() ? "-" : tags,
               time_text(device.at("last_seen_at_ms").get<std::int64_t>()),
               time_text(device.at("enrolled_at_ms").get<std::int64_t>())});
  }
  print(table.text());
  return {};
}

Status show_device(const Command& shared, const std::string& name) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json device, client.get("/v1/devices/" + name));
  if (shared.json) {
    print_json(device);
    return {};
  }
  const Json& certificate = device.at("certificate");
  const std::string activity = device.at("activity").get<std::string>();
  print(fmt::format(
      "{}: {}\n  examples     {}\n  last seen    {} UTC\n  enrolled     {} UTC\n  certificate  "
      "{}\n  valid        {} to {} UTC\n",
      name, activity.empty() ? "away" : activity, device.at("examples").get<std::int64_t>(),
      time_text(device.at("last_seen_at_ms").get<std::int64_t>()),
      time_text(device.at("enrolled_at_ms").get<std::int64_t>()),
      certificate.at("fingerprint").get<std::string>(),
      time_text(certificate.at("not_before_ms").get<std::int64_t>()),
      time_text(certificate.at("not_after_ms").get<std::int64_t>())));
  return {};
}

}  // namespace

void add_round_commands(CLI::App& app, Command& shared) {
  CLI::App* group = add_group(app, "round", "The history of a job, round by round",
                              "muster round list fashion-mnist-1");
  auto job = std::make_shared<std::string>();
  auto number = std::make_shared<std::int64_t>(0);

  CLI::App* list = add_command(*group, "list", "List the rounds of a job with their metrics",
                               "muster round list fashion-mnist-1");
  list->add_option("job", *job, "The job's id")->required();
  add_directory_option(*list, shared);
  add_json_flag(*list, shared);
  list->callback(
      [&shared, job] { shared.run = [&shared, job] { return list_rounds(shared, *job); }; });

  CLI::App* show =
      add_command(*group, "show", "Show one round: who was invited, what came of it, why it ended",
                  "muster round show fashion-mnist-1 3");
  show->add_option("job", *job, "The job's id")->required();
  show->add_option("round", *number, "The round's number, from 1")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  add_directory_option(*show, shared);
  add_json_flag(*show, shared);
  show->callback([&shared, job, number] {
    shared.run = [&shared, job, number] { return show_round(shared, *job, *number); };
  });
}

void add_device_commands(CLI::App& app, Command& shared) {
  CLI::App* group = add_group(app, "device", "The enrolled devices", "muster device list");
  CLI::App* list =
      add_command(*group, "list", "List the devices, when they were seen and what they do",
                  "muster device list");
  add_directory_option(*list, shared);
  add_json_flag(*list, shared);
  list->callback([&shared] { shared.run = [&shared] { return list_devices(shared); }; });

  CLI::App* show = add_command(*group, "show", "Show one device and its certificate",
                               "muster device show device-01");
  auto name = std::make_shared<std::string>();
  show->add_option("device", *name, "The device's name")->required();
  add_directory_option(*show, shared);
  add_json_flag(*show, shared);
  show->callback(
      [&shared, name] { shared.run = [&shared, name] { return show_device(shared, *name); }; });
}

}  // namespace muster::cli
