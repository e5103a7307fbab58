// The saved form of a run; training_run.h describes it.
#include <algorithm>
#include <string>
#include <utility>

#include "core/tensor/safetensors.h"
#include "core/train/training_run.h"

namespace muster {
namespace {

constexpr std::string_view kRunKey = "run";
constexpr std::string_view kWeights = "w";
// Names of tensors and the JSON of a thousand epochs.
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{16} << 20;
constexpr SafetensorsLimits kLimits{.header_bytes = kMostHeaderBytes};

Error bad_run(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "saved run: " + message, "bad_saved_run"};
}

// Of all the tensors of a run: those of `layout` once for the weights and once for each moment.
Result<LayoutPtr> layout_of_all(const StateLayout& layout, const std::vector<Moment>& moments) {
  std::vector<StateLayout::Entry> entries;
  const auto add = [&](std::string_view part) {
    for (const TensorSpec& spec : layout.tensors()) {
      entries.push_back({std::string(part) + "/" + spec.name, spec.shape});
    }
  };
  add(kWeights);
  for (const Moment& moment : moments) add(moment.name);
  return StateLayout::create(std::move(entries));
}

void append(Bytes& file, ByteView bytes) {
  file.insert(file.end(), bytes.begin(), bytes.end());
}

// Takes the part's tensors out of the state of all.
Status take_part(const StateDict& all, std::string_view part, StateDict& state) {
  for (const TensorSpec& spec : state.layout().tensors()) {
    const std::span<const float> from = all.tensor(std::string(part) + "/" + spec.name);
    std::copy(from.begin(), from.end(), state.tensor(spec).begin());
  }
  if (auto finite = check_finite(state.layout(), state.values()); !finite) {
    return bad_run(std::string(part) + ": " + finite.error().message);
  }
  return {};
}

}  // namespace

Result<Bytes> TrainingRun::save() const {
  if (failure_) return *failure_;
  const TrainedWeights& weights = replica_.weights();
  const std::vector<Moment>& moments = weights.optimizer().moments();
  MUSTER_TRY_IN("save a run", const LayoutPtr layout, layout_of_all(weights.w().layout(), moments));
  // In the order of the layout, so in that of the file.
  std::vector<ByteView> tensors;
  Sha256 hash;
  for (const TensorSpec& spec : layout->tensors()) {
    const std::size_t slash = spec.name.find('/');
    const std::string_view part = std::string_view(spec.name).substr(0, slash);
    const std::string_view name = std::string_view(spec.name).substr(slash + 1);
    const StateDict* state = &weights.w();
    for (std::size_t i = 0; i < moments.size(); ++i) {
      if (moments[i].name == part) state = &weights.optimizer_state().moments[i];
    }
    tensors.push_back(std::as_bytes(state->tensor(name)));
    hash.update(tensors.back());
  }
  const SafetensorsMetadata metadata{{std::string(kRunKey), saved_json(hash.finish()).dump()}};
  MUSTER_TRY_IN("save a run", const std::string header,
                safetensors_header(*layout, metadata, kLimits));
  Bytes file;
  file.reserve(header.size() + static_cast<std::size_t>(layout->num_elements()) * sizeof(float));
  append(file, as_bytes(header));
  for (const ByteView tensor : tensors) append(file, tensor);
  return file;
}

Result<TrainingRun> TrainingRun::restore(const Graph& graph, const Dataset& data,
                                         const StateDict& start, ByteView saved,
                                         TrainingRunOptions options) {
  const auto header = parse_safetensors_header(saved, saved.size(), kLimits);
  if (!header) return bad_run(header.error().message);
  const auto text = header->metadata.find(std::string(kRunKey));
  if (header->metadata.size() != 1 || text == header->metadata.end()) {
    return bad_run("its metadata is not the one field \"run\"");
  }
  const auto json = parse_json(text->second, {.bytes = kMostHeaderBytes});
  if (!json) return bad_run(json.error().message);

  // What everything else depends on: the settings.
  const auto given = json->is_object() ? json->find("settings") : json->end();
  if (!json->is_object() || given == json->end()) return bad_run("the field settings is missing");
  const auto settings = local_settings_from_json(*given, "settings");
  if (!settings) return bad_run(settings.error().message);
  if (to_json(*settings) != *given) return bad_run("settings: a field is missing");

  MUSTER_TRY(TrainingRun run, make(graph, data, start, *settings, 0, std::move(options)));
  const auto tensors = run.read_json(*json);
  if (!tensors) return bad_run(tensors.error().message);

  TrainedWeights& weights = run.replica_.weights();
  const std::vector<Moment>& moments = weights.optimizer().moments();
  MUSTER_TRY(const LayoutPtr layout, layout_of_all(*graph.layout(), moments));
  const auto all = read_state(saved, layout, kLimits);
  if (!all) return bad_run(all.error().message);
  MUSTER_TRY_STATUS(take_part(*all, kWeights, weights.w()));
  for (std::size_t i = 0; i < moments.size(); ++i) {
    StateDict& moment = weights.optimizer_state().moments[i];
    MUSTER_TRY_STATUS(take_part(*all, moments[i].name, moment));
    const auto values = moment.values();
    if (moments[i].never_negative &&
        std::any_of(values.begin(), values.end(), [](float value) { return value < 0; })) {
      return bad_run(std::string(moments[i].name) + " has a negative value");
    }
  }
  if (sha256(std::as_bytes(all->values())) != *tensors) {
    return bad_run("tensors: their bytes are not those that were saved");
  }
  return run;
}

}  // namespace muster
