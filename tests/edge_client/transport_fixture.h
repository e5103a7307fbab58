#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/edge_client/scripted_server.h"

namespace muster::testing {

class TransportTest : public ::testing::Test {
 protected:
  Transport::Options options(const ScriptedServer& server) const {
    return {.server = server.url(),
            .authority = world_.authority.certificate(),
            .certificate = world_.device.certificate,
            .key = &world_.device.key,
            .connect_timeout = std::chrono::milliseconds(5000),
            .idle_timeout = std::chrono::milliseconds(5000)};
  }
  ScriptedServer serve(ScriptedServer::Talk talk) const {
    return ScriptedServer(world_.server, world_.authority.certificate(),
                          &world_.authority.certificate(), std::move(talk));
  }
  std::filesystem::path file(const std::string& name, const std::string& content) const {
    must(write_file_durably(folder_.path() / name, as_bytes(content)));
    return folder_.path() / name;
  }

  World world_;
  TemporaryFolder folder_;
};

}  // namespace muster::testing
