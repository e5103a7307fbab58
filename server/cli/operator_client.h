#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "certs/key.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "edge_client/transport.h"

namespace muster::cli {

// A command's connection to its server, with the operator's certificate. One object a command; one
// thread. Errors of all calls: those of Transport; the server's problems with their code as reason.
class OperatorClient {
 public:
  // `directory` is a server's directory or an operator folder.
  static Result<OperatorClient> open(const std::filesystem::path& directory);

  Result<Json> get(const std::string& path);
  Result<Json> post(const std::string& path, const Json& body);
  // The state `digest` of `bytes` bytes, checked, into `file`.
  Status download_state(const Digest& digest, std::uint64_t bytes,
                        const std::filesystem::path& file);

  // The same in memory, at most 64 MiB.
  Result<std::string> get_state(const Digest& digest, std::uint64_t bytes);

 private:
  OperatorClient(std::unique_ptr<PrivateKey> key, std::unique_ptr<Transport> transport)
      : key_(std::move(key)), transport_(std::move(transport)) {}

  std::unique_ptr<PrivateKey> key_;  // the transport holds a pointer to it
  std::unique_ptr<Transport> transport_;
};

}  // namespace muster::cli
