#include <gtest/gtest.h>

#include <string>

#include "core/base/json.h"
#include "server/http/message.h"
#include "server/http/rate_meter.h"
#include "server/http/response_writer.h"

namespace muster::http {
namespace {

std::string sent(Response response, const std::string& method = "GET") {
  return write_response(std::move(response), "id-1", method, false).bytes;
}

TEST(Response, CarriesTheFieldsThatEveryResponseHas) {
  const std::string text = sent(Response::json(Json{{"a", 1}}, 201));
  EXPECT_EQ(text.rfind("HTTP/1.1 201 Created\r\n", 0), 0u);
  for (const char* field :
       {"\r\nContent-Type: application/json\r\n", "\r\nContent-Length: 7\r\n",
        "\r\nCache-Control: no-store\r\n", "\r\nX-Content-Type-Options: nosniff\r\n",
        "\r\nMuster-Request-Id: id-1\r\n"}) {
    EXPECT_NE(text.find(field), std::string::npos) << field;
  }
  EXPECT_EQ(text.find("Server:"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 11), "\r\n\r\n{\"a\":1}");
}

TEST(Response, WithoutContentHasNoLengthAndNoBody) {
  const std::string text = sent(Response::no_content());
  EXPECT_EQ(text.find("\nContent-"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\n\r\n");
}

TEST(Response, ToHeadHasNoBody) {
  const std::string text = sent(Response::json(Json{{"a", 1}}), "HEAD");
  EXPECT_EQ(text.substr(text.size() - 4), "\r\n\r\n");
}

TEST(Response, AProblemGainsTheRequestId) {
  const auto wire =
      write_response(Response::problem(410, "round_closed", "Too late."), "id-1", "GET", true);
  EXPECT_EQ(wire.problem, "round_closed");
  EXPECT_TRUE(wire.close);
  const Json body = Json::parse(wire.bytes.substr(wire.bytes.find("\r\n\r\n") + 4));
  EXPECT_EQ(body.at("request_id"), "id-1");
  EXPECT_EQ(body.at("code"), "round_closed");
  EXPECT_EQ(body.at("status"), 410);
  EXPECT_EQ(body.at("detail"), "Too late.");
}

TEST(Response, AHeaderThatCouldSplitItBecomesAnInternalError) {
  const std::pair<std::string, std::string> bad[] = {{"X", "a\r\nSet-Cookie: b"},
                                                     {"X", "a\nb"},
                                                     {"X\r\nY", "a"},
                                                     {"X Y", "a"},
                                                     {"", "a"},
                                                     {"Content-Length", "3"},
                                                     {"transfer-encoding", "chunked"},
                                                     {"Connection", "close"},
                                                     {"X", std::string("a\0b", 3)}};
  for (const auto& field : bad) {
    Response response = Response::json(Json::object());
    response.headers.push_back(field);
    const std::string text = sent(std::move(response));
    EXPECT_EQ(text.rfind("HTTP/1.1 500 ", 0), 0u) << field.first << ": " << field.second;
    EXPECT_EQ(text.find("Set-Cookie"), std::string::npos);
  }
}

TEST(Response, ErrorsHaveTheirStatus) {
  const auto status = [](ErrorCode code, const char* reason) {
    return Response::from_error(Error{code, "m", reason}).status;
  };
  EXPECT_EQ(status(ErrorCode::kInvalidArgument, "non_finite"), 422);
  for (const char* reason :
       {"bad_json", "bad_header", "bad_layout", "bad_statement", "bad_field"}) {
    EXPECT_EQ(status(ErrorCode::kInvalidArgument, reason), 400) << reason;
  }
  EXPECT_EQ(status(ErrorCode::kNotFound, "job_unknown"), 404);
  EXPECT_EQ(status(ErrorCode::kAlreadyExists, "already_reported"), 409);
  EXPECT_EQ(status(ErrorCode::kFailedPrecondition, "round_not_open"), 409);
  EXPECT_EQ(status(ErrorCode::kPermissionDenied, "bad_signature"), 403);
  EXPECT_EQ(status(ErrorCode::kUnauthenticated, "enrolment_refused"), 401);
  EXPECT_EQ(status(ErrorCode::kResourceExhausted, "disk_full"), 507);
  EXPECT_EQ(status(ErrorCode::kResourceExhausted, "body_too_large"), 413);
  EXPECT_EQ(status(ErrorCode::kResourceExhausted, "quota"), 429);
  EXPECT_EQ(status(ErrorCode::kUnavailable, "starting"), 503);
  EXPECT_EQ(status(ErrorCode::kDeadlineExceeded, ""), 503);
  EXPECT_EQ(status(ErrorCode::kCancelled, ""), 503);
  EXPECT_EQ(status(ErrorCode::kDataLoss, "x"), 500);
  EXPECT_EQ(status(ErrorCode::kInternal, "x"), 500);
}

TEST(Response, InternalErrorsKeepTheirMessageToThemselves) {
  for (const ErrorCode code : {ErrorCode::kInternal, ErrorCode::kDataLoss}) {
    const std::string text =
        sent(Response::from_error(Error{code, "/var/lib/secret: SELECT 1", "why"}));
    EXPECT_EQ(text.find("secret"), std::string::npos);
    EXPECT_EQ(text.find("why"), std::string::npos);
    EXPECT_NE(text.find("\"code\":\"internal\""), std::string::npos);
  }
}

TEST(RateMeter, HoldsEachWindowToTheRateAndOurOwnPausesAgainstNobody) {
  using std::chrono::milliseconds;
  const RateMeter::Time zero{};
  RateMeter meter(1000, milliseconds(500));
  meter.start(zero);
  EXPECT_EQ(meter.window_end(), zero + milliseconds(500));
  meter.add(500);
  EXPECT_TRUE(meter.next_window(zero + milliseconds(500)));
  meter.add(499);
  meter.pause(zero + milliseconds(600));
  meter.resume(zero + milliseconds(5000));
  EXPECT_EQ(meter.window_end(), zero + milliseconds(5400));
  EXPECT_FALSE(meter.next_window(zero + milliseconds(5400)));
}

}  // namespace
}  // namespace muster::http
