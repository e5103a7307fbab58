#include <fmt/format.h>

#include <memory>

#include "server/cli/command.h"
#include "server/cli/operator_client.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

struct CreateOptions {
  std::int64_t uses = 1;
  std::string ttl = "1h";
  std::vector<std::string> tags;
};

Status create(const Command& shared, const CreateOptions& options) {
  MUSTER_TRY(const std::chrono::seconds ttl, parse_duration(options.ttl));
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json reply, client.post("/v1/tokens", Json{{"uses", options.uses},
                                                              {"ttl_s", ttl.count()},
                                                              {"tags", options.tags}}));
  if (shared.json) {
    print_json(reply);
    return {};
  }
  for (const Json& code : reply.at("codes")) print(code.get<std::string>() + "\n");
  const Json& url = reply.at("enroll_url");
  say(fmt::format(
      "{} one-time codes, valid until {} UTC; each enrols one device:\n  muster-edge enroll "
      "--server {} --code CODE --dir DIR\n",
      reply.at("codes").size(), time_text(reply.at("expires_at_ms").get<std::int64_t>()),
      url.is_string() ? url.get<std::string>()
                      : "(enrolment is closed: enrolment_open in muster.json)"));
  return {};
}

Status list(const Command& shared) {
  MUSTER_TRY(OperatorClient client, OperatorClient::open(shared.directory));
  MUSTER_TRY(const Json reply, client.get("/v1/tokens"));
  if (shared.json) {
    print_json(reply);
    return {};
  }
  Table table({"BATCH", "STATUS", "EXPIRES (UTC)", "USED BY"});
  for (const Json& token : reply.at("tokens")) {
    table.add({token.at("batch"), token.at("status"),
               time_text(token.at("expires_at_ms").get<std::int64_t>()), token.at("used_by")});
  }
  print(table.text());
  return {};
}

}  // namespace

void add_token_commands(CLI::App& app, Command& shared) {
  CLI::App* group = add_group(app, "token", "Enrolment codes for devices",
                              "muster token create --uses 10 --ttl 1h");

  CLI::App* make = add_command(*group, "create", "Print one-time enrolment codes",
                               "muster token create --uses 10 --ttl 1h");
  auto options = std::make_shared<CreateOptions>();
  make->add_option("--uses", options->uses, "How many codes; each enrols one device")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  make->add_option("--ttl", options->ttl, "How long they are valid: 90s, 15m, 1h, 7d")
      ->capture_default_str();
  make->add_option("--tags", options->tags,
                   "Tags of the devices they enrol, for selection by capability")
      ->delimiter(',');
  add_directory_option(*make, shared);
  add_json_flag(*make, shared);
  make->callback(
      [&shared, options] { shared.run = [&shared, options] { return create(shared, *options); }; });

  CLI::App* show = add_command(
      *group, "list", "List the codes that were made, without their secrets", "muster token list");
  add_directory_option(*show, shared);
  add_json_flag(*show, shared);
  show->callback([&shared] { shared.run = [&shared] { return list(shared); }; });
}

}  // namespace muster::cli
