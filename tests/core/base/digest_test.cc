#include "core/base/digest.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

// FIPS 180-4 examples, NIST CSRC.
TEST(Sha256, AgreesWithTheExamplesOfTheStandard) {
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc").hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')).hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  const std::string text(300, 'x');
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.update(as_bytes(text).subspan(0, cut));
    hash.update({});
    hash.update(as_bytes(text).subspan(cut));
    EXPECT_EQ(hash.finish(), sha256(text));
  }
}

TEST(Sha256, KeepsItsStateWhenMoved) {
  Sha256 hash;
  hash.update(as_bytes("ab"));
  Sha256 moved = std::move(hash);
  moved.update(as_bytes("c"));
  EXPECT_EQ(moved.finish(), sha256("abc"));
}

TEST(Sha256DeathTest, StopsWhenItIsUsedAfterFinish) {
  Sha256 hash;
  (void)hash.finish();
  EXPECT_DEATH((void)hash.finish(), "finished twice");
  EXPECT_DEATH(hash.update(as_bytes("a")), "used after finish");
}

TEST(Digest, HasOneSpelling) {
  const Digest digest = sha256("abc");
  EXPECT_EQ(Digest::from_hex(digest.hex()).value(), digest);
  std::string upper = digest.hex();
  upper[0] = 'B';
  for (const std::string& text :
       {std::string(), std::string("ab"), upper, digest.hex() + "00", digest.hex() + "\n",
        digest.hex().substr(1), std::string(64, 'g')}) {
    const auto parsed = Digest::from_hex(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().reason, "bad_digest");
  }
}

TEST(Digest, IsOrderedByItsBytes) {
  Digest low;
  Digest high;
  low.bytes[31] = std::byte{0xff};
  high.bytes[0] = std::byte{0x80};
  EXPECT_LT(low, high);
  EXPECT_NE(low, high);
  EXPECT_EQ(Digest{}, Digest{});
}

}  // namespace
}  // namespace muster
