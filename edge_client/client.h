#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "core/base/error.h"
#include "core/protocol/messages.h"
#include "core/train/local_trainer.h"
#include "edge_client/transport.h"

namespace muster {

// What a device owns on its disk (folder of mode 0700): device.json (name, server), device.key
// (0600), device.pem, authority.pem, lock, states/ (downloaded states), pending/ (a trained update
// that the server has not acknowledged yet), kept/ (what a job's method keeps between rounds).
struct DeviceIdentity {
  std::string name;
  ServerUrl server;  // API port
  Certificate authority;
  Certificate certificate;
  PrivateKey key;

  // Errors: kNotFound (not enrolled; says how), kFailedPrecondition (key file open to others).
  static Result<DeviceIdentity> read(const std::filesystem::path& folder);
};

struct EnrollOptions {
  ServerUrl server;  // enrolment port
  std::string code;  // EnrolmentCode text
  std::filesystem::path folder;
  std::string name;  // empty: "device-" and 8 hex digits of its key's hash
};

// Makes a key, finds the authority that the code names, sends the signing request over a connection
// verified against it, and writes the identity. Calling it again after a lost answer uses the same
// key. Errors: kAlreadyExists when the folder holds an identity.
Result<std::string> enroll(const EnrollOptions& options);

// The four calls of the device protocol, one object a process. `identity` must outlive it.
// One thread at a time, except `transport().interrupt()`. Errors as Transport, and the server's
// problems as Errors with their code as reason.
class Client {
 public:
  explicit Client(const DeviceIdentity& identity);
  ~Client();

  struct Answer {
    std::optional<protocol::Task> task;
    std::chrono::milliseconds retry_after{0};  // when there is no task
  };
  Result<Answer> check_in(const protocol::CheckinRequest& request);

  // The state from `folder` when it is there already and its bytes have the digest, else downloaded
  // to it.
  Result<StateDict> fetch_state(const Digest& digest, std::uint64_t bytes,
                                const std::filesystem::path& folder);

  // Signs and sends an update whose body is `file`. Sending the same again gives the same receipt.
  // A receipt for anything else than what was sent is kInternal, reason "receipt_mismatch".
  Result<protocol::Receipt> send_update(const protocol::UpdateStatement& statement,
                                        const std::filesystem::path& file);

  // Sending a result again after a lost answer is no error.
  Status send_result(const std::string& task, const protocol::TaskResult& result);

  // How long the server's last reply asked us to stay away, whatever its status.
  std::optional<std::chrono::milliseconds> retry_after() const;

  Transport& transport();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
