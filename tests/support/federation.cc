#include "tests/support/federation.h"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <fstream>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/train/data/data_spec.h"
#include "core/train/graph_trainer.h"
#include "server/directory.h"

namespace muster::testing {

namespace fs = std::filesystem;

fs::path write_csv(const fs::path& folder, int rows, std::uint64_t seed) {
  Random random(seed);
  std::ofstream file(folder / "data.csv");
  file << "a,b,c,d,label\n";
  for (int row = 0; row < rows; ++row) {
    const int label = static_cast<int>(random.below(3));
    for (int column = 0; column < 4; ++column) {
      file << fmt::format("{:.4f},", (column == label ? 2.0 : 0.0) + random.normal());
    }
    file << label << "\n";
  }
  return folder / "data.csv";
}

Json small_job(int devices, int rounds, const Json& aggregation) {
  return Json{
      {"name", "small"},
      {"model", {{"preset", "logistic"}, {"input", {4}}, {"classes", 3}}},
      {"strategy",
       {{"type", "Federated"},
        {"num_clients", devices},
        {"rounds", rounds},
        {"aggregation", aggregation}}},
      {"local", {{"epochs", 1}, {"batch_size", 8}, {"optimizer", {{"type", "sgd"}, {"lr", 0.1}}}}},
      {"round", {{"selection_window_s", 30}, {"deadline_s", 30}}},
      {"seed", 7}};
}

Federation::Federation(const std::function<void(Json&)>& change)
    : root_(temporary_.path() / "server") {
  take(init_directory({root_, {"localhost", "127.0.0.1"}, 0, 0}));
  const ServerDirectory directory{root_};
  Json config = take(parse_json(take(read_file(directory.config(), 1 << 20))));
  config["bind_address"] = "127.0.0.1";
  if (change) change(config);
  take(write_file_durably(directory.config(), as_bytes(config.dump())));
  start_server();
}

Federation::~Federation() {
  stop_server();
}

void Federation::start_server() {
  const auto sink =
      std::make_shared<spdlog::sinks::basic_file_sink_mt>(folder("server.log").string());
  auto log = std::make_shared<spdlog::logger>("test", sink);
  log->flush_on(spdlog::level::info);
  server_ = take(Server::start({root_, std::move(log), nullptr}));
  // The ports of the first start stay: devices find the server again after a restart.
  const ServerDirectory directory{root_};
  Json config = take(parse_json(take(read_file(directory.config(), 1 << 20))));
  config["api_port"] = server_->api_port();
  config["enroll_port"] = server_->enroll_port();
  take(write_file_durably(directory.config(), as_bytes(config.dump())));
}

void Federation::stop_server() {
  if (server_) server_->stop(std::chrono::seconds(5));
  server_.reset();
  operator_.reset();
}

Transport& Federation::operator_transport() {
  if (!operator_) {
    const fs::path folder = root_ / "operator";
    operator_key_ = std::make_unique<PrivateKey>(take(PrivateKey::read(folder / "operator.key")));
    Transport::Options options{.server = api_url(),
                               .authority = take(Certificate::read(folder / "authority.pem")),
                               .certificate = take(Certificate::read(folder / "operator.pem")),
                               .key = operator_key_.get()};
    operator_ = std::make_unique<Transport>(std::move(options));
  }
  return *operator_;
}

HttpReply Federation::operator_get(const std::string& path) {
  return take(operator_transport().get(path));
}

HttpReply Federation::operator_post(const std::string& path, const Json& body) {
  return take(operator_transport().post_json(path, body));
}

namespace {

Json success(const HttpReply& reply) {
  if (reply.status > 299) throw std::runtime_error(fmt::format("{} {}", reply.status, reply.body));
  return take(parse_json(reply.body, {.bytes = 64 << 20, .depth = 64}));
}

}  // namespace

Json Federation::get_json(const std::string& path) {
  return success(operator_get(path));
}

Json Federation::post_json(const std::string& path, const Json& body) {
  return success(operator_post(path, body));
}

std::string Federation::new_code(int ttl_s, const std::vector<std::string>& tags) {
  const Json reply = post_json("/v1/tokens", Json{{"uses", 1}, {"ttl_s", ttl_s}, {"tags", tags}});
  return reply.at("codes").at(0).get<std::string>();
}

DeviceIdentity Federation::enroll_device(const std::string& name,
                                         const std::vector<std::string>& tags) {
  take(enroll({enroll_url(), new_code(600, tags), folder(name), name}));
  return take(DeviceIdentity::read(folder(name)));
}

std::string Federation::submit(const Json& job) {
  return post_json("/v1/jobs", job).at("job").get<std::string>();
}

Json Federation::wait_until(const std::string& job, const std::function<bool(const Json&)>& holds,
                            std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    Json now = get_json("/v1/jobs/" + job);
    if (holds(now)) return now;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(5));  // between two questions, not for an outcome
    if (std::chrono::steady_clock::now() > end)
      throw std::runtime_error("waited too long; the job is " + now.dump(2));
  }
}

Json Federation::wait_for_end(const std::string& job, std::chrono::seconds limit) {
  return wait_until(
      job, [](const Json& now) { return now.at("status") != "running"; }, limit);
}

RunningDevice::RunningDevice(DeviceIdentity identity, fs::path folder,
                             std::unique_ptr<LocalTrainer> trainer)
    : identity_(std::move(identity)), trainer_(std::move(trainer)) {
  AgentOptions options;
  options.folder = std::move(folder);
  options.backoff_first = std::chrono::milliseconds(50);
  options.backoff_most = std::chrono::milliseconds(500);
  thread_ = std::jthread([this, options](std::stop_token stop) {
    outcome_ = run_agent(identity_, *trainer_, options, stop, [](const AgentEvent&) {});
  });
}

RunningDevice::~RunningDevice() {
  stop();
}

void RunningDevice::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

std::unique_ptr<LocalTrainer> graph_trainer(const std::string& spec) {
  return std::make_unique<GraphTrainer>(take(load_data(spec)));
}

}  // namespace muster::testing
