#include "core/train/data/text_windows.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Vocabulary, AsciiHas98IdsInAFixedOrder) {
  const Vocabulary ascii = Vocabulary::ascii();
  EXPECT_EQ(ascii.size(), 98);
  EXPECT_EQ(ascii.id(' '), 0);
  EXPECT_EQ(ascii.id('A'), 33);
  EXPECT_EQ(ascii.id('~'), 94);
  EXPECT_EQ(ascii.id('\n'), 95);
  EXPECT_EQ(ascii.id('\t'), 96);
  std::set<int> known;
  int unknown = 0;
  for (int c = 0; c < 256; ++c) {
    const int id = ascii.id(static_cast<char>(c));
    unknown += id == 97 ? 1 : 0;
    known.insert(id);
  }
  EXPECT_EQ(known.size(), 98U);
  EXPECT_EQ(unknown, 256 - 97);
  EXPECT_EQ(ascii.id('\r'), 97);
  EXPECT_EQ(ascii.id('\xc3'), 97);
}

TEST(Vocabulary, BytesAreTheirOwnIds) {
  EXPECT_EQ(Vocabulary::bytes().size(), 256);
  EXPECT_EQ(Vocabulary::bytes().id('\xff'), 255);
}

TEST(Vocabulary, AFileGivesIdsInItsOrderAndOneForTheRest) {
  const auto vocabulary = Vocabulary::from_bytes("ba\n", "v.txt");
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->size(), 4);
  EXPECT_EQ(vocabulary->id('b'), 0);
  EXPECT_EQ(vocabulary->id('a'), 1);
  EXPECT_EQ(vocabulary->id('\n'), 2);
  EXPECT_EQ(vocabulary->id('z'), 3);
  std::string all;
  for (int i = 255; i >= 0; --i) all += static_cast<char>(i);
  const auto full = Vocabulary::from_bytes(all, "v.txt");
  ASSERT_TRUE(full) << full.error().message;
  EXPECT_EQ(full->size(), 256);
  EXPECT_EQ(full->id('\0'), 255);
  EXPECT_EQ(Vocabulary::from_bytes(all.substr(1), "v.txt")->size(), 256);
}

TEST(Vocabulary, RefusesNoneAndTheSameTwice) {
  EXPECT_THAT(error_text(Vocabulary::from_bytes("", "v.txt")),
              AllOf(HasSubstr("v.txt"), HasSubstr("empty")));
  EXPECT_THAT(error_text(Vocabulary::from_bytes("abca", "v.txt")),
              AllOf(HasSubstr("byte 3"), HasSubstr("\"a\""), HasSubstr("twice")));
}

Result<Dataset> cut(const std::string& text, std::int64_t window, std::int64_t stride) {
  return text_windows(text, "t.txt", Vocabulary::bytes(), {.window = window, .stride = stride});
}

TEST(TextWindows, LabelsAreTheNextCharacters) {
  const auto data = cut("abcdefgh", 3, 0);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->shape(), (Shape{3}));
  EXPECT_EQ(data->target_size(), 3);
  EXPECT_THAT(features_of(*data), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(data->labels(), ElementsAre('b', 'c', 'd', 'e', 'f', 'g'));
  EXPECT_EQ(cut("abcdefgh", 3, 1)->size(), 5);
  EXPECT_EQ(cut("abcd", 3, 1)->size(), 1);
}

TEST(TextWindows, TakesMemoryForTheTextAndNotForItsWindows) {
  const auto data = cut(std::string(10'000, 'x'), 1000, 1);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->size(), 9000);
  EXPECT_EQ(data->own_rows().bytes.size(), 10'000U);
}

TEST(TextWindows, RefusesTextsAndOptionsOutOfRange) {
  EXPECT_THAT(error_text(cut("abc", 3, 1)),
              AllOf(HasSubstr("t.txt: byte 3"), HasSubstr("at least 4")));
  EXPECT_THAT(error_text(cut("", 1, 1)), HasSubstr("byte 0"));
  EXPECT_THAT(error_text(cut("abc", 0, 1)), HasSubstr("window of 0"));
  EXPECT_THAT(error_text(cut("abc", 1'000'001, 1)), HasSubstr("1000000"));
  EXPECT_THAT(error_text(cut("abc", 1, -1)), HasSubstr("stride -1"));
}

class TextFiles : public FolderTest {};

TEST_F(TextFiles, UseTheVocabularyThatTheOptionsName) {
  const std::string text = file("t.txt", "a\xc3\xa4\n");
  EXPECT_THAT(features_of(*load_text(text, {.window = 3})), ElementsAre(65, 97, 97));
  EXPECT_THAT(load_text(text, {.window = 3})->labels(), ElementsAre(97, 97, 95));
  EXPECT_THAT(features_of(*load_text(text, {.window = 3, .vocabulary = "bytes"})),
              ElementsAre(97, 0xc3, 0xa4));
  const std::string own = file("v.txt",
                               "\n\xa4"
                               "a");
  EXPECT_THAT(features_of(*load_text(text, {.window = 3, .vocabulary = own})),
              ElementsAre(2, 3, 1));
}

TEST_F(TextFiles, RefuseBadVocabulariesByName) {
  const std::string text = file("t.txt", "abcd");
  EXPECT_THAT(error_text(load_text(text, {.window = 2, .vocabulary = "/nowhere/v"})),
              HasSubstr("/nowhere/v"));
  EXPECT_THAT(error_text(load_text(
                  text, {.window = 2, .vocabulary = file("long.txt", std::string(1000, 'x'))})),
              AllOf(HasSubstr("vocabulary"), HasSubstr("long.txt")));
  EXPECT_THAT(error_text(load_text(folder_ / "none", {})), HasSubstr("none"));
}

}  // namespace
}  // namespace muster
