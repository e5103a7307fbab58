// What the agent does around a training: corrections, encodings, and what it keeps.
#include <gmock/gmock.h>

#include "core/aggregate/encoding/decode.h"
#include "core/aggregate/rule_state.h"
#include "tests/edge_client/agent_fixture.h"

namespace muster {
namespace {

using namespace testing;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using Kind = AgentEvent::Kind;
using Format = UpdateEncoding::Format;

const UpdateEncoding kTenth{
    .format = Format::kTopK, .content = UpdateContent::kDelta, .fraction = 0.1};

class AgentCorrectionTest : public AgentTest {
 protected:
  // One round; gives how it ended.
  AgentEvent round(const protocol::Task& given, Kind end = Kind::kUploaded) {
    on_checkin_ = [this, given](const ScriptedRequest&) {
      return checkins_++ == 0 ? give(given) : nothing();
    };
    return run_until(end);
  }
  // The agent sends what is left over and gets nothing to do.
  AgentEvent send_left_over() {
    on_checkin_ = [this](const ScriptedRequest&) { return nothing(); };
    return run_until(Kind::kUploaded);
  }
  AgentEvent run_until(Kind end) {
    checkins_ = 0;
    start();
    const AgentEvent event = wait_for(end);
    closing_.open();
    EXPECT_TRUE(stop());
    identity_.reset();
    return event;
  }
  protocol::Task encoded(const UpdateEncoding& encoding) const {
    protocol::Task made = task();
    made.encoding = encoding;
    made.max_update_bytes = static_cast<std::int64_t>(most_body_bytes(encoding, global_.layout()));
    return made;
  }
  protocol::Task scaffold() {
    protocol::Task made = task();
    made.correction.method = DriftCorrection::kScaffold;
    made.fit.local.optimizer.lr = 0.5;
    if (control_) {
      made.control = state_digest(*control_);
      made.control_bytes = static_cast<std::int64_t>(write_state(*control_).size());
    }
    return made;
  }
  void set_control(float value) {
    control_.emplace(must(rule_state_layout(global_.layout(), {"c"})));
    for (float& v : control_->values()) v = value;
  }
  std::filesystem::path kept(const std::string& name) const {
    return folder_.path() / "kept" / "job-1" / name;
  }
  // What the last body says, as values.
  std::vector<float> decoded(const UpdateEncoding& encoding) {
    const auto path = folder_.path() / "body";
    must(write_file_durably(path, as_bytes(last_body())));
    const auto values = must(
        open_update(must(MappedFile::open(path)), encoding, global_.layout_ptr(), folder_.path()));
    std::vector<float> all(3);
    const float* read = values->read(0, 3, all.data());
    return {read, read + 3};
  }
};

// The trainer adds 1 in one step with lr 0.5: (x - y) / (K lr) = -2.
TEST_F(AgentCorrectionTest, ScaffoldAddsTheServersControlLessItsOwn) {
  round(scaffold());
  EXPECT_THAT(trainer_.offset, ElementsAre(0, 0, 0));
  set_control(0.25F);
  round(scaffold());
  EXPECT_THAT(trainer_.offset, ElementsAre(2.25, 2.25, 2.25)) << "c - c_i with c_i = -2";
  round(scaffold());
  // c_i <- c_i - c - 2.
  EXPECT_THAT(trainer_.offset, ElementsAre(4.5, 4.5, 4.5));
  EXPECT_EQ(uploads().size(), 3U);
  EXPECT_EQ(uploads().back(), trained_digest()) << "nothing but the state travels";
}

TEST_F(AgentCorrectionTest, ARefusedUpdateLeavesWhatWasKept) {
  round(scaffold());
  on_update_ = [](const ScriptedRequest&) { return problem(410, "round_closed"); };
  round(scaffold(), Kind::kRefused);
  on_update_ = receipt;
  round(scaffold());
  EXPECT_THAT(trainer_.offset, ElementsAre(2, 2, 2));
}

TEST_F(AgentCorrectionTest, AfterALostReceiptTheUpdateIsSentAgainAndItsStateKept) {
  round(scaffold());
  on_update_ = [](const ScriptedRequest&) { return std::string(); };
  round(scaffold(), Kind::kRetrying);
  ASSERT_TRUE(is_pending());
  on_update_ = receipt;
  send_left_over();
  round(scaffold());
  EXPECT_EQ(trainer_.fits, 3);
  EXPECT_THAT(trainer_.offset, ElementsAre(4, 4, 4));
}

TEST_F(AgentCorrectionTest, AKeptStateThatIsDamagedIsLeftOut) {
  round(scaffold());
  must(write_file_durably(kept("correction.safetensors"), as_bytes("damaged")));
  on_checkin_ = [&](const ScriptedRequest&) {
    return checkins_++ == 0 ? give(scaffold()) : nothing();
  };
  checkins_ = 0;
  start();
  EXPECT_THAT(wait_for(Kind::kTraining).text, HasSubstr("correction.safetensors was removed"));
  (void)wait_for(Kind::kUploaded);
  EXPECT_TRUE(stop());
  EXPECT_THAT(trainer_.offset, ElementsAre(0, 0, 0));
  EXPECT_TRUE(std::filesystem::exists(kept("correction.safetensors"))) << "the new one";
}

TEST_F(AgentCorrectionTest, AControlStateOfAnotherModelIsRejected) {
  control_.emplace(must(StateLayout::create({{"c/w", {4}}})));
  EXPECT_THAT(round(scaffold(), Kind::kDeclined).text, HasSubstr("control state"));
  control_.emplace(must(StateLayout::create({{"c/w", {3}}})));
  control_->values()[1] = std::nanf("");
  EXPECT_THAT(round(scaffold(), Kind::kDeclined).text, HasSubstr("control state"));
  EXPECT_TRUE(uploads().empty());
}

TEST_F(AgentCorrectionTest, FedDynTrainsWithAlphaAndTakesTheGradientOff) {
  protocol::Task fed_dyn = task();
  fed_dyn.correction = {DriftCorrection::kFedDyn, 0.5};
  round(fed_dyn);
  EXPECT_EQ(trainer_.mu, 0.5);
  EXPECT_THAT(trainer_.offset, ElementsAre(0, 0, 0));
  round(fed_dyn);
  // g <- 0 - alpha * 1; the offset is -g.
  EXPECT_THAT(trainer_.offset, ElementsAre(0.5, 0.5, 0.5));
}

TEST_F(AgentCorrectionTest, ATrainerThatTakesNoOffsetDeclinesNamingTheMethod) {
  trainer_.takes_offset = false;
  EXPECT_THAT(round(scaffold(), Kind::kDeclined).text, HasSubstr("SCAFFOLD"));
  protocol::Task fed_dyn = task();
  fed_dyn.correction = {DriftCorrection::kFedDyn, 0.5};
  EXPECT_THAT(round(fed_dyn, Kind::kDeclined).text, HasSubstr("FedDyn"));
  EXPECT_EQ(trainer_.fits, 0);
  round(task());
  EXPECT_TRUE(trainer_.offset.empty());
}

TEST_F(AgentCorrectionTest, TheInitialLossIsReportedOrTheTaskDeclined) {
  protocol::Task asked = task();
  asked.initial_loss = true;
  Json statement;
  on_update_ = [&](const ScriptedRequest& request) {
    statement = must(parse_json(as_text(must(base64_decode(request.headers.at("muster-update"))))));
    return receipt(request);
  };
  round(asked);
  EXPECT_EQ(statement["metrics"], Json({{"initial_loss", 0.75}, {"loss", 0.25}}));
  trainer_.knows_initial_loss = false;
  EXPECT_THAT(round(asked, Kind::kDeclined).text, HasSubstr("initial_loss"));
  EXPECT_EQ(uploads().size(), 1U);
}

TEST_F(AgentCorrectionTest, EveryEncodingTravelsAsItsBody) {
  for (const Format format :
       {Format::kFloat32, Format::kFloat16, Format::kBFloat16, Format::kInt8, Format::kTopK}) {
    for (const bool compressed : {false, true}) {
      protocol::Task given = encoded({.format = format,
                                      .content = UpdateContent::kDelta,
                                      .fraction = format == Format::kTopK ? 1.0 : 0.0,
                                      .compressed = compressed});
      round(given);
      EXPECT_THAT(decoded(given.encoding), Each(FloatEq(1))) << describe(given.encoding);
      EXPECT_EQ(uploads().back(), sha256(last_body()));
      given.max_update_bytes -= 1;
      EXPECT_THAT(round(given, Kind::kDeclined).text, HasSubstr("the task allows"));
    }
  }
}

TEST_F(AgentCorrectionTest, WhatTheFormatCannotHoldIsDeclined) {
  set_global(65'519);
  protocol::Task given = task();
  given.encoding.format = Format::kFloat16;
  EXPECT_THAT(round(given, Kind::kDeclined).text, HasSubstr("float16 cannot hold"));
  EXPECT_TRUE(uploads().empty());
}

TEST_F(AgentCorrectionTest, WhatTopKLeavesOutIsSentInTheNextRound) {
  const protocol::Task given = encoded(kTenth);
  round(given);
  EXPECT_THAT(decoded(given.encoding), ElementsAre(1, 0, 0)) << "of equal ones the first";
  round(given);
  EXPECT_THAT(decoded(given.encoding), ElementsAre(0, 2, 0));
  // A refused one is lost, and what was left out before it stays.
  on_update_ = [](const ScriptedRequest&) { return problem(410, "round_closed"); };
  round(given, Kind::kRefused);
  on_update_ = receipt;
  round(given);
  EXPECT_THAT(decoded(given.encoding), ElementsAre(0, 0, 3));
}

// The server reads what top_k lets through: that is the y of SCAFFOLD.
TEST_F(AgentCorrectionTest, WhatIsKeptFollowsFromWhatWasSent) {
  protocol::Task given = scaffold();
  given.encoding = kTenth;
  given.max_update_bytes = encoded(kTenth).max_update_bytes;
  round(given);
  round(given);
  EXPECT_THAT(trainer_.offset, ElementsAre(2, 0, 0));
}

}  // namespace
}  // namespace muster
