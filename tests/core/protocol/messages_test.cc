#include "core/protocol/messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace muster::protocol {
namespace {

using ::testing::HasSubstr;

const std::string kHex(64, 'a');

// "aaa" with its quotes, as JSON has it.
std::string quoted(std::size_t count, char letter) {
  return fmt::format("\"{}\"", std::string(count, letter));
}

// One message of every kind: a good example, its reader (whose result is written again) and values
// that its reader must refuse, field by field.
struct Kind {
  std::string name;
  Json good;
  std::function<Result<Json>(const Json&)> reread;
  std::vector<std::pair<std::string, std::vector<std::string>>> bad;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

template <typename Message>
std::function<Result<Json>(const Json&)> rereader(Result<Message> (*read)(const Json&)) {
  return [read](const Json& json) -> Result<Json> {
    MUSTER_TRY(const Message message, read(json));
    return to_json(message);
  };
}

const std::vector<std::string> kBadNames = {"7",        "null",    R"("")",
                                            R"("a/b")", R"("..")", R"("\u0661")"};
const std::vector<std::string> kBadCounts = {
    "-1", "1.5", R"("1")", "null", "9007199254740993", "18446744073709551615"};
const std::vector<std::string> kBadRounds = {"0", "-1", "1000001", R"("1")", "1.0", "null"};
const std::vector<std::string> kBadAttempts = {"0", "1001", "null"};
const std::vector<std::string> kBadDigests = {R"("")", R"("abc")",      "7",
                                              "null",  quoted(64, 'A'), quoted(66, 'a')};
const std::vector<std::string> kBadPems = {R"("")", "7", quoted(65'537, 'a')};

std::vector<Kind> kinds() {
  return {
      {"enroll_request",
       {{"protocol", 1}, {"secret", "s3cret"}, {"name", "device-01"}, {"request", "-----BEGIN"}},
       rereader(enroll_request_from_json),
       {{"secret", {R"("")", "7", quoted(257, 'a')}},
        {"name", kBadNames},
        {"request", kBadPems},
        {"protocol", {"\"1\"", "1.0", "null"}}}},
      {"enroll_response",
       {{"device", "device-01"}, {"certificate", "C"}, {"authority", "A"}, {"api_port", 8443}},
       rereader(enroll_response_from_json),
       {{"device", kBadNames},
        {"certificate", kBadPems},
        {"authority", kBadPems},
        {"api_port", {"0", "65536", "-1", "null"}}}},
      {"checkin_request",
       {{"protocol", 1}, {"tags", {"arm", "gpu"}}, {"examples", 6000}, {"wait_ms", 20'000}},
       rereader(checkin_request_from_json),
       {{"tags", {"null", R"("arm")", "[7]", R"(["a b"])", R"(["a", "a"])"}},
        {"examples", kBadCounts},
        {"wait_ms", {"-1", "60001", "0.5", "null"}}}},
      {"task",
       {{"kind", "train"},
        {"id", "t-0123"},
        {"fit",
         {{"job", "fashion"},
          {"round", 3},
          {"model", {{"preset", "2nn"}}},
          {"local", muster::to_json(LocalSettings{})},
          {"seed", "18446744073709551615"}}},
        {"attempt", 2},
        {"state", kHex},
        {"state_bytes", 797'000},
        {"max_update_bytes", 900'000},
        {"deadline_ms", 120'000},
        {"encoding",
         {{"format", "top_k"},
          {"content", "delta"},
          {"fraction", 0.01},
          {"compression", "zstd"},
          {"level", 5}}},
        {"correction", {{"method", "SCAFFOLD"}}},
        {"control", kHex},
        {"control_bytes", 797'000},
        {"initial_loss", true}},
       rereader(task_from_json),
       {{"kind", {R"("gradients")", "7", "null"}},
        {"id", kBadNames},
        {"fit", {"null", "7", "{}"}},
        {"fit/job", kBadNames},
        {"fit/round", kBadRounds},
        {"fit/model", {"null", "7", "[]"}},
        {"fit/local", {"null", "[]", R"({"epochs": 0})", R"({"mu": -1})"}},
        {"fit/seed",
         {"1", R"("-1")", R"("")", R"("01")", R"("1 ")", R"("18446744073709551616")", "null"}},
        {"fit/more", {"1"}},
        {"attempt", kBadAttempts},
        {"state", kBadDigests},
        {"state_bytes", kBadCounts},
        {"max_update_bytes", kBadCounts},
        {"deadline_ms", {"-1", "604800001", "null"}},
        {"encoding", {"null", "7", "{}", R"({"format": "float64"})", R"({"format": "top_k"})"}},
        {"encoding/fraction", {"0", "1.1", "null"}},
        {"encoding/level", {"0", "20", "null"}},
        {"correction",
         {"null", "7", "{}", R"({"method": "none"})", R"({"method": "FedDyn", "alpha": 1})",
          R"({"method": "Scaffold"})", R"({"method": "SCAFFOLD", "alpha": 1})"}},
        {"control", {"null", R"("")", R"("abc")", "7", quoted(64, 'A')}},
        {"control_bytes", {"0", "-1", "1.5", R"("1")", "null"}},
        {"initial_loss", {"null", "1", R"("true")"}}}},
      {"update_statement",
       {{"job", "fashion"},
        {"round", 3},
        {"attempt", 1},
        {"task", "t-0123"},
        {"base", kHex},
        {"digest", kHex},
        {"examples", 600},
        {"steps", 60},
        {"metrics", {{"loss", 0.5}, {"accuracy", 1.0}}}},
       rereader(update_statement_from_json),
       {{"job", kBadNames},
        {"round", kBadRounds},
        {"attempt", kBadAttempts},
        {"task", kBadNames},
        {"base", kBadDigests},
        {"digest", kBadDigests},
        {"examples", kBadCounts},
        {"steps", kBadCounts},
        {"metrics", {"null", "[]", R"({"a b": 1})", R"({"loss": "0.5"})", R"({"loss": [1]})"}}}},
      {"receipt",
       {{"job", "fashion"},
        {"round", 3},
        {"device", "device-01"},
        {"digest", kHex},
        {"examples", 600},
        {"accepted_at_ms", 1'700'000'000'000}},
       rereader(receipt_from_json),
       {{"job", kBadNames},
        {"round", kBadRounds},
        {"device", kBadNames},
        {"digest", kBadDigests},
        {"examples", kBadCounts},
        {"accepted_at_ms", kBadCounts}}},
      {"task_result",
       {{"examples", 600}, {"metrics", {{"loss", 0.5}}}},
       rereader(task_result_from_json),
       {{"examples", kBadCounts}, {"metrics", {"null", R"({"": 1})", R"({"loss": true})"}}}},
      {"problem",
       {{"type", "urn:muster:problem:round_closed"},
        {"title", "Gone"},
        {"status", 410},
        {"detail", "round 3 is closed"},
        {"code", "round_closed"},
        {"request_id", "r-1"}},
       rereader(problem_from_json),
       {{"type", {R"("about:blank")", "null"}},
        {"title", {"null", quoted(257, 'a')}},
        {"status", {"200", "399", "600", R"("410")"}},
        {"detail", {"null", quoted(8193, 'a')}},
        {"code", kBadNames},
        {"request_id", kBadNames}}}};
}

class EveryMessage : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Messages, EveryMessage, ::testing::ValuesIn(kinds()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_P(EveryMessage, IsWrittenAsItWasRead) {
  const auto again = GetParam().reread(GetParam().good);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, GetParam().good);
}

TEST_P(EveryMessage, IsRefusedWithoutAnyOneOfItsFields) {
  for (const auto& [field, value] : GetParam().good.items()) {
    Json bad = GetParam().good;
    bad.erase(field);
    const auto read = GetParam().reread(bad);
    ASSERT_FALSE(read.has_value()) << bad;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr(field));
  }
}

TEST_P(EveryMessage, IsRefusedWithAFieldThatNobodyKnows) {
  Json bad = GetParam().good;
  bad["surprise"] = 1;
  const auto read = GetParam().reread(bad);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().reason, "bad_field");
  EXPECT_THAT(read.error().message, HasSubstr("surprise"));
}

TEST_P(EveryMessage, IsRefusedWhenItIsNoObject) {
  for (const char* text : {"null", "7", "[]", "\"text\""}) {
    const auto read = GetParam().reread(Json::parse(text));
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_P(EveryMessage, IsRefusedForEachBadValueNamingTheField) {
  for (const auto& [path, values] : GetParam().bad) {
    for (const std::string& value : values) {
      Json bad = GetParam().good;
      bad[Json::json_pointer("/" + path)] = Json::parse(value);
      const auto read = GetParam().reread(bad);
      ASSERT_FALSE(read.has_value()) << path << " = " << value.substr(0, 80);
      EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
      const std::string field = path.substr(path.rfind('/') + 1);
      // "type" follows from the code, so a bad code can be found there.
      EXPECT_THAT(read.error().message, HasSubstr(field)) << value.substr(0, 80);
    }
  }
}

// P-20
TEST(ProtocolVersion, P20_AnotherVersionIsNamedWithTheSupportedOnesWhateverElseIsInTheMessage) {
  for (const auto& read :
       {rereader(enroll_request_from_json), rereader(checkin_request_from_json)}) {
    for (const char* text : {R"({"protocol": 2, "news": [1]})", R"({"protocol": 0})"}) {
      const auto message = read(Json::parse(text));
      ASSERT_FALSE(message.has_value());
      EXPECT_EQ(message.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(message.error().reason, "version_unsupported");
      EXPECT_THAT(message.error().message, HasSubstr("supported: 1"));
    }
  }
}

TEST(UpdateStatement, TextIsCompactAndTheSameForEqualStatements) {
  UpdateStatement statement;
  statement.job = "fashion";
  statement.round = 3;
  statement.task = "t-0123";
  statement.examples = 600;
  statement.steps = 60;
  statement.metrics = {{"loss", 0.1}, {"accuracy", 0.5}};
  const std::string zeros(64, '0');
  EXPECT_EQ(statement_text(statement),
            R"({"attempt":1,"base":")" + zeros + R"(","digest":")" + zeros +
                R"(","examples":600,"job":"fashion","metrics":{"accuracy":0.5,"loss":0.1},)"
                R"("round":3,"steps":60,"task":"t-0123"})");
  const auto again = update_statement_from_json(*parse_json(statement_text(statement)));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(statement_text(*again), statement_text(statement));
}

TEST(UpdateStatement, SigningInputIsTheLabelAndTheText) {
  EXPECT_EQ(update_signing_input("{}"), "muster-update-v1\n{}");
}

TEST(UpdateStatement, ZeroExamplesAreReadSoThatTheyCanBeRefusedByName) {
  for (const Kind& kind : kinds()) {
    if (kind.name != "update_statement") continue;
    Json json = kind.good;
    json["examples"] = 0;
    EXPECT_TRUE(update_statement_from_json(json).has_value());
  }
}

TEST(Task, CarriesEverySettingOfTheTraining) {
  Task task;
  task.id = "t";
  task.fit = {.job = "j", .round = 1, .model = {{"preset", "2nn"}}, .local = {}, .seed = 0};
  task.fit.local.mu = 0.01;
  task.fit.local.epochs = 7;
  task.fit.local.optimizer.lr = 0.05;
  task.fit.seed = std::numeric_limits<std::uint64_t>::max();
  task.kind = TaskKind::kEvaluate;
  const auto again = task_from_json(*parse_json(to_json(task).dump()));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->kind, TaskKind::kEvaluate);
  EXPECT_EQ(again->fit.local.mu, 0.01);
  EXPECT_EQ(again->fit.local.epochs, 7);
  EXPECT_EQ(again->fit.local.optimizer.lr, 0.05);
  EXPECT_EQ(again->fit.seed, task.fit.seed);
  EXPECT_EQ(to_json(*again), to_json(task));
}

TEST(Task, CarriesEveryCorrection) {
  Task task;
  task.id = "t";
  task.fit = {.job = "j", .round = 1, .model = {{"preset", "2nn"}}, .local = {}};
  const auto reread = [&] { return task_from_json(*parse_json(to_json(task).dump())); };
  const auto none = reread();
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->correction.method, DriftCorrection::kNone);
  EXPECT_FALSE(none->control);
  EXPECT_FALSE(none->initial_loss);
  EXPECT_EQ(none->encoding, UpdateEncoding{});

  task.correction = {DriftCorrection::kFedDyn, 0.1};
  const auto fed_dyn = reread();
  ASSERT_TRUE(fed_dyn) << fed_dyn.error().message;
  EXPECT_EQ(fed_dyn->correction.method, DriftCorrection::kFedDyn);
  EXPECT_EQ(fed_dyn->correction.alpha, 0.1);

  task.correction = {DriftCorrection::kScaffold, 0};
  const auto first = reread();
  ASSERT_TRUE(first) << "before its first round SCAFFOLD has no control state";
  task.control = Digest{};
  task.control_bytes = 5;
  task.encoding = {.format = UpdateEncoding::Format::kInt8,
                   .content = UpdateContent::kDelta,
                   .compressed = true};
  task.initial_loss = true;
  const auto scaffold = reread();
  ASSERT_TRUE(scaffold) << scaffold.error().message;
  EXPECT_EQ(scaffold->correction.method, DriftCorrection::kScaffold);
  EXPECT_EQ(scaffold->control, task.control);
  EXPECT_EQ(scaffold->control_bytes, 5);
  EXPECT_EQ(scaffold->encoding, task.encoding);
  EXPECT_TRUE(scaffold->initial_loss);
}

TEST(Task, RefusesAlphaOutOfRange) {
  Task task;
  task.id = "t";
  task.fit = {.job = "j", .round = 1, .model = {{"preset", "2nn"}}, .local = {}};
  for (const double alpha : {0.0, -0.1, 1.1e6}) {
    task.correction = {DriftCorrection::kFedDyn, alpha};
    const auto refused = task_from_json(to_json(task));
    ASSERT_FALSE(refused) << alpha;
    EXPECT_THAT(refused.error().message, HasSubstr("task.correction.alpha"));
  }
}

TEST(CheckinRequest, TakesAtMost64Tags) {
  CheckinRequest request;
  for (int i = 0; i < 64; ++i) request.tags.insert(std::to_string(i));
  EXPECT_TRUE(checkin_request_from_json(to_json(request)).has_value());
  request.tags.insert("one-more");
  EXPECT_FALSE(checkin_request_from_json(to_json(request)).has_value());
}

TEST(Problem, OfEveryErrorStatusReadsBack) {
  for (int status = 400; status < 600; ++status) {
    const auto again = problem_from_json(to_json(Problem{status, "some_code", "why", "r-1"}));
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(again->status, status);
    EXPECT_EQ(again->code, "some_code");
    EXPECT_EQ(again->detail, "why");
    EXPECT_EQ(again->request_id, "r-1");
  }
}

}  // namespace
}  // namespace muster::protocol
