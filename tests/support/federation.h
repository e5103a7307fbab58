#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "certs/authority.h"
#include "edge_client/agent.h"
#include "edge_client/client.h"
#include "server/server.h"
#include "tests/support/temporary_folder.h"

// A whole federation in one process: a real server on a real directory, listening on loopback ports
// of the kernel's choice, with operators and devices that reach it over TLS. Nothing is replaced by
// a double.
namespace muster::testing {

// Stops the test with the error's message.
template <typename T>
T take(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// A small data set in three classes that a logistic model learns: "a,b,c,d,label" lines, `rows` of
// them.
std::filesystem::path write_csv(const std::filesystem::path& folder, int rows, std::uint64_t seed);

// A job for `devices` devices on such data: logistic model of 4 inputs and 3 classes.
Json small_job(int devices, int rounds, const Json& aggregation = {{"method", "FedAvg"}});

class Federation {
 public:
  // `change` may alter the config before the server starts.
  explicit Federation(const std::function<void(Json&)>& change = {});
  ~Federation();

  void start_server();
  void stop_server();
  Server& server() { return *server_; }
  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path folder(const std::string& name) const { return temporary_.path() / name; }
  ServerUrl api_url() const { return {"localhost", server_->api_port()}; }
  ServerUrl enroll_url() const { return {"localhost", server_->enroll_port()}; }
  Authority authority() const { return take(Authority::read(root_ / "authority")); }

  // The operator's calls: the reply as it came, or its JSON when it must be a success.
  HttpReply operator_get(const std::string& path);
  HttpReply operator_post(const std::string& path, const Json& body);
  Json get_json(const std::string& path);
  Json post_json(const std::string& path, const Json& body);

  std::string new_code(int ttl_s = 600, const std::vector<std::string>& tags = {});
  // Enrols a device into folder(name).
  DeviceIdentity enroll_device(const std::string& name, const std::vector<std::string>& tags = {});
  std::string submit(const Json& job);
  // The job once it is no longer running; fails the test after `limit`.
  Json wait_for_end(const std::string& job, std::chrono::seconds limit = std::chrono::seconds(120));
  // Asks until `holds` of the job's JSON; fails the test after `limit`.
  Json wait_until(const std::string& job, const std::function<bool(const Json&)>& holds,
                  std::chrono::seconds limit = std::chrono::seconds(60));

 private:
  Transport& operator_transport();

  TemporaryFolder temporary_;
  std::filesystem::path root_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<PrivateKey> operator_key_;
  std::unique_ptr<Transport> operator_;
};

// A device in a thread of its own, running the agent with the given trainer until it goes out of
// scope.
class RunningDevice {
 public:
  RunningDevice(DeviceIdentity identity, std::filesystem::path folder,
                std::unique_ptr<LocalTrainer> trainer);
  ~RunningDevice();
  void stop();
  const Status& outcome() const { return outcome_; }  // after stop

 private:
  DeviceIdentity identity_;
  std::unique_ptr<LocalTrainer> trainer_;
  Status outcome_;
  std::jthread thread_;
};

// The trainer that muster-edge uses, on shard `shard` of `shards` of a data spec.
std::unique_ptr<LocalTrainer> graph_trainer(const std::string& spec);

}  // namespace muster::testing
