#pragma once

#include <fmt/format.h>

#include <cstring>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/protocol/messages.h"
#include "core/tensor/state.h"
#include "tests/server/http/tls_client.h"
#include "tests/support/federation.h"

// Callers that hold good certificates and say with them what no client of ours would.
namespace muster::testing {

inline WallTime wall_now() {
  return std::chrono::system_clock::now();
}

inline Json json_of(const std::string& text) {
  return Json::parse(text, nullptr, false);
}

inline std::string code_of(const Reply& reply) {
  const Json body = json_of(reply.body);
  return body.is_object() ? body.value("code", "") : "";
}

// "422 bad_job", or "200" where there is no problem: what most tests want to know.
inline std::string outcome(const Reply& reply) {
  const std::string code = code_of(reply);
  return std::to_string(reply.status) + (code.empty() ? "" : " " + code);
}

inline std::string request_text(const std::string& method, const std::string& path,
                                const std::string& body, const std::string& type,
                                const std::string& fields = "") {
  std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields;
  if (!type.empty()) text += "Content-Type: " + type + "\r\n";
  if (method != "GET") text += fmt::format("Content-Length: {}\r\n", body.size());
  return text + "\r\n" + body;
}

// A certificate, its key and a port: each call is one connection.
class Caller {
 public:
  // Without `pair` there is no client certificate.
  Caller(Certificate authority, int port, std::optional<KeyPair> pair)
      : authority_(std::move(authority)), port_(port), pair_(std::move(pair)) {}

  std::unique_ptr<TlsClient> connect() const {
    return std::make_unique<TlsClient>(
        port_, TlsClient::Setup{&authority_, pair_ ? &*pair_ : nullptr, TLS1_3_VERSION});
  }
  // Status 0: there was no answer.
  Reply say(const std::string& text) const { return connect()->ask(text).value_or(Reply{}); }
  Reply get(const std::string& path, const std::string& fields = "") const {
    return say(request_text("GET", path, "", "", fields));
  }
  Reply post(const std::string& path, const std::string& body,
             const std::string& type = "application/json") const {
    return say(request_text("POST", path, body, type));
  }
  const KeyPair& pair() const { return *pair_; }

 private:
  Certificate authority_;
  int port_;
  std::optional<KeyPair> pair_;
};

// Somebody with a certificate of the federation's own authority.
inline Caller caller_as(Federation& federation, const Identity& identity) {
  const Authority authority = federation.authority();
  return Caller(authority.certificate(), federation.server().api_port(),
                take(issue_key_pair(authority, identity, wall_now(), std::chrono::hours(24))));
}

// What a device says and sends in one update. A test bends it, then sends it.
struct Upload {
  std::string path;
  Json statement;
  std::string statement_text;  // empty: that of `statement`
  std::string signature;       // empty: a good one of the sender's
  std::string body;
  std::string type = "application/octet-stream";

  void set_body(std::string bytes) {
    body = std::move(bytes);
    statement["digest"] = sha256(body).hex();
  }
};

// An enrolled device whose owner speaks the protocol by hand.
class HandDevice {
 public:
  HandDevice(Federation& federation, const std::string& name)
      : folder_(federation.folder(name)),
        identity_(federation.enroll_device(name)),
        client_(identity_),
        caller_(identity_.authority, federation.server().api_port(),
                KeyPair{take(PrivateKey::read(folder_ / "device.key")), identity_.certificate}) {}

  const std::string& name() const { return identity_.name; }
  const Caller& caller() const { return caller_; }
  Client& client() { return client_; }

  // Waits until there is work.
  protocol::Task task() {
    const auto answer = take(client_.check_in({.tags = {}, .examples = 100, .wait_ms = 20'000}));
    if (!answer.task) throw std::runtime_error(name() + " got no task");
    return *answer.task;
  }
  StateDict state_of(const protocol::Task& task) {
    return take(
        client_.fetch_state(task.state, static_cast<std::uint64_t>(task.state_bytes), folder_));
  }
  std::string sign(const std::string& statement_text) const {
    return base64_encode(
        take(caller_.pair().key.sign(protocol::update_signing_input(statement_text))));
  }
  std::string request_for(const Upload& upload) const {
    const std::string said =
        upload.statement_text.empty() ? upload.statement.dump() : upload.statement_text;
    const std::string signature = upload.signature.empty() ? sign(said) : upload.signature;
    return request_text("PUT", upload.path, upload.body, upload.type,
                        "Muster-Update: " + base64_encode(as_bytes(said)) +
                            "\r\nMuster-Signature: " + signature + "\r\n");
  }
  Reply send(const Upload& upload) const { return caller_.say(request_for(upload)); }

 private:
  std::filesystem::path folder_;
  DeviceIdentity identity_;
  Client client_;
  Caller caller_;
};

// All of them check in at the same time, so that a round of that many begins.
inline std::vector<protocol::Task> tasks_of(const std::vector<HandDevice*>& devices) {
  std::vector<std::future<protocol::Task>> asked;
  for (HandDevice* device : devices)
    asked.push_back(std::async(std::launch::async, [device] { return device->task(); }));
  std::vector<protocol::Task> tasks;
  for (auto& task : asked) tasks.push_back(task.get());
  return tasks;
}

// --- safetensors files, well-formed or not ---

struct RawTensor {
  std::string name;
  std::string dtype;
  Shape shape;
  std::string bytes;
};

// Tensors filled with one value, with the names and shapes of a layout.
inline std::vector<RawTensor> filled(const StateLayout& layout, float value) {
  std::vector<RawTensor> tensors;
  for (const TensorSpec& spec : layout.tensors()) {
    const std::vector<float> values(static_cast<std::size_t>(spec.size), value);
    const auto bytes = std::as_bytes(std::span(values));
    tensors.push_back({spec.name, "F32", spec.shape, std::string(as_text(bytes))});
  }
  return tensors;
}

inline void put_float(RawTensor& tensor, std::size_t index, float value) {
  std::memcpy(tensor.bytes.data() + index * sizeof(float), &value, sizeof(float));
}

inline std::string safetensors_of(const std::vector<RawTensor>& tensors) {
  Json header = Json::object();
  std::string data;
  for (const RawTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string file(8, '\0');
  store_le64(text.size(), std::as_writable_bytes(std::span(file)));
  return file + text + data;
}

// A good update for a task, every value of its state `value`.
inline Upload upload_for(const protocol::Task& task, const StateLayout& layout, float value,
                         std::int64_t examples) {
  protocol::UpdateStatement statement;
  statement.job = task.fit.job;
  statement.round = task.fit.round;
  statement.attempt = task.attempt;
  statement.task = task.id;
  statement.base = task.state;
  statement.examples = examples;
  statement.steps = 5;
  statement.metrics = {{"loss", 1.0}};
  Upload upload;
  upload.path = fmt::format("/v1/jobs/{}/rounds/{}/update", task.fit.job, task.fit.round);
  upload.statement = protocol::to_json(statement);
  upload.set_body(safetensors_of(filled(layout, value)));
  return upload;
}

// The reasons in "refused" of a round, in the order of the refusals.
inline std::vector<std::string> refused_reasons(Federation& federation, const std::string& job,
                                                int round, const std::string& device = "") {
  std::vector<std::string> reasons;
  const Json described = federation.get_json(fmt::format("/v1/jobs/{}/rounds/{}", job, round));
  for (const Json& refused : described.at("refused")) {
    if (device.empty() || refused.at("device") == device) reasons.push_back(refused.at("reason"));
  }
  return reasons;
}

}  // namespace muster::testing
