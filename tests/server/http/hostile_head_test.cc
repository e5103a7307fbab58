// The HTTP rows of the table of hostile cases that a head alone decides, over real TLS.
#include <set>

#include "tests/server/http/door_fixture.h"

namespace muster::http {
namespace {

struct Case {
  std::string id;
  std::string text;
  std::set<int> statuses;
  bool closes = true;
};

class HostileHead : public FrontDoorTest {};

std::vector<Case> cases() {
  const std::string host = "Host: localhost\r\n";
  const std::string json = host + "Content-Type: application/json\r\n";
  const std::string hidden = "GET /v1/hello HTTP/1.1\r\n" + host + "\r\n";
  const auto get = [&](const std::string& path, const std::string& fields = "") {
    return "GET " + path + " HTTP/1.1\r\n" + host + fields + "\r\n";
  };
  const auto post = [&](const std::string& fields, const std::string& body = "") {
    return "POST /v1/echo HTTP/1.1\r\n" + json + fields + "\r\n" + body;
  };
  std::vector<Case> all = {
      {"HTTP-05", post("Content-Length: 1025\r\n"), {413}},
      {"HTTP-05 huge", post("Content-Length: 9223372036854775808\r\n"), {413}},
      {"HTTP-09 same", post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"), {400}},
      {"HTTP-09 different", post("Content-Length: 2\r\nContent-Length: 3\r\n", "{} "), {400}},
      {"HTTP-10",
       post("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + hidden),
       {400, 501}},
      {"HTTP-11 chunked",
       post("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n" + hidden),
       {501}},
      {"HTTP-12",
       post("Transfer-Encoding: chunked\r\n", "1;" + std::string(9000, 'x') + "\r\n"),
       {501}},
      {"HTTP-13",
       post("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n",
            "0\r\nContent-Length: 3\r\n\r\n"),
       {501}},
      {"HTTP-14 space", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), {400}},
      {"HTTP-14 gzip", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), {400}},
      {"HTTP-14 folded", post("X: a\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), {400}},
      {"HTTP-14 tab", post("Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n"), {400}},
      {"HTTP-15", get("/v1/hello", "Content-Length: 3\r\n") + "abc", {400}},
      {"HTTP-15 HEAD",
       "HEAD /v1/hello HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc",
       {400}},
      {"HTTP-16 413", post("Content-Length: 5000\r\n", hidden), {413}},
      {"HTTP-16 404",
       "POST /v1/none HTTP/1.1\r\n" + json + "Content-Length: 62\r\n\r\n" + hidden,
       {404}},
      {"HTTP-16 405",
       "POST /v1/hello HTTP/1.1\r\n" + json + "Content-Length: 62\r\n\r\n" + hidden,
       {405}},
      {"HTTP-16 no body wanted",
       "GET /v1/jobs/a HTTP/1.1\r\n" + host + "Content-Length: 62\r\n\r\n" + hidden,
       {400}},
      {"HTTP-20", get("/v1/jobs/" + std::string(8000, 'a')), {404}, false},
      {"HTTP-21 NUL", get(std::string("/v1/\0hello", 10)), {400}},
      {"HTTP-21 %00", get("/v1/hello%00"), {400}},
      {"HTTP-21 %0d%0a", get("/v1/hello%0d%0aX:%20y"), {400}},
      {"HTTP-21 CR", get("/v1/hel\rlo"), {400}},
      {"HTTP-21 header", get("/v1/hello", std::string("X: a\0b\r\n", 8)), {400}},
      {"HTTP-22 dots", get("/../../etc/passwd"), {404}, false},
      {"HTTP-22 escaped", get("/%2e%2e%2f%2e%2e%2fetc/passwd"), {404}, false},
      {"HTTP-22 backslash", get("/..\\..\\etc"), {404}, false},
      {"HTTP-22 double", get("//v1/hello"), {404}, false},
      {"HTTP-22 absolute", get("/etc/passwd"), {404}, false},
      {"absolute-form", get("https://localhost/v1/hello"), {400}},
      {"HTTP-24 none", "GET /v1/hello HTTP/1.1\r\n\r\n", {400}},
      {"HTTP-24 two", get("/v1/hello", host), {400}},
      {"HTTP-24 foreign", "GET /v1/hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", {421}},
      {"HTTP-25 gzip", post("Content-Length: 2\r\nContent-Encoding: gzip\r\n", "{}"), {415}},
      {"HTTP-25 br", post("Content-Length: 2\r\nContent-Encoding: br\r\n", "{}"), {415}},
      {"HTTP-26",
       "POST /v1/echo HTTP/1.1\r\n" + host +
           "Content-Type: text/xml\r\nContent-Length: 2\r\n\r\n{}",
       {415}},
      {"HTTP-26 none", "POST /v1/echo HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n{}", {415}},
      {"length required", post(""), {411}},
      {"1.0", "GET /v1/hello HTTP/1.0\r\n" + host + "\r\n", {505}},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}},
      {"bare LF", "GET /v1/hello HTTP/1.1\nHost: localhost\n\n", {400}},
      {"unknown method", "BREW /v1/hello HTTP/1.1\r\n" + host + "\r\n", {501}, false},
      {"expectation", post("Content-Length: 2\r\nExpect: tea\r\n", "{}"), {417}},
  };
  for (const char* length : {"-1", "+3", "3abc", "abc", "", "0x3", "18446744073709551619"}) {
    all.push_back({"HTTP-08 " + std::string(length),
                   post("Content-Length: " + std::string(length) + "\r\n", "{} " + hidden),
                   {400}});
  }
  return all;
}

TEST_F(HostileHead, EachGetsItsStatusOnceAndNoHandlerRuns) {
  start();
  for (const Case& hostile : cases()) {
    SCOPED_TRACE(hostile.id);
    const auto client = connect();
    const auto reply = client->ask(hostile.text);
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(hostile.statuses.count(reply->status), 1u) << reply->status << " " << reply->body;
    EXPECT_EQ(reply->header("content-type"), "application/problem+json");
    EXPECT_EQ(reply->header("muster-request-id").size(), 16u);
    EXPECT_NE(reply->body.find(reply->header("muster-request-id")), std::string::npos);
    EXPECT_EQ(reply->closes(), hostile.closes);
    if (hostile.closes) {
      EXPECT_TRUE(client->is_closed());
    } else {
      EXPECT_EQ(client->ask(get("/v1/hello"))->status, 200);
      --calls;
    }
    EXPECT_EQ(calls, 0);
  }
}

TEST_F(HostileHead, Http17And18EndAtTheBudgetHoweverMuchComes) {
  start();
  std::string fields;
  for (int i = 0; i < 100'000; ++i)
    fields += std::string("X").append(std::to_string(i)).append(": y\r\n");
  for (const std::string& text :
       {get("/v1/hello", fields), get("/v1/hello", "X: " + std::string(2'000'000, 'x'))}) {
    const auto client = connect();
    client->send(text);
    const auto reply = client->read();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 431);
    EXPECT_TRUE(client->is_closed());
  }
  ASSERT_TRUE(wait_until([&] { return log.size() == 2; }));
  for (const auto& record : log) EXPECT_LE(record.bytes_in, 32u * 1024) << record.problem;
}

TEST_F(HostileHead, Http20ALongHeaderReachesTheHandlerWhole) {
  start();
  EXPECT_EQ(ask(get("/v1/hello", "Range: bytes=" + std::string(8000, '1') + "\r\n"))->status, 200);
}

TEST_F(HostileHead, Http21LogsEscapes) {
  start();
  ask(get("/v1/\x1b[31m"));
  ask(get("/v1/jobs/a%20b"));
  ASSERT_TRUE(wait_until([&] { return log.size() == 2; }));
  for (const auto& record : log) {
    for (const char c : record.path + record.problem) EXPECT_GE(c, ' ');
  }
}

TEST_F(HostileHead, Http28HeadersNeverChangeWhoThePeerIs) {
  start();
  const auto reply =
      ask(get("/v1/hello",
              "REMOTE_ADDR: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nLOCAL_ADDR: 6.6.6.6\r\n"
              "Forwarded: for=6.6.6.6\r\nX-Client-Cert: operator\r\n"));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(Json::parse(reply->body), (Json{{"caller", "device-01"}, {"peer", "127.0.0.1"}}));
  ASSERT_TRUE(wait_until([&] { return log.size() == 1; }));
  EXPECT_EQ(log[0].peer.rfind("127.0.0.1:", 0), 0u);
  EXPECT_EQ(log[0].caller, "device device-01");
}

TEST_F(HostileHead, HeadIsRefusedWithoutABody) {
  start();
  const auto client = connect();
  client->send("HEAD /v1/hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  std::string text;
  char buffer[4096];
  for (int got; (got = SSL_read(client->native(), buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  EXPECT_EQ(text.rfind("HTTP/1.1 405 ", 0), 0u);
  EXPECT_NE(text.find("\r\nAllow: GET\r\n"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\n\r\n");
}

TEST_F(HostileHead, ARoleThatMayNotIsToldWhichMay) {
  start();
  const auto reply = ask(get("/v1/jobs/a"));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 403);
  EXPECT_EQ(code_of(*reply), "wrong_role");
  EXPECT_NE(reply->body.find("operator, auditor"), std::string::npos);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(ask(get("/v1/jobs/a"), &operator_pair)->status, 200);
}

TEST_F(HostileHead, Http16ARefusedUploadNeverRunsTheRequestInItsBody) {
  start();
  const std::string hidden = get("/v1/jobs/a");
  const auto client = connect(&operator_pair);  // may see jobs, may not upload
  const auto reply = client->ask(put_head("a", hidden.size()) + hidden);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 403);
  EXPECT_TRUE(client->is_closed());
  EXPECT_EQ(calls, 0);
}

TEST_F(HostileHead, EveryByteOfAGoodRequestMutatedGetsAnAnswerOrAnEnd) {
  options.limits.head = Milliseconds(60'000);
  start();
  const std::string good = post("/v1/echo", "{}");
  const std::string values("\0\r\n\t :%,;\x7f\xff/A", 13);
  for (std::size_t at = 0; at < good.size() - 2; at += 3) {
    std::string text = good;
    text[at] = values[at % values.size()];
    const auto client = connect();
    client->send(text);
    // A body that became longer or a head without end: say so.
    SSL_shutdown(client->native());
    client->read();
  }
  EXPECT_EQ(ask(good)->status, 200);
}

}  // namespace
}  // namespace muster::http
