#include "eval/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "eval/policy_engine.h"
#include "eval/progress_file.h"
#include "eval/reference_rows.h"

namespace kvasir {
Evaluation::Evaluation(Backend& backend, Model& model, const Tokenizer& tokenizer, EvalPlan plan,
                       const EngineConfig& base)
    : backend_(backend), model_(model), tokenizer_(tokenizer), plan_(std::move(plan)) {
  CHECK(!plan_.policies.empty() && plan_.policies.front() == kReferencePolicy);
  const std::int64_t judged = plan_.windows.judged();
  for (const std::string& policy : plan_.policies) {
    configs_.push_back(with_policy(base, policy));
    PolicyProgress& progress = progress_.emplace_back();
    progress.quality.rows_expected = judged;
    if (plan_.needles) progress.found.resize(static_cast<size_t>(plan_.needles->depths));
  }
  readers_.resize(plan_.policies.size());
  if (plan_.resume) load();
}

Reader& Evaluation::reader(size_t policy) {
  std::unique_ptr<Reader>& reader = readers_[policy];
  if (!reader) {
    const std::int64_t needle = plan_.needles ? plan_.needles->context : 0;
    const std::int64_t longest = std::max(plan_.windows.cut().context, needle);
    reader = std::make_unique<Reader>(backend_, model_, configs_[policy], longest);
  }
  return *reader;
}

void Evaluation::run(const OnProgress& on_progress) {
  for (std::int64_t window = 0; window < plan_.windows.count(); ++window) {
    const auto done = [&](const PolicyProgress& progress) { return progress.windows > window; };
    if (std::ranges::all_of(progress_, done)) continue;
    read_window(window);
    save();
    tell(on_progress, "text");
  }
  if (!plan_.needles) return;
  for (size_t policy = 0; policy < plan_.policies.size(); ++policy) seek_needles(policy, on_progress);
}

// The reference reads a chunk, then each policy that has not read this window yet reads it.
void Evaluation::read_window(std::int64_t index) {
  const TextWindow window = plan_.windows.at(index);
  std::vector<size_t> judged;
  for (size_t policy = 0; policy < progress_.size(); ++policy) {
    if (progress_[policy].windows == index) judged.push_back(policy);
    if (progress_[policy].windows != index && policy != 0) continue;
    reader(policy).open(window.tokens, window.first_judged);
  }
  ReferenceRows chunk;
  const auto keep = [&](Position position, std::span<const float> row) { chunk.add(position, row); };
  while (true) {
    chunk.clear();
    if (!reader(0).step(keep)) break;
    for (const size_t policy : judged) {
      QualitySums& quality = progress_[policy].quality;
      const auto judge = [&](Position position, std::span<const float> row) {
        quality.add(compare_rows(chunk.at(position), row, window.tokens[static_cast<size_t>(position)]));
      };
      if (policy != 0) {  // one that evicts tokens takes smaller steps
        while (reader(policy).read() < reader(0).read()) reader(policy).step(judge);
        continue;
      }
      for (size_t i = 0; i < chunk.size(); ++i) {
        const Position position = chunk.first() + static_cast<Position>(i);
        judge(position, chunk.at(position));
      }
    }
  }
  for (const size_t policy : judged) ++progress_[policy].windows;
}

void Evaluation::seek_needles(size_t policy, const OnProgress& on_progress) {
  PolicyProgress& progress = progress_[policy];
  for (; progress.needles < plan_.needles->all_cases();) {
    const NeedleCase one = make_needle_case(tokenizer_, *plan_.needles, progress.needles);
    const auto depth = static_cast<size_t>(progress.needles % plan_.needles->depths);
    progress.found[depth] += finds_needle(reader(policy), one) ? 1 : 0;
    ++progress.needles;
    save();
    tell(on_progress, "needles, " + plan_.policies[policy]);
  }
}

void Evaluation::tell(const OnProgress& on_progress, const std::string& what) const {
  if (!on_progress) return;
  std::int64_t done = 0;
  for (const PolicyProgress& progress : progress_) done += progress.windows + progress.needles;
  const std::int64_t each = plan_.windows.count() + (plan_.needles ? plan_.needles->all_cases() : 0);
  on_progress(done, each * static_cast<std::int64_t>(progress_.size()), what);
}

// Everything that decides the numbers, but the policies.
std::string Evaluation::identity() const {
  const TextWindows::Cut& cut = plan_.windows.cut();
  const Key256 text = chain_hash({}, chain_hash({}, {}, cut.opening), plan_.windows.text());
  std::string needles = "no needles";
  if (const auto& plan = plan_.needles) {
    needles = fmt::format("needles {} {} {} {}", plan->context, plan->depths, plan->cases, plan->candidates);
  }
  return fmt::format("model {}, {}, text {}, windows {} {}, {}", model_.fingerprint().hex(),
                     backend_.kernel_version(), text.hex(), cut.context, cut.stride, needles);
}

void Evaluation::load() {
  kept_ = read_progress(*plan_.resume, identity());
  for (size_t policy = 0; policy < plan_.policies.size(); ++policy) {
    const auto found = kept_.policies.find(plan_.policies[policy]);
    if (found != kept_.policies.end()) progress_[policy] = found->second;
  }
}

void Evaluation::save() {
  if (!plan_.resume) return;
  for (size_t policy = 0; policy < plan_.policies.size(); ++policy) {
    kept_.policies[plan_.policies[policy]] = progress_[policy];
  }
  write_progress(*plan_.resume, kept_);
}

}  // namespace kvasir
