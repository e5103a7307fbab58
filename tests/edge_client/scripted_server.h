#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "certs/authority.h"
#include "certs/tls.h"
#include "core/base/file.h"
#include "edge_client/client.h"
#include "edge_client/identity_files.h"

namespace muster::testing {

// Opens once; whoever waits goes on. Waits have an end, so that a broken test fails and does not
// hang.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}
inline void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-edge-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline WallTime now() {
  return std::chrono::system_clock::now();
}
constexpr std::chrono::hours kDay{24};

// An authority with a server's and a device's key pair.
struct World {
  Authority authority = must(Authority::create(now()));
  KeyPair server = server_for({"localhost", "127.0.0.1"}, now(), kDay);
  KeyPair device = must(issue_key_pair(authority, {Role::kDevice, "device-01"}, now(), kDay));

  KeyPair server_for(const std::vector<std::string>& hosts, WallTime from,
                     std::chrono::hours lifetime) const {
    return must(issue_key_pair(authority, {Role::kServer, "server"}, from, lifetime, hosts));
  }
  // What enrolling would have written.
  DeviceIdentity identity(const std::filesystem::path& folder, int port) const {
    must(device.key.write(folder / identity_files::kKey));
    must(write_identity(folder, "device-01", {"localhost", port}, authority.certificate(),
                        device.certificate));
    return must(DeviceIdentity::read(folder));
  }
};

struct ScriptedRequest {
  std::string method, path, body;
  std::map<std::string, std::string> headers;  // names in lower case
};

inline std::string http(int status, const std::string& body,
                        const std::string& type = "application/json",
                        const std::string& more = "") {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
}

inline std::string problem(int status, const std::string& code) {
  const Json json = protocol::to_json(protocol::Problem{status, code, "what is wrong", "r1"});
  return http(status, json.dump(), "application/problem+json");
}

// A connection of the scripted server, after its handshake.
class ScriptedConnection {
 public:
  explicit ScriptedConnection(SSL* ssl) : ssl_(ssl) {}

  // The head of the next request; nothing when the client is gone.
  std::optional<ScriptedRequest> read_head() {
    std::size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return std::nullopt;
    }
    ScriptedRequest request;
    std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    const std::string line = head.substr(0, head.find("\r\n"));
    request.method = line.substr(0, line.find(' '));
    request.path = line.substr(line.find(' ') + 1, line.rfind(' ') - line.find(' ') - 1);
    for (std::size_t at = line.size() + 2; at < head.size();) {
      const std::size_t next = head.find("\r\n", at), colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return char(std::tolower(c)); });
      request.headers[name] = head.substr(colon + 2, next - colon - 2);
      at = next + 2;
    }
    return request;
  }
  bool read_body(ScriptedRequest& request) {
    const auto length = request.headers.find("content-length");
    const std::size_t wanted = length == request.headers.end() ? 0 : std::stoul(length->second);
    while (buffer_.size() < wanted) {
      if (!fill()) return false;
    }
    request.body = buffer_.substr(0, wanted);
    buffer_.erase(0, wanted);
    return true;
  }
  bool send(const std::string& text) {
    return text.empty() || SSL_write(ssl_, text.data(), static_cast<int>(text.size())) > 0;
  }
  // Nothing comes until the client hangs up.
  void wait_for_end() {
    while (fill()) {
    }
  }

 private:
  bool fill() {
    char piece[16384];
    const int bytes = SSL_read(ssl_, piece, sizeof(piece));
    if (bytes > 0) buffer_.append(piece, static_cast<std::size_t>(bytes));
    return bytes > 0;
  }
  SSL* ssl_;
  std::string buffer_;
};

// A TLS server on a port of its own that does with each connection what the test says, in a thread
// of its own.
class ScriptedServer {
 public:
  using Talk = std::function<void(ScriptedConnection&, int number)>;

  ScriptedServer(const KeyPair& own, const Certificate& authority,
                 const Certificate* client_authority, Talk talk, int port = 0)
      : context_(must(make_server_tls(own.certificate, own.key, authority, client_authority))),
        talk_(std::move(talk)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener_, 64) != 0) {
      throw std::runtime_error("bind");
    }
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
  }

  int port() const { return port_; }
  int connections() const { return handshakes_.load(); }
  ServerUrl url(const std::string& host = "localhost") const { return {host, port_}; }

 private:
  void accept_all() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);  // this server's only: the client must not raise it
    while (true) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const std::lock_guard lock(mutex_);
      open_.push_back(socket);
      threads_.emplace_back([this, socket] { serve(socket); });
    }
  }
  void serve(int socket) {
    SSL* ssl = SSL_new(context_.get());
    SSL_set_fd(ssl, socket);
    if (SSL_accept(ssl) == 1) {
      ScriptedConnection connection(ssl);
      talk_(connection, handshakes_++);
      SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    const std::lock_guard lock(mutex_);
    open_.remove(socket);
    ::close(socket);
  }

  TlsContext context_;
  Talk talk_;
  int listener_ = -1, port_ = 0;
  std::atomic<int> handshakes_{0};
  std::mutex mutex_;
  std::list<int> open_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

// Answers every request of every connection with what `answer` gives; an empty text hangs up.
inline ScriptedServer::Talk answering(std::function<std::string(const ScriptedRequest&)> answer) {
  return [answer](ScriptedConnection& connection, int) {
    while (auto request = connection.read_head()) {
      if (!connection.read_body(*request)) return;
      const std::string text = answer(*request);
      if (text.empty() || !connection.send(text)) return;
    }
  };
}

}  // namespace muster::testing
