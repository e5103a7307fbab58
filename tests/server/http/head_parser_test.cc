#include "server/http/head_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace muster::http {
namespace {

const std::string kGood =
    "PUT /v1/jobs/mnist-1/rounds/3/update?after=10&kind=a_b HTTP/1.1\r\n"
    "Host: muster.example:8443\r\n"
    "Content-Type: application/octet-stream\r\n"
    "Content-Length: 1234\r\n"
    "Muster-Update: abc=\tdef\r\n"
    "Connection: keep-alive, close\r\n"
    "Expect: 100-continue\r\n"
    "\r\n";

std::string get(const std::string& target, const std::string& fields = "Host: a\r\n") {
  return "GET " + target + " HTTP/1.1\r\n" + fields + "\r\n";
}

int status_of(const std::string& head) {
  const auto parsed = parse_head(head);
  return parsed ? 200 : parsed.error().status;
}

TEST(HeadParser, ReadsEveryPartOfAGoodHead) {
  const auto head = parse_head(kGood);
  ASSERT_TRUE(head.has_value()) << head.error().detail;
  EXPECT_EQ(head->method, "PUT");
  EXPECT_EQ(head->path, "/v1/jobs/mnist-1/rounds/3/update");
  EXPECT_EQ(head->query.at("after"), "10");
  EXPECT_EQ(head->query.at("kind"), "a_b");
  EXPECT_EQ(head->host, "muster.example");
  EXPECT_EQ(head->content_length, 1234u);
  EXPECT_EQ(head->headers.at("muster-update"), "abc=\tdef");
  EXPECT_TRUE(head->close);
  EXPECT_TRUE(head->expect_continue);
  EXPECT_FALSE(head->path_is_foreign);
}

TEST(HeadParser, NoTruncationOfAGoodHeadIsComplete) {
  for (std::size_t length = 0; length < kGood.size(); ++length) {
    const std::string part = kGood.substr(0, length);
    HeadScanner scanner({});
    const auto end = scanner.scan(part);
    ASSERT_TRUE(end.has_value()) << length;
    EXPECT_EQ(*end, 0u) << length;
    EXPECT_FALSE(parse_head(part).has_value()) << length;
  }
}

TEST(HeadParser, FindsTheEndWhateverPiecesTheHeadArrivesIn) {
  const std::string more = kGood + "body";
  for (std::size_t piece = 1; piece <= more.size(); ++piece) {
    HeadScanner scanner({});
    std::size_t found = 0;
    for (std::size_t have = piece; found == 0; have += piece) {
      const auto end = scanner.scan(std::string_view(more).substr(0, have));
      ASSERT_TRUE(end.has_value());
      found = *end;
      ASSERT_LT(have, more.size() + piece);
    }
    EXPECT_EQ(found, kGood.size());
  }
}

// A second, naive reading: what a lenient parser behind us would make of the same bytes.
struct Naive {
  std::string first_line;
  std::vector<std::pair<std::string, std::string>> fields;
};

Naive read_naively(std::string text) {
  Naive naive;
  std::size_t start = 0;
  for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    std::string line = text.substr(start, end - start);
    while (!line.empty() && line.back() == '\r') line.pop_back();
    if (start == 0) {
      naive.first_line = line;
      continue;
    }
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    auto name = to_lower(line.substr(0, colon));
    name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c <= ' '; }),
               name.end());
    auto value = line.substr(colon + 1);
    value.erase(0, std::min(value.find_first_not_of(" \t"), value.size()));
    while (!value.empty() && value.back() == ' ') value.pop_back();
    naive.fields.emplace_back(name, value);
  }
  return naive;
}

TEST(HeadParser, WhateverOneByteBecomesALenientReaderAgreesOrTheHeadIsRefused) {
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < kGood.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string text = kGood;
      text[at] = static_cast<char>(value);
      const auto head = parse_head(text);
      if (!head) {
        EXPECT_GE(head.error().status, 400);
        continue;
      }
      ++accepted;
      const Naive naive = read_naively(text);
      EXPECT_EQ(naive.first_line.rfind(head->method + " " + head->path, 0), 0u);
      EXPECT_EQ(naive.fields.size(), head->headers.size());
      std::size_t lengths = 0;
      for (const auto& [name, found] : naive.fields) {
        EXPECT_EQ(head->headers.at(name), found);
        EXPECT_NE(name, "transfer-encoding");
        if (name == "content-length") {
          ++lengths;
          EXPECT_EQ(std::to_string(head->content_length.value()), found);
        }
      }
      EXPECT_EQ(lengths, head->content_length ? 1u : 0u);
    }
  }
  EXPECT_GT(accepted, 1000u);  // letters of names and values may change
}

TEST(HeadParser, ADeletedOrDoubledByteNeverChangesTheFraming) {
  for (std::size_t at = 0; at < kGood.size(); ++at) {
    std::string shorter = kGood;
    shorter.erase(at, 1);
    std::string longer = kGood;
    longer.insert(at, 1, kGood[at]);
    for (const std::string& text : {shorter, longer}) {
      const auto head = parse_head(text);
      if (!head) continue;
      const auto length = head->headers.find("content-length");
      EXPECT_EQ(head->content_length.has_value(), length != head->headers.end());
      if (head->content_length) {
        EXPECT_EQ(std::to_string(*head->content_length), length->second);
      }
    }
  }
}

TEST(HeadParser, Http08RefusesEveryLengthThatIsNoPlainNumber) {
  for (const char* length : {"-1", "+3", "3abc", "abc", "", "0x3", "18446744073709551619", "3 4",
                             "3,3", "03", "9223372036854775809", "1e3", "\t3", "3\t", "3.0"}) {
    const std::string text =
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::string(length) + "\r\n\r\n";
    EXPECT_EQ(status_of(text), 400) << length;
  }
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n"),
            200);
}

TEST(HeadParser, Http09And10RefuseAmbiguousFraming) {
  const auto post = [](const std::string& fields) {
    return status_of("POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n");
  };
  EXPECT_EQ(post("Content-Length: 3\r\nContent-Length: 3\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 3\r\ncontent-length: 4\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: chunked\r\n"), 501);
  EXPECT_EQ(post("Transfer-Encoding: gzip, chunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding : chunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding:\tchunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: \x0b"
                 "chunked\r\n"),
            400);
  EXPECT_EQ(post("X: a\r\n Transfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(post("X: a\r\n\tb\r\n"), 400);
}

TEST(HeadParser, RefusesLineEndsThatOthersReadDifferently) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\nHost: a\n\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nX: b\rY: c\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nX: b\nY: c\r\n\r\n"), 400);
  EXPECT_EQ(status_of("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of(std::string("GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n", 35)), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nX: \xc3\xa4\r\n\r\n"), 400);
}

TEST(HeadParser, RefusesRequestLinesThatAreNotExactlyThreeParts) {
  for (const char* line : {"GET", "GET /", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", " GET / HTTP/1.1",
                           "GET\t/\tHTTP/1.1", "G(T / HTTP/1.1", "GET / http/1.1", "GET / HTTP/11",
                           "GET / HTTP/1.10", "GET /a b HTTP/1.1"}) {
    EXPECT_EQ(status_of(std::string(line) + "\r\nHost: a\r\n\r\n"), 400) << line;
  }
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
}

TEST(HeadParser, TakesOriginFormOnly) {
  for (const char* target : {"*", "a", "http://a/v1", "https://a/", "a:443", "?x=1"}) {
    EXPECT_EQ(status_of(get(target)), 400) << target;
  }
}

TEST(HeadParser, Http21And22TellMalformedPathsFromForeignOnes) {
  for (const char* path : {"/%00", "/%0d%0aX:y", "/a%", "/a%2", "/a%zz", "/a#b", "/\"", "/<",
                           "/{x}", "/a\x7f", "/\xff", "/%7f", "/%1F"}) {
    EXPECT_EQ(status_of(get(path)), 400) << path;
  }
  for (const char* path :
       {"/../../etc/passwd", "/%2e%2e%2f", "/..\\..", "//", "//etc/passwd", "/a//b", "/a/./b", "/.",
        "/..", "/a/", "/a%20b", "/a;b", "/a:b", "/a@b", "/a=b"}) {
    const auto head = parse_head(get(path));
    ASSERT_TRUE(head.has_value()) << path;
    EXPECT_TRUE(head->path_is_foreign) << path;
  }
  EXPECT_FALSE(parse_head(get("/v1/a.b_c-d~e"))->path_is_foreign);
  EXPECT_FALSE(parse_head(get("/"))->path_is_foreign);
}

TEST(HeadParser, TakesPlainQueriesOnly) {
  EXPECT_EQ(parse_head(get("/a?after=1&b="))->query.at("b"), "");
  for (const char* query : {"?", "?a", "?=1", "?a=1&", "?&a=1", "?a=1&a=2", "?a=%31", "?a=b=c",
                            "?a=1;b=2", "?a=+", "?a=/"}) {
    EXPECT_EQ(status_of(get("/a" + std::string(query))), 400) << query;
  }
}

TEST(HeadParser, Http24WantsExactlyOneHost) {
  EXPECT_EQ(status_of(get("/", "")), 400);
  EXPECT_EQ(status_of(get("/", "Host: a\r\nHost: a\r\n")), 400);
  for (const char* host :
       {"", "a b", "a/b", "a:", "a:x", "a:123456", "user@a", "[::1", "a,b", "[::1]x"}) {
    EXPECT_EQ(status_of(get("/", "Host: " + std::string(host) + "\r\n")), 400) << host;
  }
  EXPECT_EQ(parse_head(get("/", "Host: LOCALHOST:1\r\n"))->host, "localhost");
  EXPECT_EQ(parse_head(get("/", "Host: [::1]:8443\r\n"))->host, "::1");
}

TEST(HeadParser, Http15RefusesABodyOnGet) {
  EXPECT_EQ(status_of(get("/", "Host: a\r\nContent-Length: 1\r\n")), 400);
  EXPECT_EQ(status_of(get("/", "Host: a\r\nContent-Length: 0\r\n")), 200);
}

TEST(HeadParser, RefusesAnExpectationItDoesNotKnow) {
  EXPECT_EQ(status_of(get("/", "Host: a\r\nExpect: tea\r\n")), 417);
}

TEST(HeadParser, Http17And18EndAtTheirLimits) {
  std::string fields = "Host: a\r\n";
  for (int i = 0; i < 63; ++i)
    fields += std::string("X").append(std::to_string(i)).append(": y\r\n");
  EXPECT_EQ(status_of(get("/", fields)), 200);  // 64 fields
  EXPECT_EQ(status_of(get("/", fields + "Z: y\r\n")), 431);

  const std::string frame = get("/", "Host: a\r\nX: \r\n");
  const auto with_size = [&](std::size_t size) {
    return get("/", "Host: a\r\nX: " + std::string(size - frame.size(), 'x') + "\r\n");
  };
  EXPECT_EQ(status_of(with_size(16 * 1024)), 200);
  EXPECT_EQ(status_of(with_size(16 * 1024 + 1)), 431);
}

TEST(HeadParser, ContentTypesMatchByTypeAndUtf8Alone) {
  EXPECT_TRUE(content_type_matches("application/json", "application/json"));
  EXPECT_TRUE(content_type_matches("Application/JSON; charset=UTF-8", "application/json"));
  EXPECT_FALSE(content_type_matches("application/json; charset=utf-16", "application/json"));
  EXPECT_FALSE(content_type_matches("application/json; boundary=x", "application/json"));
  EXPECT_FALSE(content_type_matches("application/jsonx", "application/json"));
  EXPECT_FALSE(content_type_matches("", "application/json"));
}

}  // namespace
}  // namespace muster::http
