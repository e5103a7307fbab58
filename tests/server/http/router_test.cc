#include "server/http/router.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::http {
namespace {

Route route(const std::string& method, const std::string& pattern) {
  return {method, pattern, {}, BodyRule::none(), [](std::shared_ptr<Request>, Responder) {}};
}

Router table() {
  std::vector<Route> routes;
  routes.push_back(route("GET", "/v1/jobs/{job}"));
  routes.push_back(route("GET", "/v1/jobs/stats"));
  routes.push_back(route("POST", "/v1/jobs/{job}/stop"));
  routes.push_back(route("PUT", "/v1/jobs/{job}/rounds/{n}/update"));
  return Router(std::move(routes));
}

tl::expected<Router::Match, Response> find(const Router& router, const std::string& method,
                                           const std::string& path) {
  const auto head = parse_head(method + " " + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(head.has_value()) << path;
  return router.find(*head);
}

int status_of(const Router& router, const std::string& method, const std::string& path) {
  const auto match = find(router, method, path);
  return match ? 200 : match.error().status;
}

TEST(Router, BindsTheParametersOfAPattern) {
  const Router router = table();
  const auto match = find(router, "PUT", "/v1/jobs/mnist-1/rounds/3/update");
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->route->pattern, "/v1/jobs/{job}/rounds/{n}/update");
  EXPECT_EQ(match->params.at("job"), "mnist-1");
  EXPECT_EQ(match->params.at("n"), "3");
}

TEST(Router, PrefersALiteralToAParameter) {
  const Router router = table();
  EXPECT_EQ(find(router, "GET", "/v1/jobs/stats")->route->pattern, "/v1/jobs/stats");
  EXPECT_EQ(find(router, "GET", "/v1/jobs/other")->route->pattern, "/v1/jobs/{job}");
}

TEST(Router, KnownPathWithAnotherMethodGives405WithAllow) {
  const auto match = find(table(), "POST", "/v1/jobs/a");
  ASSERT_FALSE(match.has_value());
  EXPECT_EQ(match.error().status, 405);
  ASSERT_EQ(match.error().headers.size(), 1u);
  EXPECT_EQ(match.error().headers[0].first, "Allow");
  EXPECT_EQ(match.error().headers[0].second, "GET");
  EXPECT_EQ(status_of(table(), "HEAD", "/v1/jobs/a"), 405);
}

TEST(Router, UnknownMethodsGive501) {
  EXPECT_EQ(status_of(table(), "BREW", "/v1/jobs/a"), 501);
  EXPECT_EQ(status_of(table(), "get", "/v1/jobs/a"), 501);
}

TEST(Router, UnknownPathsGive404) {
  const Router router = table();
  for (const char* path :
       {"/", "/v1", "/v1/jobs", "/v1/jobs/a/b", "/v1/jobs/a/stop/x", "/V1/jobs/a",
        "/v1/jobs/../stats", "/v1/jobs//stop", "/v1/jobs/%61", "/v1/jobs/a~b"}) {
    EXPECT_EQ(status_of(router, "GET", path), 404) << path;
  }
}

TEST(Router, Http20LongPathsAreOnlyUnknown) {
  const Router router = table();
  EXPECT_EQ(status_of(router, "GET", "/v1/jobs/" + std::string(8000, 'a')), 404);
  std::string deep;
  for (int i = 0; i < 4000; ++i) deep += "/a";
  EXPECT_EQ(status_of(router, "GET", deep), 404);
  EXPECT_EQ(status_of(router, "GET", "/v1/jobs/" + std::string(128, 'a')), 200);
  EXPECT_EQ(status_of(router, "GET", "/v1/jobs/" + std::string(129, 'a')), 404);
}

}  // namespace
}  // namespace muster::http
