#include "core/train/data/data_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "core/base/bytes.h"
#include "core/train/data/csv_number.h"
#include "core/train/data/spec_fields.h"

namespace muster {
namespace {

struct FormatRow {
  std::string_view name;
  std::string_view form;
  DataSpec::Format format;
  Status (*read)(std::string_view files, SpecFields& fields, DataSpec& spec);
};

Status read_two_files(std::string_view files, DataSpec& spec) {
  const std::size_t comma = std::min(files.find(','), files.size());
  spec.images = files.substr(0, comma);
  spec.labels = files.substr(std::min(comma + 1, files.size()));
  if (!spec.images.empty() && !spec.labels.empty() && spec.labels.find(',') == std::string::npos) {
    return {};
  }
  return bad_data_spec(
      fmt::format("\"{}\" found, two files with ',' between them are wanted", printable(files)));
}

Status read_one_file(std::string_view files, std::string_view form, DataSpec& spec) {
  spec.file = files;
  if (!spec.file.empty()) return {};
  return bad_data_spec(fmt::format("no file found, {} is wanted", form));
}

void read_scale(SpecFields& fields, DataSpec& spec) {
  float scale = 0;
  fields.read("scale", 1e-6F, 1e9F, "a number from 0.000001 to 1000000000", scale);
  if (scale > 0) spec.arrays.scale = scale;
}

void read_array_options(SpecFields& fields, DataSpec& spec) {
  read_scale(fields, spec);
  fields.choose("targets", {"classes", "values"}, spec.arrays.targets);
}

Status read_idx(std::string_view files, SpecFields& fields, DataSpec& spec) {
  MUSTER_TRY_STATUS(read_two_files(files, spec));
  read_scale(fields, spec);
  return {};
}

Status read_npy(std::string_view files, SpecFields& fields, DataSpec& spec) {
  MUSTER_TRY_STATUS(read_two_files(files, spec));
  read_array_options(fields, spec);
  return {};
}

Status read_csv(std::string_view files, SpecFields& fields, DataSpec& spec) {
  const std::string form = "csv:FILE;target=COLUMN";
  MUSTER_TRY_STATUS(read_one_file(files, form, spec));
  const std::optional<std::string> target = fields.take("target");
  if (!target || target->empty()) {
    return bad_data_spec("csv wants a file and its target column: " + form);
  }
  CsvOptions& csv = spec.csv;
  csv.target = *target;
  fields.choose("targets", {"classes", "values"}, csv.targets);
  csv.classes = fields.take_list("classes", '|');
  if (!csv.classes.empty() && csv.targets == CsvOptions::Targets::kValues) {
    fields.fail("classes", "...", "targets=values, or classes, not both,");
  }
  csv.features = fields.take_list("features", ',');
  csv.categorical = fields.take_list("categorical", ',');
  for (const auto& [column, texts] : fields.take_named("categories", "COLUMN")) {
    csv.categories[column] = fields.split_list("categories." + column, texts, '|');
  }
  if (const std::optional<std::string> missing = fields.take("missing")) {
    if (*missing != "error" && *missing != "mean" && *missing != "median" &&
        !csv_number(*missing)) {
      fields.fail("missing", *missing, "error, mean, median or a number");
    }
    csv.missing = *missing;
  }
  csv.missing_of = fields.take_named("missing", "COLUMN");
  csv.missing_words = fields.take_list("na", '|');
  return {};
}

Status read_safetensors(std::string_view files, SpecFields& fields, DataSpec& spec) {
  const std::string form = "safetensors:FILE;features=TENSOR;labels=TENSOR";
  MUSTER_TRY_STATUS(read_one_file(files, form, spec));
  spec.tensors.features = fields.take("features").value_or("");
  spec.tensors.targets = fields.take("labels").value_or("");
  if (spec.tensors.features.empty() || spec.tensors.targets.empty()) {
    return bad_data_spec("safetensors wants the names of two tensors: " + form);
  }
  read_array_options(fields, spec);
  return {};
}

Status read_text(std::string_view files, SpecFields& fields, DataSpec& spec) {
  MUSTER_TRY_STATUS(read_one_file(files, "text:FILE", spec));
  fields.read<std::int64_t>("window", 1, TextLimits{}.window, "a whole number from 1 to 1000000",
                            spec.text.window);
  fields.read<std::int64_t>("stride", 1, std::int64_t{1} << 40, "a whole number from 1",
                            spec.text.stride);
  if (const std::optional<std::string> vocabulary = fields.take("vocabulary")) {
    if (vocabulary->empty()) fields.fail("vocabulary", "", "ascii, bytes or a file");
    spec.text.vocabulary = *vocabulary;
  }
  return {};
}

// "alpha=1,beta=1" in place of files; both stated, because they are the data set's name.
Status read_synthetic(std::string_view files, SpecFields& fields, DataSpec& spec) {
  constexpr SyntheticLimits kLimits;
  std::string parameters(files);
  std::replace(parameters.begin(), parameters.end(), ',', ';');
  MUSTER_TRY(SpecFields named, SpecFields::split(parameters));
  const std::string wanted = fmt::format("a number from 0 to {}", kLimits.spread);
  double alpha = -1;
  double beta = -1;
  named.read("alpha", 0.0, kLimits.spread, wanted, alpha);
  named.read("beta", 0.0, kLimits.spread, wanted, beta);
  MUSTER_TRY_STATUS(named.finish());
  if (alpha < 0 || beta < 0) {
    return bad_data_spec(fmt::format("no {} found, synthetic:alpha=NUMBER,beta=NUMBER is wanted",
                                     alpha < 0 ? "alpha" : "beta"));
  }
  spec.synthetic.alpha = alpha;
  spec.synthetic.beta = beta;
  fields.read<std::int64_t>("devices", 1, kLimits.devices,
                            fmt::format("a whole number from 1 to {}", kLimits.devices),
                            spec.synthetic.devices);
  return {};
}

constexpr FormatRow kFormats[] = {
    {"idx", "idx:IMAGES,LABELS", DataSpec::Format::kIdx, read_idx},
    {"csv", "csv:FILE;target=COLUMN", DataSpec::Format::kCsv, read_csv},
    {"npy", "npy:FEATURES,LABELS", DataSpec::Format::kNpy, read_npy},
    {"safetensors", "safetensors:FILE;features=TENSOR;labels=TENSOR",
     DataSpec::Format::kSafetensors, read_safetensors},
    {"text", "text:FILE", DataSpec::Format::kText, read_text},
    {"synthetic", "synthetic:alpha=NUMBER,beta=NUMBER", DataSpec::Format::kSynthetic,
     read_synthetic}};

void read_shard(SpecFields& fields, DataSpec& spec) {
  // Its parts are the devices that it was drawn for; nothing is split.
  const bool synthetic = spec.format == DataSpec::Format::kSynthetic;
  const std::optional<std::string> text = fields.take("shard");
  if (!text) {
    if (!synthetic && fields.take("split")) {
      fields.fail("split", "...", "it together with shard=K/N, or neither");
    }
    return;
  }
  const std::size_t slash = std::min(text->find('/'), text->size());
  const auto shard = spec_number<std::int64_t>(std::string_view(*text).substr(0, slash));
  const auto shards =
      spec_number<std::int64_t>(std::string_view(*text).substr(std::min(slash + 1, text->size())));
  if (!shard || !shards || *shards < 1 || *shards > 1'000'000 || *shard < 0 || *shard >= *shards) {
    return fields.fail("shard", *text, "K/N with K from 0 to N - 1, N up to 1000000,");
  }
  spec.shard = *shard;
  spec.shards = *shards;
  if (synthetic) {
    if (spec.shards != spec.synthetic.devices) {
      fields.fail("shard", *text, fmt::format("K/{0} with devices={0}", spec.synthetic.devices));
    }
    return;
  }
  fields.choose("split", {"iid", "shards", "dirichlet"}, spec.split);
  if (spec.split == DataSpec::Split::kShards) {
    fields.read<std::int64_t>("per_device", 1, 1'000'000, "a whole number from 1", spec.per_device);
  }
  if (spec.split == DataSpec::Split::kDirichlet) {
    fields.read("alpha", 1e-4, 1e6, "a number from 0.0001 to 1000000", spec.alpha);
  }
}

}  // namespace

std::vector<std::string> DataSpec::files() const {
  std::vector<std::string> all;
  for (const std::string& each : {images, labels, file}) {
    if (!each.empty()) all.push_back(each);
  }
  if (format == Format::kText && text.vocabulary != "ascii" && text.vocabulary != "bytes") {
    all.push_back(text.vocabulary);
  }
  return all;
}

Result<DataSpec> parse_data_spec(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const auto* row = std::find_if(std::begin(kFormats), std::end(kFormats),
                                 [&](const FormatRow& each) { return each.name == name; });
  if (colon == text.size() || row == std::end(kFormats)) {
    std::vector<std::string> forms;
    for (const FormatRow& each : kFormats) forms.emplace_back(each.form);
    return bad_data_spec(
        fmt::format("\"{}\" found, wanted is one of {}", printable(text), joined_words(forms)));
  }
  DataSpec spec;
  spec.format = row->format;
  const std::string_view rest = text.substr(colon + 1);
  const std::size_t semicolon = std::min(rest.find(';'), rest.size());
  MUSTER_TRY(SpecFields fields,
             SpecFields::split(rest.substr(std::min(semicolon + 1, rest.size()))));
  MUSTER_TRY_STATUS(row->read(rest.substr(0, semicolon), fields, spec));
  fields.read<std::uint64_t>("seed", 0, ~std::uint64_t{0}, "a whole number from 0", spec.seed);
  fields.read("holdout", 0.0, 0.9, "a number from 0 to 0.9", spec.holdout);
  read_shard(fields, spec);
  MUSTER_TRY_STATUS(fields.finish());
  return spec;
}

}  // namespace muster
