#include "core/train/settings.h"

namespace muster {
namespace {

OptimizerSettings read_optimizer(const Json& json, const std::string& where, Status& status) {
  OptimizerSettings settings;
  JsonObject object(json, where);
  settings.type = object.text("type", settings.type);
  if (settings.type != "sgd") {
    object.fail("type", describe(Json(settings.type)) + " found, known are: sgd");
  }
  settings.lr = object.number("lr", settings.lr, {0.0, 1e6});
  settings.momentum = object.number("momentum", settings.momentum, {0.0, 0.9999999});
  settings.dampening = object.number("dampening", settings.dampening, {0.0, 1.0});
  settings.weight_decay = object.number("weight_decay", settings.weight_decay, {0.0, 1e6});
  settings.nesterov = object.boolean("nesterov", settings.nesterov);
  // As torch.optim.SGD demands.
  if (settings.nesterov && (settings.momentum == 0 || settings.dampening != 0)) {
    object.fail("nesterov", "true found, which wants a momentum above 0 and a dampening of 0");
  }
  status = object.finish();
  return settings;
}

}  // namespace

Result<LocalSettings> local_settings_from_json(const Json& json, const std::string& where) {
  LocalSettings settings;
  JsonObject object(json, where);
  settings.epochs = object.integer("epochs", settings.epochs, {1, 1'000'000});
  settings.max_steps = object.integer("max_steps", settings.max_steps, {0, 1'000'000'000'000});
  settings.batch_size = object.integer("batch_size", settings.batch_size, {1, 1'000'000});
  settings.shuffle = object.boolean("shuffle", settings.shuffle);
  settings.mu = object.number("mu", settings.mu, {0.0, 1e6});
  Status optimizer;
  if (const Json* found = object.find("optimizer")) {
    settings.optimizer = read_optimizer(*found, where + ".optimizer", optimizer);
  }
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY_STATUS(optimizer);
  return settings;
}

Json to_json(const LocalSettings& settings) {
  const OptimizerSettings& optimizer = settings.optimizer;
  return {{"epochs", settings.epochs},
          {"max_steps", settings.max_steps},
          {"batch_size", settings.batch_size},
          {"shuffle", settings.shuffle},
          {"mu", settings.mu},
          {"optimizer",
           {{"type", optimizer.type},
            {"lr", optimizer.lr},
            {"momentum", optimizer.momentum},
            {"dampening", optimizer.dampening},
            {"weight_decay", optimizer.weight_decay},
            {"nesterov", optimizer.nesterov}}}};
}

}  // namespace muster
