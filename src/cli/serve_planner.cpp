#include "cli/serve_planner.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/model_options.h"
#include "cli/plan_command.h"
#include "layout/codec.h"
#include "model/known_models.h"
#include "plan/gpus.h"

namespace kvasir {
namespace {

// The shape of the model that is served, read when somebody asks for the first time.
class ServedShape {
 public:
  ServedShape(std::string model, std::string name) : model_(std::move(model)), name_(std::move(name)) {}

  NamedShape get() {
    const std::lock_guard lock(mutex_);
    if (!shape_) {
      shape_ = resolve_shape(find_model(model_).string());
      shape_->name = name_;
    }
    return *shape_;
  }

 private:
  std::string model_;
  std::string name_;
  std::mutex mutex_;
  std::optional<NamedShape> shape_;  // under mutex_
};

// Only a known name: what a client writes is never opened as a file.
NamedShape known_shape(const std::string& name) {
  const auto& known = known_models();
  const auto found = std::ranges::find(known, name, &NamedShape::name);
  if (found == known.end()) fail_usage("'" + name + "' is not a known model", "model", "see GET /kvasir/plan");
  return *found;
}

std::string choices_as_json() {
  auto models = nlohmann::ordered_json::array();
  for (const NamedShape& known : known_models()) models.push_back(known.name);
  auto gpus = nlohmann::ordered_json::array();
  for (const GpuSpec& gpu : known_gpus()) gpus.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}});
  auto weights = nlohmann::ordered_json::array();
  for (const WeightType& type : kWeightTypes) weights.push_back(type.name);
  auto kv = nlohmann::ordered_json::array();
  for (const KvFormat format : kAllKvFormats) kv.push_back(format_name(format));
  return nlohmann::ordered_json{{"models", models}, {"gpus", gpus}, {"weights_dtypes", weights}, {"kv", kv}}.dump();
}

}  // namespace

Planner make_planner(const std::string& model, const std::string& name, const std::string& kv) {
  const auto served = std::make_shared<ServedShape>(model, name);
  Planner planner;
  planner.choices = choices_as_json;
  planner.plan = [served, kv](const PlanQuestion& asked) {
    PlanOptions options;
    options.context = asked.context;
    options.users = asked.users;
    options.kv = asked.kv.empty() ? kv : asked.kv;
    options.weights_dtype = asked.weights_dtype;
    options.memory = asked.memory;
    options.gpu = asked.gpu;
    options.reserve = asked.reserve;
    if (asked.block_tokens > 0) options.block_tokens = asked.block_tokens;
    return plan_as_json(make_plan_report(asked.model.empty() ? served->get() : known_shape(asked.model), options));
  };
  return planner;
}

}  // namespace kvasir
