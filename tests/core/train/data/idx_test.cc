#include "core/train/data/idx.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <string>

#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string idx(const std::vector<std::uint32_t>& shape, const std::string& values,
                char type = 0x08) {
  std::string file{0, 0, type, static_cast<char>(shape.size())};
  for (const std::uint32_t dimension : shape) file += big_endian(dimension);
  return file + values;
}

std::string gzip(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string in = content;
  std::string out(deflateBound(&stream, static_cast<uLong>(in.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string error_of(const std::string& file) {
  const auto array = parse_idx(as_bytes(file), "f.idx");
  return array ? "no error" : array.error().message;
}

const std::string kImages = idx({2, 2, 3}, std::string("abcdefABCDEF"));

TEST(Idx, ReadsPlainAndGzipAlike) {
  for (const std::string& file : {kImages, gzip(kImages)}) {
    const auto array = parse_idx(as_bytes(file), "f.idx");
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->shape, (Shape{2, 2, 3}));
    EXPECT_EQ(std::string(array->bytes.begin(), array->bytes.end()), "abcdefABCDEF");
  }
}

TEST(Idx, RefusesTruncationAtEveryByte) {
  for (const std::string& file : {kImages, gzip(kImages)}) {
    for (std::size_t length = 0; length < file.size(); ++length) {
      EXPECT_THAT(error_of(file.substr(0, length)), HasSubstr("f.idx")) << length;
    }
  }
}

TEST(Idx, TruncationSaysWhereAndHowMuchIsMissing) {
  EXPECT_THAT(error_of(kImages.substr(0, 2)), AllOf(HasSubstr("byte 2"), HasSubstr("magic")));
  EXPECT_THAT(error_of(kImages.substr(0, 10)),
              AllOf(HasSubstr("byte 10"), HasSubstr("dimension 1")));
  EXPECT_THAT(error_of(kImages.substr(0, 20)),
              AllOf(HasSubstr("byte 16"), HasSubstr("12"), HasSubstr("4")));
}

TEST(Idx, RefusesTrailingBytes) {
  EXPECT_THAT(error_of(kImages + "x"), HasSubstr("byte 28"));
  EXPECT_THAT(error_of(gzip(kImages + "x")), HasSubstr("byte 28"));
  EXPECT_THAT(error_of(gzip(kImages) + "x"), HasSubstr("goes on"));
}

TEST(Idx, RefusesForeignMagicAndTypes) {
  EXPECT_THAT(error_of("\x89PNG" + kImages), HasSubstr("byte 0"));
  EXPECT_THAT(error_of(idx({2}, "ab", 0x0D)), AllOf(HasSubstr("byte 2"), HasSubstr("13")));
  EXPECT_THAT(error_of(idx({}, "")), HasSubstr("byte 3"));
  EXPECT_THAT(error_of(idx(std::vector<std::uint32_t>(9, 1), "a")), HasSubstr("byte 3"));
}

TEST(Idx, RefusesHeadersThatPromiseWhatCannotFollow) {
  EXPECT_THAT(error_of(idx({1U << 31}, "ab")), HasSubstr("promises 2147483648"));
  EXPECT_THAT(error_of(gzip(idx({1U << 31}, "ab"))), HasSubstr("promises 2147483648"));
  EXPECT_THAT(error_of(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "ab")),
              HasSubstr("over the limit"));
  EXPECT_THAT(error_of(idx({1U << 16, 1U << 16, 2}, "ab")), HasSubstr("over the limit"));
  EXPECT_THAT(error_of(gzip(idx({100}, "ab"))), AllOf(HasSubstr("2 of 100")));
}

TEST(Idx, RefusesDamagedGzip) {
  const std::string packed = gzip(kImages);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = packed;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const auto array = parse_idx(as_bytes(damaged), "f.idx");
      // A few header bytes (time, system) mean nothing; whatever passes must be the right content.
      if (!array) {
        ++refused;
      } else {
        EXPECT_EQ(std::string(array->bytes.begin(), array->bytes.end()), "abcdefABCDEF");
      }
    }
  }
  EXPECT_GT(refused, packed.size() * 2);
  EXPECT_THAT(error_of(std::string("\x1f\x8b") + std::string(100, 'x')), HasSubstr("gzip data"));
}

class IdxFiles : public FolderTest {};

TEST_F(IdxFiles, ImagesAndLabelsBecomeADatasetOfBytesOver255) {
  const auto data = load_idx(file("images", idx({2, 1, 2}, std::string("\x00\xff\x33\x01", 4))),
                             file("labels", idx({2}, std::string("\x07\x00", 2))));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->shape(), (Shape{1, 2}));
  EXPECT_THAT(data->labels(), testing::ElementsAre(7, 0));
  std::vector<float> features(4);
  data->copy_features(std::vector<std::int64_t>{1, 0}, features);
  EXPECT_THAT(features, testing::ElementsAre(0.2F, 1.0F / 255.0F, 0.0F, 1.0F));
}

TEST_F(IdxFiles, AnotherScaleDividesByIt) {
  const auto data = load_idx(file("images", idx({1, 1, 2}, std::string("\x02\xff", 2))),
                             file("labels", idx({1}, std::string("\x03", 1))), 1);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_THAT(features_of(*data), testing::ElementsAre(2, 255));
}

TEST_F(IdxFiles, RefusesCountsThatDifferNamingBoth) {
  const auto data = load_idx(file("images", kImages), file("labels", idx({3}, "abc")));
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().message, AllOf(HasSubstr("2 images"), HasSubstr("3 labels")));
}

TEST_F(IdxFiles, RefusesSwappedMissingAndEmptyFiles) {
  const auto images = file("images", kImages);
  const auto labels = file("labels", idx({2}, "ab"));
  EXPECT_THAT(load_idx(labels, images).error().message, HasSubstr("two dimensions"));
  EXPECT_THAT(load_idx(images, images).error().message, HasSubstr("one dimension"));
  EXPECT_THAT(load_idx(images, folder_ / "none").error().message, HasSubstr("none"));
  EXPECT_THAT(load_idx(file("e", idx({0, 2, 2}, "")), file("l", idx({0}, ""))).error().message,
              HasSubstr("no images"));
}

}  // namespace
}  // namespace muster
