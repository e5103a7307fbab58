#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "server/http/head_parser.h"
#include "server/http/route.h"

namespace muster::http {

// The table of calls. Matching walks the path's segments once, without recursion and without
// regular expressions, so that its cost is bounded by the head's length. Immutable after
// construction; any thread. Where two patterns fit, the one with the earlier literal segment wins,
// then the first row.
class Router {
 public:
  struct Match {
    const Route* route;  // lives as long as the router
    std::map<std::string, std::string> params;
  };

  explicit Router(std::vector<Route> routes);

  // The row for a head, or the response that says why there is none: 404 `not_found`, 405
  // `method_not_allowed` with Allow, 501 `method_unknown`.
  tl::expected<Match, Response> find(const Head& head) const;

 private:
  struct Row {
    Route route;
    std::vector<std::string> segments;  // "{name}" or literal
  };

  std::vector<Row> rows_;
  std::set<std::string, std::less<>> methods_;
};

}  // namespace muster::http
