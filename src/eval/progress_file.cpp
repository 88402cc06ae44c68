#include "eval/progress_file.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/private_file.h"

namespace kvasir {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kLargestFile = std::size_t{256} << 20;

nlohmann::json to_json(const PolicyProgress& progress) {
  const QualitySums& quality = progress.quality;
  return {{"windows", progress.windows},
          {"rows_expected", quality.rows_expected},
          {"rows", quality.rows},
          {"surprise", quality.surprise},
          {"kl", quality.kl},
          {"same_top", quality.same_top},
          {"largest", quality.largest},
          {"needles", progress.needles},
          {"found", progress.found}};
}

PolicyProgress from_json(const nlohmann::json& json) {
  PolicyProgress progress;
  json.at("windows").get_to(progress.windows);
  json.at("rows_expected").get_to(progress.quality.rows_expected);
  json.at("rows").get_to(progress.quality.rows);
  json.at("surprise").get_to(progress.quality.surprise);
  json.at("kl").get_to(progress.quality.kl);
  json.at("same_top").get_to(progress.quality.same_top);
  json.at("largest").get_to(progress.quality.largest);
  json.at("needles").get_to(progress.needles);
  json.at("found").get_to(progress.found);
  return progress;
}

}  // namespace

KeptProgress read_progress(const std::filesystem::path& path, const std::string& identity) {
  KeptProgress kept{identity, {}};
  if (!std::filesystem::exists(path)) return kept;
  const char* fix = "give --resume another file, or remove this one to begin again";
  try {
    const nlohmann::json json = nlohmann::json::parse(read_small_file(path, kLargestFile));
    if (json.at("kvasir_eval") != kVersion) fail_input("it was written by another version", path.string(), fix);
    if (json.at("identity") != identity) {
      fail_input("it was made with another model, text, device or settings", path.string(), fix);
    }
    for (const auto& [policy, progress] : json.at("policies").items()) kept.policies[policy] = from_json(progress);
  } catch (const nlohmann::json::exception&) {
    fail_input("it is not what an evaluation wrote", path.string(), fix);
  }
  return kept;
}

void write_progress(const std::filesystem::path& path, const KeptProgress& progress) {
  nlohmann::json policies = nlohmann::json::object();
  for (const auto& [policy, one] : progress.policies) policies[policy] = to_json(one);
  const nlohmann::json json{{"kvasir_eval", kVersion}, {"identity", progress.identity}, {"policies", policies}};
  replace_private_file(path, json.dump() + "\n");
}

}  // namespace kvasir
