#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "certs/authority.h"
#include "server/clock.h"
#include "server/coordinator.h"
#include "server/directory.h"
#include "server/http/route.h"
#include "storage/state_files.h"
#include "storage/store.h"
#include "storage/update_files.h"

namespace muster {

// What the handlers of a server work on. Everything outlives the listeners.
struct ApiContext {
  const ServerConfig& config;
  const Clock& clock;
  const Authority& authority;
  Store& store;
  const StateFiles& states;
  const UpdateFiles& updates;
  Coordinator& coordinator;
  int api_port = 0;                  // as bound; set before the enrolment listener starts
  std::atomic<int> enroll_port = 0;  // as bound; 0: closed
};

// The enrolled device that calls. Errors: kPermissionDenied, reason "device_unknown": a certificate
// of our own authority whose device is not in the store, or is there with another key.
Result<DeviceRow> calling_device(const ApiContext& context, const http::Request& request);

// The route tables (docs/protocol.md), by who calls.
std::vector<http::Route> device_routes(ApiContext& context);  // API port: check-in, states, results
std::vector<http::Route> update_routes(ApiContext& context);  // API port: a device's update
std::vector<http::Route> operator_routes(
    ApiContext& context);  // API port: jobs, rounds, devices, tokens
std::vector<http::Route> enrolment_routes(ApiContext& context);  // enrolment port

}  // namespace muster
