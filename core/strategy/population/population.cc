#include "core/strategy/population/population.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace muster {
namespace {

bool failed(const Member& member) {
  return !member.failure.empty() || std::isnan(member.score) ||
         member.score == -std::numeric_limits<double>::infinity();
}

// Each member has streams of its own, so that what one draws moves nobody else.
Random stream(std::uint64_t seed, std::string_view purpose, const Member& member) {
  return Random(derive_seed(seed, {purpose, fmt::format("{}", member.id)}));
}

const Member& pick(const std::vector<const Member*>& members, Random random) {
  return *members[random.below(members.size())];
}

// The best first; failed ones last; ties go to the lower id.
std::vector<const Member*> ranked(const std::vector<Member>& members) {
  std::vector<const Member*> ranking;
  for (const Member& member : members) ranking.push_back(&member);
  std::sort(ranking.begin(), ranking.end(), [](const Member* a, const Member* b) {
    if (failed(*a) != failed(*b)) return failed(*b);
    if (!failed(*a) && a->score != b->score) return a->score > b->score;
    return a->id < b->id;
  });
  return ranking;
}

// How many are the worst share, and the best: at least one of two or more members. A product just
// below an integer (0.29 * 100) is that integer.
std::size_t size_of_share(double fraction, std::size_t members) {
  const double share = std::floor(fraction * static_cast<double>(members) + 1e-9);
  return std::clamp<std::size_t>(static_cast<std::size_t>(share),
                                 std::min<std::size_t>(1, members / 2), members / 2);
}

// Who each member goes on from, in the order of the members.
std::vector<const Member*> parents_by_truncation(const std::vector<Member>& members,
                                                 const ExploitSettings& exploit,
                                                 std::uint64_t seed) {
  std::vector<const Member*> ranking = ranked(members);
  const std::size_t share = size_of_share(exploit.fraction, members.size());
  const std::vector<const Member*> worst(ranking.end() - static_cast<std::ptrdiff_t>(share),
                                         ranking.end());
  std::vector<const Member*> best(ranking.begin(),
                                  ranking.begin() + static_cast<std::ptrdiff_t>(share));
  std::erase_if(best, [](const Member* member) { return failed(*member); });
  std::vector<const Member*> parents;
  for (const Member& member : members) {
    const bool copies =
        failed(member) || std::find(worst.begin(), worst.end(), &member) != worst.end();
    parents.push_back(copies ? &pick(best, stream(seed, "exploit", member)) : &member);
  }
  return parents;
}

std::vector<const Member*> parents_by_comparing(const std::vector<Member>& members,
                                                const ExploitSettings& exploit,
                                                std::uint64_t seed) {
  std::vector<const Member*> parents;
  for (const Member& member : members) {
    std::vector<const Member*> others;
    for (const Member& other : members) {
      if (&other == &member || (failed(member) && failed(other))) continue;
      others.push_back(&other);
    }
    if (others.empty()) {
      parents.push_back(&member);
      continue;
    }
    const Member& other = pick(others, stream(seed, "exploit", member));
    const bool better = !failed(other) && other.score - member.score > exploit.threshold;
    parents.push_back(failed(member) || better ? &other : &member);
  }
  return parents;
}

Error all_failed(const std::vector<Member>& members) {
  std::string first = "there is no member";
  if (!members.empty()) {
    const Member& member = members.front();
    first = fmt::format(
        "member {}: {}", member.id,
        member.failure.empty() ? fmt::format("its score is {}", member.score) : member.failure);
  }
  return {ErrorCode::kFailedPrecondition,
          fmt::format("all {} members of the population failed; the first one: {}", members.size(),
                      first),
          "all_failed"};
}

Explore explore_by(const SearchSpace& space, const ExploreSettings& settings) {
  if (settings.method == ExploreSettings::Method::kResample) {
    return [&space](const Hyperparameters&, Random& random) { return sample(space, random); };
  }
  return [&space, settings](const Hyperparameters& values, Random& random) {
    Hyperparameters next = values;
    for (auto& [path, value] : next) {
      const auto found = space.find(path);
      if (found != space.end()) value = perturb(found->second, value, settings.factor, random);
    }
    return next;
  };
}

// The ends of a JsonNumberRange belong to it; this takes the lower one out.
double over(JsonObject& object, std::string_view key, double value, double bound) {
  if (object.ok() && value <= bound) {
    object.fail(key, fmt::format("{} found, a number over {} is wanted", value, bound));
  }
  return value;
}

}  // namespace

Result<ExploitSettings> exploit_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  ExploitSettings settings;
  const std::string method = object.choice("method", {"Truncation", "Binary"});
  if (method == "Truncation") {
    settings.fraction =
        over(object, "fraction", object.number("fraction", settings.fraction, {0, 0.5}), 0);
  } else if (method == "Binary") {
    settings.method = ExploitSettings::Method::kBinary;
    settings.threshold = object.number("threshold", settings.threshold, {0, 1e30});
  }
  settings.copy_hyperparameters =
      object.boolean("copy_hyperparameters", settings.copy_hyperparameters);
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Json to_json(const ExploitSettings& settings) {
  Json json = Json::object();
  if (settings.method == ExploitSettings::Method::kTruncation) {
    json = {{"method", "Truncation"}, {"fraction", settings.fraction}};
  } else {
    json = {{"method", "Binary"}, {"threshold", settings.threshold}};
  }
  json["copy_hyperparameters"] = settings.copy_hyperparameters;
  return json;
}

Result<ExploreSettings> explore_from_json(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  ExploreSettings settings;
  const std::string method = object.choice("method", {"Perturbation", "Resample"});
  if (method == "Perturbation") {
    settings.factor = over(object, "factor", object.number("factor", settings.factor, {1, 100}), 1);
  } else if (method == "Resample") {
    settings.method = ExploreSettings::Method::kResample;
  }
  MUSTER_TRY_STATUS(object.finish());
  return settings;
}

Json to_json(const ExploreSettings& settings) {
  if (settings.method == ExploreSettings::Method::kResample) return {{"method", "Resample"}};
  return {{"method", "Perturbation"}, {"factor", settings.factor}};
}

Result<std::vector<Succession>> next_generation(const std::vector<Member>& members,
                                                const ExploitSettings& exploit,
                                                const Explore& explore, Explorers explorers,
                                                std::uint64_t seed) {
  if (std::all_of(members.begin(), members.end(), failed)) return all_failed(members);
  const std::vector<const Member*> parents = exploit.method == ExploitSettings::Method::kTruncation
                                                 ? parents_by_truncation(members, exploit, seed)
                                                 : parents_by_comparing(members, exploit, seed);
  std::vector<Succession> next;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    const bool copied = parents[i] != &member;
    Succession succession{
        .member = member.id,
        .parent = parents[i]->id,
        .hyperparameters = (exploit.copy_hyperparameters ? *parents[i] : member).hyperparameters};
    if (copied || explorers == Explorers::kAll) {
      Random random = stream(seed, "explore", member);
      succession.hyperparameters = explore(succession.hyperparameters, random);
    }
    next.push_back(std::move(succession));
  }
  return next;
}

Result<std::vector<Succession>> next_generation(const std::vector<Member>& members,
                                                const SearchSpace& space,
                                                const ExploitSettings& exploit,
                                                const ExploreSettings& explore,
                                                std::uint64_t seed) {
  return next_generation(members, exploit, explore_by(space, explore), Explorers::kThoseThatCopied,
                         seed);
}

std::vector<LineageEntry> ancestry(const std::vector<LineageEntry>& all, std::int64_t generation,
                                   std::int64_t member) {
  std::map<std::pair<std::int64_t, std::int64_t>, const LineageEntry*> entries;
  for (const LineageEntry& entry : all) entries[{entry.generation, entry.member}] = &entry;
  std::vector<LineageEntry> line;
  for (auto at = entries.find({generation, member}); at != entries.end();
       at = entries.find({at->second->generation - 1, at->second->parent})) {
    line.push_back(*at->second);
  }
  std::reverse(line.begin(), line.end());
  return line;
}

}  // namespace muster
