#include "core/base/zstd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <memory>

#include "core/base/random.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

Bytes noise(std::size_t size, std::uint64_t seed = 1) {
  Random random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

Result<Bytes> unpack(ByteView frame, std::uint64_t limit = kNoLimit) {
  Bytes all;
  MUSTER_TRY_STATUS(zstd_unpack(frame, limit, [&](ByteView piece) {
    all.insert(all.end(), piece.begin(), piece.end());
    return Status{};
  }));
  return all;
}

std::string refusal(const Result<Bytes>& result) {
  if (result) return "it was taken";
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument) << result.error().message;
  EXPECT_EQ(result.error().reason, "bad_compression") << result.error().message;
  return result.error().message;
}

Bytes concat(const Bytes& a, const Bytes& b) {
  Bytes both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

// A frame made with settings of the library's own.
Bytes frame_with(ByteView content, const std::vector<std::pair<ZSTD_cParameter, int>>& settings,
                 std::string_view dictionary = {}) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     ZSTD_freeCCtx);
  for (const auto& [parameter, value] : settings) {
    EXPECT_EQ(ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), parameter, value)), 0U);
  }
  if (!dictionary.empty()) {
    ZSTD_CCtx_loadDictionary(context.get(), dictionary.data(), dictionary.size());
  }
  Bytes frame(ZSTD_compressBound(content.size()));
  const std::size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), content.data(), content.size());
  EXPECT_EQ(ZSTD_isError(size), 0U) << ZSTD_getErrorName(size);
  frame.resize(size);
  return frame;
}

TEST(Zstd, GivesBackWhatWasCompressedAtEveryLevel) {
  for (const std::size_t size : {0U, 1U, 100U, 131'072U, 131'073U, 300'000U}) {
    const Bytes content = noise(size);
    for (int level = 1; level <= 19; ++level) {
      const auto frame = zstd_compress(content, level);
      ASSERT_TRUE(frame) << frame.error().message;
      EXPECT_LE(frame->size(), zstd_bound(size));
      const auto again = unpack(*frame, size);
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(*again, content);
    }
  }
}

TEST(Zstd, EqualContentGivesEqualFrames) {
  const Bytes content = noise(10'000);
  EXPECT_EQ(*zstd_compress(content, 3), *zstd_compress(content, 3));
}

TEST(Zstd, TheHighestLevelKeepsToTheWindow) {
  const Bytes content(std::size_t{20} << 20, std::byte{7});
  const auto again = unpack(*zstd_compress(content, 19));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, content);
}

TEST(Zstd, EveryProperPrefixIsRefused) {
  const Bytes frame = *zstd_compress(noise(300), 3);
  for (std::size_t size = 0; size < frame.size(); ++size) {
    refusal(unpack(ByteView(frame).first(size)));
  }
}

TEST(Zstd, EveryFlippedBitIsRefusedOrChangesNothing) {
  const Bytes content = noise(60);
  const Bytes frame = *zstd_compress(content, 3);
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    Bytes damaged = frame;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto result = unpack(damaged, 1 << 20);
    if (result) {
      EXPECT_EQ(*result, content) << bit;
    } else {
      EXPECT_EQ(result.error().reason, "bad_compression");
    }
  }
}

TEST(Zstd, BytesAfterTheFrameAreRefused) {
  const Bytes frame = *zstd_compress(noise(300), 3);
  EXPECT_THAT(refusal(unpack(concat(frame, Bytes{std::byte{0}}))), HasSubstr("1 bytes follow"));
  EXPECT_THAT(refusal(unpack(concat(frame, frame))), HasSubstr("follow")) << "two frames";
}

TEST(Zstd, ASkippableFrameIsNoFrame) {
  const Bytes skippable{std::byte{0x50}, std::byte{0x2a}, std::byte{0x4d}, std::byte{0x18},
                        std::byte{0},    std::byte{0},    std::byte{0},    std::byte{0}};
  const Bytes frame = *zstd_compress(noise(30), 3);
  EXPECT_THAT(refusal(unpack(skippable)), HasSubstr("begin"));
  EXPECT_THAT(refusal(unpack(concat(skippable, frame))), HasSubstr("begin"));
  EXPECT_THAT(refusal(unpack(concat(frame, skippable))), HasSubstr("follow"));
}

TEST(Zstd, OtherFormatsAreRefused) {
  for (const std::string_view text : {"", "P", "PK\x03\x04", "\x1f\x8b\x08", "{}", "(\xb5/"}) {
    refusal(unpack(as_bytes(text)));
  }
}

TEST(Zstd, ABombIsRefusedByItsHeader) {
  const Bytes bomb = *zstd_compress(Bytes(std::size_t{64} << 20), 19);
  ASSERT_LT(bomb.size(), 10'000U);
  std::size_t came = 0;
  const Status status = zstd_unpack(bomb, 1000, [&](ByteView piece) {
    came += piece.size();
    return Status{};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().reason, "bad_compression");
  EXPECT_THAT(status.error().message, HasSubstr("67108864 bytes, the limit is 1000"));
  EXPECT_EQ(came, 0U);
}

TEST(Zstd, ABombThatDoesNotSayItsSizeIsCutAtTheLimit) {
  const Bytes bomb = frame_with(Bytes(std::size_t{64} << 20), {{ZSTD_c_contentSizeFlag, 0}});
  std::size_t came = 0;
  const Status status = zstd_unpack(bomb, 1'000'000, [&](ByteView piece) {
    came += piece.size();
    return Status{};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().reason, "bad_compression");
  EXPECT_LE(came, 1'000'000U);
}

TEST(Zstd, TheLimitItselfIsAllowed) {
  const Bytes content = noise(5000);
  for (const int with_size : {0, 1}) {
    const Bytes frame = frame_with(content, {{ZSTD_c_contentSizeFlag, with_size}});
    EXPECT_TRUE(unpack(frame, 5000));
    refusal(unpack(frame, 4999));
  }
}

TEST(Zstd, AFrameThatWantsADictionaryIsRefused) {
  // A dictionary with an id needs the format of RFC 8878 section 5; its id is all that counts here:
  // flags 01 in the header say that an id of one byte follows.
  Bytes frame = *zstd_compress(as_bytes("abcdefgh"), 3);
  frame[4] |= std::byte{1};
  frame.insert(frame.begin() + 5, std::byte{42});
  EXPECT_THAT(refusal(unpack(frame)), HasSubstr("dictionary"));
}

TEST(Zstd, AFrameOfADictionaryWithoutIdDoesNotUnpackToSomethingElse) {
  const std::string words = "what the dictionary says, and the content says again";
  const Bytes frame = frame_with(as_bytes(words), {{ZSTD_c_checksumFlag, 1}}, words);
  refusal(unpack(frame));
}

TEST(Zstd, AWindowOver8MiBIsRefusedWhateverTheContent) {
  const Bytes content = noise(100);
  // Without a pledged size the frame says its window: of 2^24, then 2^27 bytes.
  for (const int log : {24, 27}) {
    const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                       ZSTD_freeCCtx);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, log);
    Bytes frame(1000);
    ZSTD_inBuffer in{content.data(), content.size(), 0};
    ZSTD_outBuffer out{frame.data(), frame.size(), 0};
    while (in.pos < in.size) {
      ASSERT_EQ(ZSTD_isError(ZSTD_compressStream2(context.get(), &out, &in, ZSTD_e_continue)), 0U);
    }
    ASSERT_EQ(ZSTD_compressStream2(context.get(), &out, &in, ZSTD_e_end), 0U);
    frame.resize(out.pos);
    EXPECT_THAT(refusal(unpack(frame)), HasSubstr("memory"));
  }
}

TEST(Zstd, AnErrorOfTheSinkEndsItAndComesBack) {
  const Bytes frame = *zstd_compress(noise(1'000'000), 1);
  int calls = 0;
  const Status status = zstd_unpack(frame, kNoLimit, [&](ByteView) -> Status {
    ++calls;
    return Error{ErrorCode::kResourceExhausted, "full", "disk_full"};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().reason, "disk_full");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster
