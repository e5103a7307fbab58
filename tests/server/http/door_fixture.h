#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "certs/tls.h"
#include "core/base/json.h"
#include "server/http/front_door.h"
#include "tests/certs/support.h"
#include "tests/server/http/tls_client.h"

namespace muster::http {

using testing::Milliseconds;
using testing::RawClient;
using testing::Reply;
using testing::SteadyClock;
using testing::TlsClient;

// A front door on a free port with short limits, an authority, a device, an operator, and one route
// of each kind. `log` holds every access record; `parked` the responders of GET /v1/wait.
class FrontDoorTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSpoolLimit = 8 << 20;

  FrontDoorTest() {
    options.bind_address = "127.0.0.1";
    options.hosts = {"localhost"};
    options.worker_threads = 2;
    options.spool_folder = spool.path();
    options.limits.handshake = Milliseconds(500);
    options.limits.head = Milliseconds(500);
    options.limits.idle = Milliseconds(20'000);
    options.limits.answer = Milliseconds(20'000);
    options.limits.rate_window = Milliseconds(400);
  }

  ~FrontDoorTest() override {
    if (door != nullptr) door->stop(Milliseconds(0));
    release_parked();
  }

  void start(bool with_client_certificates = true) {
    auto tls = make_server_tls(server_pair.certificate, server_pair.key, authority.certificate(),
                               with_client_certificates ? &authority.certificate() : nullptr);
    ASSERT_TRUE(tls.has_value()) << tls.error().message;
    door = std::make_unique<FrontDoor>(options, *std::move(tls), routes(),
                                       [this](const AccessRecord& record) {
                                         const std::lock_guard lock(mutex);
                                         log.push_back(record);
                                         changed.notify_all();
                                       });
    const Status started = door->start();
    ASSERT_TRUE(started.has_value()) << started.error().message;
  }

  std::vector<Route> routes() {
    const BodyRule spooled{
        BodyRule::Kind::kSpool, "application/octet-stream", 0,
        [](const Request& head) -> tl::expected<std::uint64_t, Response> {
          if (head.param("job") == "closed") {
            return tl::unexpected(Response::problem(410, "round_closed", "The round is over."));
          }
          return kSpoolLimit;
        }};
    std::vector<Route> table;
    const auto add = [&](const char* method, const char* pattern, std::set<Role> roles,
                         BodyRule body, std::function<void(Request&, Responder&)> handler) {
      table.push_back({method, pattern, std::move(roles), std::move(body),
                       [this, handler](std::shared_ptr<Request> request, Responder respond) {
                         ++calls;
                         handler(*request, respond);
                       }});
    };
    add("GET", "/v1/hello", {}, BodyRule::none(), [](Request& request, Responder& respond) {
      respond(Response::json(Json{{"caller", request.caller()}, {"peer", request.peer.address}}));
    });
    add("POST", "/v1/echo", {}, BodyRule::json(1024), [](Request& request, Responder& respond) {
      respond(Response::json(Json{{"body", request.body}}));
    });
    add("GET", "/v1/jobs/{job}", {Role::kOperator, Role::kAuditor}, BodyRule::none(),
        [](Request& request, Responder& respond) {
          respond(Response::json(Json{{"job", request.param("job")}}));
        });
    add("PUT", "/v1/jobs/{job}/update", {Role::kDevice}, spooled,
        [this](Request& request, Responder& respond) {
          struct stat found {};
          ::stat(request.spooled->path().c_str(), &found);
          if (on_spooled) on_spooled(request);
          respond(Response::json(Json{{"bytes", request.spooled->bytes()},
                                      {"digest", request.spooled->digest().hex()},
                                      {"size", found.st_size},
                                      {"mode", found.st_mode & 07777}}));
        });
    add("GET", "/v1/file", {}, BodyRule::none(), [this](Request&, Responder& respond) {
      Response response;
      response.content_type = "application/octet-stream";
      response.file = slice;
      respond(std::move(response));
    });
    add("GET", "/v1/wait", {}, BodyRule::none(), [this](Request&, Responder& respond) {
      const std::lock_guard lock(mutex);
      parked.push_back(std::move(respond));
      changed.notify_all();
    });
    add("GET", "/v1/throw", {}, BodyRule::none(),
        [](Request&, Responder&) { throw std::runtime_error("secret /var/lib/muster SELECT"); });
    add("GET", "/v1/forget", {}, BodyRule::none(),
        [](Request&, Responder& respond) { const Responder dropped(std::move(respond)); });
    return table;
  }

  TlsClient::Setup as(const KeyPair& pair) const { return {&authority.certificate(), &pair}; }
  std::unique_ptr<TlsClient> connect(const KeyPair* pair = nullptr) const {
    return std::make_unique<TlsClient>(door->port(), as(pair != nullptr ? *pair : device_pair));
  }
  // One request on a connection of its own.
  std::optional<Reply> ask(const std::string& text, const KeyPair* pair = nullptr) const {
    return connect(pair)->ask(text);
  }

  static std::string get(const std::string& path, const std::string& fields = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
  }
  static std::string post(const std::string& path, const std::string& body,
                          const std::string& type = "application/json") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string put_head(const std::string& job, std::uint64_t length,
                              const std::string& fields = "") {
    return "PUT /v1/jobs/" + job +
           "/update HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
           "Content-Length: " +
           std::to_string(length) + "\r\n" + fields + "\r\n";
  }
  static std::string code_of(const Reply& reply) {
    const Json body = Json::parse(reply.body, nullptr, false);
    return body.is_object() && body.contains("code") ? body["code"].get<std::string>() : "";
  }

  // Waits until the predicate holds for what the fixture's mutex guards.
  template <typename Predicate>
  bool wait_until(Predicate predicate, Milliseconds patience = testing::kPatience) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, predicate);
  }
  bool wait_for_parked(std::size_t count) {
    return wait_until([&] { return parked.size() >= count; });
  }
  bool wait_for_problem(const std::string& text) {
    return wait_until([&] {
      for (const auto& record : log) {
        if (record.problem.find(text) != std::string::npos) return true;
      }
      return false;
    });
  }
  std::size_t records_with(const std::string& text) {
    const std::lock_guard lock(mutex);
    std::size_t count = 0;
    for (const auto& record : log) count += record.problem.find(text) != std::string::npos;
    return count;
  }
  std::vector<Responder> take_parked() {
    const std::lock_guard lock(mutex);
    return std::exchange(parked, {});
  }
  void release_parked() { take_parked(); }

  // Files are removed off the test's thread.
  bool spool_becomes_empty() const {
    for (const auto end = SteadyClock::now() + testing::kPatience; SteadyClock::now() < end;
         poll(nullptr, 0, 1)) {
      if (std::filesystem::is_empty(spool.path())) return true;
    }
    return false;
  }

  const testing::TemporaryFolder spool;
  const testing::TestAuthority authority = testing::TestAuthority::create();
  const KeyPair server_pair = authority.server();
  const KeyPair device_pair = authority.device();
  const KeyPair operator_pair =
      issue_key_pair(authority.authority, {Role::kOperator, "alice"}, testing::now(), testing::kDay)
          .value();

  FrontDoorOptions options;
  FileSlice slice;
  std::function<void(const Request&)> on_spooled;
  std::atomic<int> calls{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<AccessRecord> log;    // guarded by mutex
  std::vector<Responder> parked;    // guarded by mutex
  std::unique_ptr<FrontDoor> door;  // last: its threads use the rest
};

}  // namespace muster::http
