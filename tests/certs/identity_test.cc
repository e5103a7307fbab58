#include "certs/identity.h"

#include <gtest/gtest.h>

using namespace muster;

TEST(Identity, ReadsBackWhatItWrites) {
  for (const Role role : {Role::kDevice, Role::kOperator, Role::kAuditor, Role::kServer}) {
    const Identity identity{role, "Name_1.x-2"};
    EXPECT_EQ(Identity::from_uri(identity.uri()).value(), identity);
  }
  EXPECT_EQ((Identity{Role::kDevice, "device-01"}.uri()), "urn:muster:device:device-01");
}

TEST(Identity, Tls25RefusesEveryOtherUri) {
  const std::string_view bad[] = {
      "",
      "urn:muster:",
      "urn:muster:device",
      "urn:muster:device:",
      "urn:muster:root:x",
      "urn:muster:Device:x",
      "URN:muster:device:x",
      "urn:other:device:x",
      "https://muster/device/x",
      " urn:muster:device:x",
      "urn:muster:device:x ",
      "urn:muster:device:x\n",
      "urn:muster:device:a:b",
      "urn:muster::x",
      "urn:muster:device:../x",
      "urn:muster:device:-x",
      "urn:muster:device:%61",
      std::string_view("urn:muster:device:x\0y", 21),
      std::string_view("urn:muster:device\0:x", 20),
      std::string_view("urn:muster:operator:x\0", 22),
      "urn:muster:device:d\xc3\xa9vice",
      "urn:muster:device:\xd0\xb0",      // Cyrillic a
      "urn:muster:device:\xef\xbd\x81",  // full-width a
      "urn:muster:device:\xe2\x80\xae"
      "x",                           // right-to-left override
      "urn:muster:device:\xc1\xa1",  // overlong a
  };
  for (const auto uri : bad) {
    const auto identity = Identity::from_uri(uri);
    ASSERT_FALSE(identity) << uri;
    EXPECT_EQ(identity.error().code, ErrorCode::kUnauthenticated);
    EXPECT_EQ(identity.error().reason, "bad_identity");
  }
  EXPECT_FALSE(Identity::from_uri("urn:muster:device:" + std::string(65, 'a')));
  EXPECT_TRUE(Identity::from_uri("urn:muster:device:" + std::string(64, 'a')));
}
