#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace muster {

// What kind of failure it was; decides the exit code of a program and the status of a response.
enum class ErrorCode {
  kInvalidArgument,     // the input is wrong, whatever the state of the system
  kNotFound,            // the named thing does not exist
  kAlreadyExists,       // the named thing exists already, or was done already
  kFailedPrecondition,  // the input is fine, the state of the system does not allow it
  kPermissionDenied,    // the caller is known and may not
  kUnauthenticated,     // the caller is not known, or a peer could not be verified
  kResourceExhausted,   // a limit: bytes, connections, disk
  kUnavailable,         // try again later: peer or store not reachable
  kDeadlineExceeded,    // a bounded wait ended
  kCancelled,           // a stop was asked for
  kDataLoss,            // stored data is damaged
  kInternal,            // an invariant of ours, or a library, failed
};

std::string_view to_string(ErrorCode code);

// One failure as a value.
//   message  names the thing, the value found and the value wanted; no secret, no source line
//   reason   a stable word for programs and logs, for example "non_finite"; may be empty
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string reason = {};
};

// Puts what was being done before the message: "load state m.safetensors: header length ...".
Error with_context(Error error, std::string_view context);

// A value or an Error. Discarding one is a compile error.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result() = default;
  Result(Error error)
      : tl::expected<T, Error>(tl::unexpect, std::move(error)) {
  }  // NOLINT(google-explicit-constructor)
};

using Status = Result<void>;

}  // namespace muster

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)

// MUSTER_TRY(auto value, call()): binds the value, or returns the error to the caller.
#define MUSTER_TRY(declaration, expression) \
  MUSTER_TRY_INNER(MUSTER_CONCAT(muster_try_, __COUNTER__), declaration, expression)
#define MUSTER_TRY_INNER(result, declaration, expression) \
  auto result = (expression);                             \
  if (!result) return std::move(result).error();          \
  declaration = *std::move(result)

// MUSTER_TRY_STATUS(call()): for calls that return no value.
#define MUSTER_TRY_STATUS(expression)                            \
  do {                                                           \
    auto muster_status = (expression);                           \
    if (!muster_status) return std::move(muster_status).error(); \
  } while (false)

// As above; the error gains a context, for example MUSTER_TRY_IN("load " + path, auto x,
// read(path)).
#define MUSTER_TRY_IN(context, declaration, expression) \
  MUSTER_TRY_IN_INNER(MUSTER_CONCAT(muster_try_, __COUNTER__), context, declaration, expression)
#define MUSTER_TRY_IN_INNER(result, context, declaration, expression)               \
  auto result = (expression);                                                       \
  if (!result) return ::muster::with_context(std::move(result).error(), (context)); \
  declaration = *std::move(result)
