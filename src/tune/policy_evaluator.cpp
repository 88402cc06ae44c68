#include "tune/policy_evaluator.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "eval/policy_engine.h"

namespace kvasir {

PolicyEvaluator::PolicyEvaluator(Backend& backend, Model& model, const Tokenizer& tokenizer, TextWindows windows,
                                 std::optional<std::filesystem::path> resume)
    : backend_(backend),
      model_(model),
      tokenizer_(tokenizer),
      windows_(std::move(windows)),
      resume_(std::move(resume)) {}

void PolicyEvaluator::measure(const std::vector<std::string>& policies, const OnMeasured& on_measured) {
  std::vector<std::string> unknown;
  for (const std::string& policy : policies) {
    const bool listed = std::ranges::find(unknown, policy) != unknown.end();
    if (!listed && !known_.contains(policy) && policy != kReferencePolicy) unknown.push_back(policy);
  }
  const auto all = static_cast<std::int64_t>(unknown.size()) * windows_.count();
  std::int64_t before = 0;
  for (size_t first = 0; first < unknown.size(); first += kSideBySide) {
    const size_t count = std::min(kSideBySide, unknown.size() - first);
    const auto begin = unknown.begin() + static_cast<std::ptrdiff_t>(first);
    EvalPlan plan{windows_, with_reference({begin, begin + static_cast<std::ptrdiff_t>(count)}), std::nullopt,
                  resume_};
    Evaluation evaluation(backend_, model_, tokenizer_, std::move(plan), {});
    const auto share = static_cast<std::int64_t>(count);
    evaluation.run([&](std::int64_t done, std::int64_t, const std::string&) {
      if (on_measured) on_measured(before + done * share / (share + 1), all, *begin);
    });
    before += share * windows_.count();
    for (size_t i = 0; i < evaluation.plan().policies.size(); ++i) {
      known_[evaluation.plan().policies[i]] = evaluation.progress()[i].quality;
    }
  }
}

const QualitySums& PolicyEvaluator::of(const std::string& policy) const {
  const auto found = known_.find(policy);
  CHECK(found != known_.end());
  return found->second;
}

}  // namespace kvasir
