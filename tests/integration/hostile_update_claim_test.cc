#include "tests/integration/hostile_update_fixture.h"

// Updates whose bytes are good and whose claims are not: whose they are, for which round, from
// which state, how they come.
namespace muster::testing {
namespace {

using HostileUpdateClaim = HostileUpdate;

TEST_F(HostileUpdateClaim, TheSignatureMustBeTheCallersOwnOverThisStatement) {
  const std::string said = good().statement.dump();
  Upload upload = good();
  for (const std::string& signature :
       {honest.sign(said), mallory.sign(said + " "), std::string("AAAA"), std::string("not base64"),
        base64_encode(take(mallory.caller().pair().key.sign(said)))}) {  // without the prefix
    upload.signature = signature;
    expect_refused(upload, "403 bad_signature");
  }
  const std::string with_both = mallory.request_for(good());
  const auto without = [&](const std::string& name) {
    std::string text = with_both;
    const auto start = text.find(name + ": ");
    return text.erase(start, text.find("\r\n", start) + 2 - start);
  };
  EXPECT_EQ(outcome(mallory.caller().say(without("Muster-Signature"))), "403 bad_signature");
  EXPECT_EQ(outcome(mallory.caller().say(without("Muster-Update"))), "400 bad_statement");
  expect_commit_of_the_good_updates(std::vector<std::string>(6, "bad_signature"));
}

TEST_F(HostileUpdateClaim, AMalformedStatementIsRefused) {
  const std::string said = good().statement.dump();
  Upload upload = good();
  for (const std::string& text :
       {said.substr(1), said + "x", std::string("[]"), "{\"extra\":1," + said.substr(1),
        "{\"round\":1," + said.substr(1), std::string(1, '\xff'),
        std::string(500, '[') + std::string(500, ']')}) {
    upload.statement_text = text;
    expect_refused(upload, "400 bad_statement");
  }
  expect_commit_of_the_good_updates({});
}

TEST_F(HostileUpdateClaim, TheDigestMustBeThatOfTheBody) {
  Upload upload = good();
  upload.statement["digest"] = sha256("another body").hex();
  expect_refused(upload, "422 digest_mismatch");
  expect_commit_of_the_good_updates({"digest_mismatch"});
}

TEST_F(HostileUpdateClaim, TheStatementMustBeForTheRoundOfThePath) {
  Upload upload = good();
  upload.path = "/v1/jobs/" + job + "/rounds/2/update";
  expect_refused(upload, "400 bad_statement");
  upload.path = "/v1/jobs/" + job + "/rounds/01/update";
  expect_refused(upload, "400 bad_statement");
  upload.path = "/v1/jobs/small-99/rounds/1/update";
  expect_refused(upload, "404 job_unknown");
  expect_commit_of_the_good_updates({"bad_statement", "bad_statement"});
}

TEST_F(HostileUpdateClaim, P02_ARoundToComeIsNotOpen) {
  Upload upload = good();
  upload.statement["round"] = 2;
  upload.path = "/v1/jobs/" + job + "/rounds/2/update";
  expect_refused(upload, "409 round_not_open");
  Upload attempt = good();
  attempt.statement["attempt"] = 2;
  expect_refused(attempt, "409 round_not_open");
  expect_commit_of_the_good_updates({"round_not_open"});
  // Selection of round 2 is not over.
  expect_refused(upload, "409 round_not_open");
  EXPECT_EQ(refused_reasons(federation, job, 2),
            (std::vector<std::string>{"round_not_open", "round_not_open"}));
}

TEST_F(HostileUpdateClaim, P10_AnUpdateFromAnotherStateIsStale) {
  Upload upload = good();
  upload.statement["base"] = sha256("yesterday").hex();
  expect_refused(upload, "409 stale_base");
  expect_commit_of_the_good_updates({"stale_base"});
}

TEST_F(HostileUpdateClaim, P06_TheTaskOfAnotherDeviceIsRefused) {
  Upload upload = good();
  upload.statement["task"] = honest_task.id;
  expect_refused(upload, "403 identity_mismatch");
  upload.statement["task"] = "0123456789abcdef0123456789abcdef";
  expect_refused(upload, "403 identity_mismatch");
  // The honest one's whole request, word for word, on mallory's connection.
  const std::string captured = honest.request_for(upload_for(honest_task, *layout, 5.0F, 10));
  EXPECT_EQ(outcome(mallory.caller().say(captured)), "403 bad_signature");
  expect_commit_of_the_good_updates({"identity_mismatch", "identity_mismatch", "bad_signature"});
}

TEST_F(HostileUpdateClaim, ADeviceThatWasNotSelectedIsRefused) {
  HandDevice outsider(federation, "outsider");
  Upload upload = good();
  EXPECT_EQ(outcome(outsider.send(upload)), "403 not_selected");
  EXPECT_EQ(refused_reasons(federation, job, 1, "outsider"),
            std::vector<std::string>{"not_selected"});
  expect_commit_of_the_good_updates({});
}

TEST_F(HostileUpdateClaim, P04_P05_AnUpdateCountsOnceAndTheFirstStays) {
  const Reply first = mallory.send(good());
  ASSERT_EQ(outcome(first), "200");
  const Reply again = mallory.send(good());
  EXPECT_EQ(outcome(again), "200");
  EXPECT_EQ(again.body, first.body);
  expect_refused(upload_for(task, *layout, 9.0F, 30), "409 already_reported");
  EXPECT_EQ(outcome(honest.send(upload_for(honest_task, *layout, 5.0F, 10))), "200");
  expect_committed_twos({"already_reported"});
  // P-13: also after the round was committed.
  EXPECT_EQ(mallory.send(good()).body, first.body);
  expect_refused(upload_for(task, *layout, 9.0F, 30), "409 already_reported");
  expect_committed_twos({"already_reported", "already_reported"});
}

TEST_F(HostileUpdateClaim, HTTP05_ABodyOverTheLimitIsRefusedBeforeItIsSent) {
  Upload upload = good();
  upload.body.assign(static_cast<std::size_t>(task.max_update_bytes) + 1, 'x');
  for (const std::string& length :
       {std::to_string(upload.body.size()), std::string("9223372036854775807")}) {
    std::string head = mallory.request_for(upload);
    head.resize(head.find("\r\n\r\n") + 4);  // not one byte of the body
    const std::string declared = "Content-Length: " + std::to_string(upload.body.size());
    head.replace(head.find(declared), declared.size(), "Content-Length: " + length);
    const auto connection = mallory.caller().connect();
    const Reply reply = connection->ask(head).value_or(Reply{});
    EXPECT_EQ(outcome(reply), "413 body_too_large");
    EXPECT_TRUE(reply.closes());
    EXPECT_TRUE(connection->is_closed());
  }
  EXPECT_EQ(outcome(mallory.send(upload)), "413 body_too_large");
  expect_commit_of_the_good_updates({});
}

TEST_F(HostileUpdateClaim, HTTP16_HTTP25_HTTP26_OtherFormsOfABodyAreRefusedAndTheConnectionEnds) {
  const auto refuse = [&](const std::string& text, const std::string& wanted) {
    const auto connection = mallory.caller().connect();
    const Reply reply = connection->ask(text).value_or(Reply{});
    EXPECT_EQ(outcome(reply), wanted);
    EXPECT_TRUE(connection->is_closed());
  };
  for (const char* type : {"application/json", "text/plain", "multipart/form-data", ""}) {
    Upload upload = good();
    upload.type = type;
    refuse(mallory.request_for(upload), "415 unsupported_media_type");
  }
  const auto with_field = [&](const std::string& field) {
    std::string text = mallory.request_for(good());
    return text.insert(text.find("\r\n") + 2, field + "\r\n");
  };
  refuse(with_field("Content-Encoding: gzip"), "415 unsupported_encoding");
  refuse(with_field("Transfer-Encoding: chunked"), "400 bad_framing");
  std::string chunked = with_field("Transfer-Encoding: chunked");
  const auto length = chunked.find("Content-Length");
  chunked.erase(length, chunked.find("\r\n", length) + 2 - length);
  refuse(chunked, "501 transfer_encoding");
  expect_commit_of_the_good_updates({});
}

TEST_F(HostileUpdateClaim, AnUpdateThatIsCutOffLeavesNothing) {
  for (const std::size_t missing : {std::size_t{1}, good().body.size()}) {
    const std::string text = mallory.request_for(good());
    const auto connection = mallory.caller().connect();
    EXPECT_TRUE(connection->send(text.substr(0, text.size() - missing)));
    connection->hang_up();
  }
  expect_commit_of_the_good_updates({});
  EXPECT_TRUE(spool_becomes_empty());
}

TEST_F(HostileUpdateClaim, P05_OfUpdatesSentAtTheSameMomentExactlyOneCounts) {
  std::vector<std::future<std::string>> sent;
  for (int i = 0; i < 8; ++i) {
    sent.push_back(std::async(std::launch::async, [this, i] {
      return outcome(mallory.send(upload_for(task, *layout, static_cast<float>(i), 30)));
    }));
  }
  int accepted = -1;
  for (int i = 0; i < 8; ++i) {
    const std::string answer = sent[static_cast<std::size_t>(i)].get();
    if (answer == "200") {
      EXPECT_EQ(accepted, -1) << "a second one was accepted";
      accepted = i;
    } else {
      EXPECT_EQ(answer, "409 already_reported");
    }
  }
  EXPECT_EQ(outcome(honest.send(upload_for(honest_task, *layout, 5.0F, 10))), "200");
  federation.wait_until(job, [](const Json& now) { return now.at("rounds_committed") == 1; });
  const Json round = federation.get_json("/v1/jobs/" + job + "/rounds/1");
  EXPECT_EQ(round.at("metrics").at("examples"), 40);
  for (const Json& participant : round.at("participants")) {
    if (participant.at("device") != "mallory") continue;
    const Upload counted = upload_for(task, *layout, static_cast<float>(accepted), 30);
    EXPECT_EQ(participant.at("digest"), counted.statement.at("digest"));
  }
  EXPECT_EQ(refused_reasons(federation, job, 1), std::vector<std::string>(7, "already_reported"));
}

TEST_F(HostileUpdateClaim, P04_TheSameUpdateSentManyTimesAtOnceHasOneReceipt) {
  std::vector<std::future<std::string>> sent;
  for (int i = 0; i < 8; ++i)
    sent.push_back(std::async(std::launch::async, [this] { return mallory.send(good()).body; }));
  std::vector<std::string> receipts;
  for (auto& answer : sent) receipts.push_back(answer.get());
  EXPECT_EQ(json_of(receipts.front()).value("device", ""), "mallory");
  EXPECT_EQ(receipts, std::vector<std::string>(8, receipts.front()));
  EXPECT_EQ(outcome(honest.send(upload_for(honest_task, *layout, 5.0F, 10))), "200");
  expect_committed_twos({});
}

}  // namespace
}  // namespace muster::testing
