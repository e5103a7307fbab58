#include "core/strategy/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/names.h"
#include "core/graph/model.h"
#include "core/strategy/job_checks.h"

namespace muster {
namespace {

constexpr std::size_t kMaxTestData = 4096;
constexpr std::int64_t kMaxSeed = std::int64_t{1} << 53;

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

// `of_json`: the model is a JSON state.
Result<EvaluationSettings> evaluation_from_json(const Json& json, const std::string& where,
                                                bool of_json) {
  EvaluationSettings settings;
  settings.federated = !of_json;
  JsonObject object(json, where);
  settings.federated = object.boolean("federated", settings.federated);
  settings.test_data = object.text("test_data", settings.test_data);
  if (settings.test_data.size() > kMaxTestData) {
    object.fail("test_data", fmt::format("{} bytes, wanted at most {}", settings.test_data.size(),
                                         kMaxTestData));
  }
  if (has_control_character(settings.test_data)) {
    object.fail("test_data", "holds a control character, wanted a data spec in one line");
  }
  if (of_json && !settings.test_data.empty()) {
    object.fail("test_data", "found, but job.model is a JSON state, which nothing is evaluated by");
  }
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Error bad_field(const std::string& where, const std::string& what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", where, what), "bad_field"};
}

// Builds the model, so that what does not fit is found at submission and not on the devices.
Status check_model(const Json& model, const std::string& where,
                   const AggregationSettings& aggregation) {
  MUSTER_TRY(const Json resolved, resolve_model(model, where));
  if (const std::size_t bytes = resolved.dump().size(); bytes > kMaxModelBytes) {
    return bad_field(where, fmt::format("its resolved description has {} bytes, wanted at most {}",
                                        bytes, kMaxModelBytes));
  }
  MUSTER_TRY(const LayoutPtr layout, layout_of_model(resolved, where));
  const std::int64_t parameters = layout->num_elements();
  if (parameters < 1 || parameters > kMaxModelParameters) {
    return bad_field(where,
                     fmt::format("{} parameters, wanted 1 to {}", parameters, kMaxModelParameters));
  }
  if (is_json_model(model)) return {};
  MUSTER_TRY(const Graph graph, graph_from_model(resolved, where));
  return check_untrained(aggregation, graph, "job.strategy.aggregation.method");
}

// What the server's rounds cannot run.
Status check_strategy(const TrainingStrategy& strategy, const std::string& where) {
  if (std::holds_alternative<Federated>(strategy)) return {};
  return bad_field(where, fmt::format("{} runs on the workers of one process (muster::fit over an "
                                      "InProcessContext); the server runs Federated",
                                      type_of(strategy)));
}

constexpr std::size_t kMaxJobNameLength = 48;  // "NAME-123456" must be a name too

std::string read_job_name(JsonObject& object) {
  std::string name = object.text("name");
  if (!object.ok()) return {};
  if (name.size() > kMaxJobNameLength) {
    object.fail("name",
                fmt::format("has {} characters, at most {} fit (the server appends a number)",
                            name.size(), kMaxJobNameLength));
  } else if (auto status = check_name("job name", name); !status) {
    object.fail("name", std::move(status).error().message);
  }
  return name;
}

// "local" as the operator writes it: without mu, which is the strategy's.
Result<LocalSettings> local_from_json(const Json& json, const std::string& where,
                                      const Federated& federated) {
  if (json.is_object() && json.contains("mu")) {
    return bad_field(where + ".mu",
                     "belongs to the strategy: \"aggregation\": {\"method\": \"FedProx\", "
                     "\"mu\": ...}");
  }
  MUSTER_TRY(LocalSettings local, local_settings_from_json(json, where));
  local.mu = local_mu(federated.aggregation);
  MUSTER_TRY_STATUS(check_local(federated.aggregation, local, where));
  return local;
}

Result<JobDescription> read_job(const Json& json) {
  const Json nothing = Json::object();
  const auto or_nothing = [&](const Json* found) -> const Json& {
    return found == nullptr ? nothing : *found;
  };
  JobDescription job;
  JsonObject object(json, "job");
  job.name = read_job_name(object);
  job.model = object.value("model");
  const Json& strategy = object.value("strategy");
  const Json* encoding = object.find("encoding");
  const Json& checks = or_nothing(object.find("checks"));
  const Json& local = or_nothing(object.find("local"));
  const Json& round = or_nothing(object.find("round"));
  const Json& evaluation = or_nothing(object.find("evaluation"));
  job.seed = static_cast<std::uint64_t>(object.integer("seed", 0, {0, kMaxSeed}));
  MUSTER_TRY_STATUS(object.finish());

  MUSTER_TRY(job.strategy, strategy_from_json(strategy, "job.strategy"));
  MUSTER_TRY_STATUS(check_strategy(job.strategy, "job.strategy.type"));
  const auto& federated = std::get<Federated>(job.strategy);
  MUSTER_TRY_STATUS(check_kind_of_model(federated.aggregation, job.model, "job.model",
                                        "job.strategy.aggregation.method"));
  MUSTER_TRY_STATUS(check_selection(federated.aggregation, federated.client_selection,
                                    "job.strategy.client_selection"));
  MUSTER_TRY(
      job.encoding,
      encoding_for(federated.aggregation,
                   encoding == nullptr ? Json{{"format", "float32"}} : *encoding, "job.encoding"));
  MUSTER_TRY(job.checks, limits_for(federated.aggregation, checks, "job.checks"));
  MUSTER_TRY(job.local, local_from_json(local, "job.local", federated));
  MUSTER_TRY(job.round, round_settings_from_json(round, "job.round", federated.num_clients,
                                                 federated.client_selection,
                                                 aggregation_needs(federated.aggregation)));
  MUSTER_TRY_STATUS(check_round(federated.aggregation, job.round, "job.round"));
  MUSTER_TRY(job.evaluation,
             evaluation_from_json(evaluation, "job.evaluation", is_json_model(job.model)));
  // Last, because it costs most.
  MUSTER_TRY_STATUS(check_model(job.model, "job.model", federated.aggregation));
  return job;
}

}  // namespace

Result<JobDescription> job_from_json(const Json& json) {
  auto job = read_job(json);
  if (job) return job;
  return Error{ErrorCode::kInvalidArgument, std::move(job).error().message, "bad_job"};
}

Json to_json(const JobDescription& job) {
  Json local = to_json(job.local);
  local.erase("mu");
  return {{"name", job.name},
          {"model", job.model},
          {"strategy", to_json(job.strategy)},
          {"encoding", to_json(job.encoding)},
          {"checks", to_json(job.checks)},
          {"local", std::move(local)},
          {"round", to_json(job.round)},
          {"evaluation",
           {{"federated", job.evaluation.federated}, {"test_data", job.evaluation.test_data}}},
          {"seed", job.seed}};
}

}  // namespace muster
