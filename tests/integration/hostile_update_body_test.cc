#include <cmath>
#include <limits>

#include "tests/integration/hostile_update_fixture.h"

// Updates whose bytes are wrong: refused with a reason, and the round is made of the good ones.
namespace muster::testing {
namespace {

using HostileUpdateBody = HostileUpdate;

// The first tensor of two dimensions.
RawTensor& matrix_of(std::vector<RawTensor>& tensors) {
  for (RawTensor& tensor : tensors) {
    if (tensor.shape.size() == 2) return tensor;
  }
  throw std::runtime_error("no matrix");
}

TEST_F(HostileUpdateBody, N01_N02_OneNotANumberOrInfinityIsRefusedAndNamed) {
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    std::vector<RawTensor> tensors = filled(*layout, 1.0F);
    put_float(matrix_of(tensors), 7, value);
    const Reply reply = mallory.send(of(tensors));
    EXPECT_EQ(outcome(reply), "422 non_finite");
    const std::string detail = json_of(reply.body).at("detail");
    EXPECT_NE(detail.find(matrix_of(tensors).name), std::string::npos) << detail;
    EXPECT_NE(detail.find("7"), std::string::npos) << detail;
  }
  expect_commit_of_the_good_updates({"non_finite", "non_finite", "non_finite"});
}

TEST_F(HostileUpdateBody, C10_AnotherShapeIsRefusedEvenWithAnEqualCount) {
  std::vector<RawTensor> transposed = filled(*layout, 1.0F);
  std::swap(matrix_of(transposed).shape[0], matrix_of(transposed).shape[1]);
  expect_refused(of(transposed), "422 shape_mismatch");

  std::vector<RawTensor> flat = filled(*layout, 1.0F);
  matrix_of(flat).shape = {12};
  expect_refused(of(flat), "422 shape_mismatch");

  std::vector<RawTensor> larger = filled(*layout, 1.0F);
  matrix_of(larger).shape = {5, 5};
  matrix_of(larger).bytes.resize(5 * 5 * sizeof(float));
  expect_refused(of(larger), "422 shape_mismatch");
  expect_commit_of_the_good_updates({"shape_mismatch", "shape_mismatch", "shape_mismatch"});
}

TEST_F(HostileUpdateBody, C09_MissingExtraAndRenamedTensorsAreRefusedByName) {
  std::vector<RawTensor> missing = filled(*layout, 1.0F);
  missing.pop_back();
  expect_refused(of(missing), "422 missing_tensor");

  std::vector<RawTensor> extra = filled(*layout, 1.0F);
  extra.push_back({"../../etc/passwd", "F32", {1}, std::string(4, '\0')});
  expect_refused(of(extra), "422 extra_tensor");

  std::vector<RawTensor> renamed = filled(*layout, 1.0F);
  renamed.front().name = "<img src=x>";
  expect_refused(of(renamed), "422 missing_tensor");
  expect_commit_of_the_good_updates({"missing_tensor", "extra_tensor", "missing_tensor"});
}

TEST_F(HostileUpdateBody, C08_AnotherDtypeIsRefusedNotConverted) {
  const auto with_dtype = [&](const std::string& dtype, std::size_t size) {
    std::vector<RawTensor> tensors = filled(*layout, 1.0F);
    for (RawTensor& tensor : tensors) {
      tensor.dtype = dtype;
      tensor.bytes = std::string(tensor.bytes.size() / sizeof(float) * size, '\0');
    }
    return of(tensors);
  };
  expect_refused(with_dtype("F64", 8), "422 dtype_mismatch");
  expect_refused(with_dtype("F16", 2), "422 dtype_mismatch");
  expect_refused(with_dtype("I64", 8), "422 dtype_mismatch");
  expect_refused(with_dtype("I32", 4), "422 dtype_mismatch");
  expect_commit_of_the_good_updates(std::vector<std::string>(4, "dtype_mismatch"));
}

TEST_F(HostileUpdateBody, N05_N08_ExamplesAreFromOneToTheCap) {
  const auto with_examples = [&](const Json& examples) {
    Upload upload = good();
    upload.statement["examples"] = examples;
    return upload;
  };
  expect_refused(with_examples(0), "422 zero_examples");
  expect_refused(with_examples(kMaxExamples + 1), "422 bad_examples");
  expect_refused(with_examples(std::int64_t{1} << 53), "422 bad_examples");
  for (const Json& malformed : {Json(-1), Json((std::int64_t{1} << 53) + 1), Json(UINT64_MAX),
                                Json(1.5), Json("30"), Json(nullptr), Json(true)}) {
    expect_refused(with_examples(malformed), "400 bad_statement");
  }
  expect_commit_of_the_good_updates({"zero_examples", "bad_examples", "bad_examples"});
}

TEST_F(HostileUpdateBody, C01_C02_C16_WhatIsNoSafetensorsFileIsRefused) {
  const std::string file = good().body;
  const std::size_t header = load_le64(as_bytes(file));
  const std::vector<std::string> malformed{
      "",
      std::string(7, '\0'),
      std::string("\x80\x04\x95", 3) + std::string(200, 'p'),  // pickle
      "PK\x03\x04" + std::string(200, 'z'),                    // zip, npz
      "\x93NUMPY" + std::string(200, 'n'),
      std::string(64, '\xff'),  // header length 2^64-1
      file.substr(0, 8),
      file.substr(0, 8 + header / 2)};
  for (const std::string& bytes : malformed) {
    Upload upload = good();
    upload.set_body(bytes);
    expect_refused(upload, "400 bad_header");
  }
  Upload short_data = good();
  short_data.set_body(file.substr(0, file.size() - 1));
  expect_refused(short_data, "400 bad_layout");
  Upload long_data = good();
  long_data.set_body(file + "x");
  expect_refused(long_data, "400 bad_layout");

  std::vector<std::string> reasons(malformed.size(), "bad_header");
  reasons.insert(reasons.end(), 2, "bad_layout");
  expect_commit_of_the_good_updates(reasons);
}

TEST_F(HostileUpdateBody, AFileInAnotherOrderOrWithMetadataIsAsGoodAsTheCanonicalOne) {
  Upload upload = good();
  std::vector<RawTensor> tensors = filled(*layout, 1.0F);
  std::swap(tensors.front(), tensors.back());
  upload.set_body(safetensors_of(tensors));
  EXPECT_EQ(outcome(mallory.send(upload)), "200");
  EXPECT_EQ(outcome(honest.send(upload_for(honest_task, *layout, 5.0F, 10))), "200");
  expect_committed_twos({});
}

TEST_F(HostileUpdateBody, N14_MetricsThatSayNothingAreNeverAveraged) {
  Upload upload = good();
  const auto with_metrics = [&](const std::string& metrics) {
    Upload bent = good();
    bent.statement.erase("metrics");
    bent.statement_text = bent.statement.dump();
    bent.statement_text.pop_back();
    bent.statement_text += ",\"metrics\":" + metrics + "}";
    return bent;
  };
  for (const char* malformed :
       {R"({"loss":NaN})", R"({"loss":1e999})", R"({"loss":-Infinity})", R"({"loss":"1"})",
        R"({"a b":1})", R"([1])", "null", R"({"loss":1,"loss":2})", R"({"loss":{"x":1}})"}) {
    expect_refused(with_metrics(malformed), "400 bad_statement");
  }
  EXPECT_EQ(outcome(mallory.send(with_metrics(R"({"loss":null,"accuracy":2.0})"))), "200");
  Upload honest_upload = upload_for(honest_task, *layout, 5.0F, 10);
  honest_upload.statement["metrics"]["loss"] = 0.5;
  EXPECT_EQ(outcome(honest.send(honest_upload)), "200");
  expect_committed_twos({});
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job + "/rounds/1").at("metrics").at("train_loss"),
            0.5);
}

}  // namespace
}  // namespace muster::testing
