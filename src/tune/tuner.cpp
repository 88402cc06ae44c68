#include "tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "eval/policy_engine.h"
#include "layout/codec.h"
#include "tune/pareto.h"

namespace kvasir {
namespace {

constexpr double kSlack = 1e-9;  // of a sum of bits

class Tuner {
 public:
  Tuner(PolicyEvaluator& evaluator, const Model& model, const TuneSettings& settings, const OnMeasured& on_measured)
      : evaluator_(evaluator),
        model_(model),
        config_(model.config()),
        settings_(settings),
        on_measured_(on_measured) {}

  TuneResult run() {
    check_bits();
    TuneResult result;
    for (const std::int64_t recent : settings_.recents) {
      result.sensitivity.push_back(measure_parts(recent));
      search(result.sensitivity.back(), result);
    }
    keep_best(result);
    for (const KvFormat format : settings_.formats) {
      TunedMix& one = result.uniform.emplace_back(described(uniform_mix(config_.layer_count(), format, format), 0));
      const auto plain = std::ranges::find(result.sensitivity, 0, &Sensitivity::recent);
      if (plain != result.sensitivity.end()) one.foretold = foretold(*plain, one.mix);
    }
    measure_all(result);
    result.best = best_of(result);
    return result;
  }

 private:
  void check_bits() const;
  Sensitivity measure_parts(std::int64_t recent) const;
  std::string text_of(const LayerMix& mix, std::int64_t recent) const;
  TunedMix described(LayerMix mix, std::int64_t recent) const;
  double foretold(const Sensitivity& sensitivity, const LayerMix& mix) const;
  bool fits(const TunedMix& one) const { return one.bits <= settings_.bits + kSlack; }
  void search(const Sensitivity& sensitivity, TuneResult& result) const;
  void keep_best(TuneResult& result) const;
  void measure_all(TuneResult& result) const;
  TunedMix best_of(const TuneResult& result) const;

  PolicyEvaluator& evaluator_;
  const Model& model_;
  const ModelSpec& config_;
  const TuneSettings& settings_;
  const OnMeasured& on_measured_;
};

void Tuner::check_bits() const {
  double least = 1e9;
  for (const KvFormat format : settings_.formats) {
    least = std::min(least, described(uniform_mix(config_.layer_count(), format, format), 0).bits);
  }
  if (settings_.bits + kSlack >= least) return;
  fail_usage(
      fmt::format("the smallest of these formats has {:.3g} bits, and {:.3g} are wanted", least, settings_.bits),
      "--bits", fmt::format("use {:.3g} or more, or other --formats", least));
}

std::string Tuner::text_of(const LayerMix& mix, std::int64_t recent) const {
  const auto finest = [this](const auto& formats) {
    return formats[0] == settings_.recent_format && formats[1] == settings_.recent_format;
  };
  KvPolicy others;
  others.recent = std::ranges::all_of(mix, finest) ? 0 : recent;
  if (others.recent > 0) others.recent_format = settings_.recent_format;
  return to_text(policy_of(mix, others));
}

// Every part in every format, all others in f32.
Sensitivity Tuner::measure_parts(std::int64_t recent) const {
  const LayerMix plain = uniform_mix(config_.layer_count(), KvFormat::kF32, KvFormat::kF32);
  const auto alone = [&](size_t layer, size_t part, KvFormat format) {
    LayerMix mix = plain;
    mix[layer][part] = format;
    return text_of(mix, recent);
  };
  std::vector<std::string> policies{text_of(plain, recent)};
  for (size_t layer = 0; layer < plain.size(); ++layer) {
    for (size_t part = 0; part < 2; ++part) {
      for (const KvFormat format : settings_.formats) policies.push_back(alone(layer, part, format));
    }
  }
  evaluator_.measure(policies, [&](std::int64_t done, std::int64_t all, const std::string&) {
    if (on_measured_) on_measured_(done, all, fmt::format("each layer alone, {} recent", recent));
  });
  Sensitivity out{recent, evaluator_.of(policies.front()).mean_kl(), LayerHarm(plain.size())};
  for (size_t layer = 0; layer < plain.size(); ++layer) {
    for (size_t part = 0; part < 2; ++part) {
      for (const KvFormat format : settings_.formats) {
        const double kl = evaluator_.of(alone(layer, part, format)).mean_kl();
        out.harm[layer][part].push_back(std::max(0.0, kl - out.base));
      }
    }
  }
  return out;
}

TunedMix Tuner::described(LayerMix mix, std::int64_t recent) const {
  TunedMix out;
  out.policy = text_of(mix, recent);
  const std::int64_t tokens = evaluator_.windows().cut().context;
  const std::int64_t bytes = cache_bytes(model_, with_policy({}, out.policy), tokens);
  out.bytes_per_token = static_cast<double>(bytes) / static_cast<double>(tokens);
  out.bits = bits_of_bytes(config_, out.bytes_per_token);
  out.mix = std::move(mix);
  return out;
}

double Tuner::foretold(const Sensitivity& sensitivity, const LayerMix& mix) const {
  double sum = sensitivity.base;
  for (size_t layer = 0; layer < mix.size(); ++layer) {
    for (size_t part = 0; part < 2; ++part) {
      const auto format = std::ranges::find(settings_.formats, mix[layer][part]) - settings_.formats.begin();
      sum += sensitivity.harm[layer][part][static_cast<size_t>(format)];
    }
  }
  return sum;
}

// The best mixes of each size, and those of them that fit. Parts are in the order K of layer 0, V of layer 0, K of
// layer 1 …
void Tuner::search(const Sensitivity& sensitivity, TuneResult& result) const {
  std::vector<std::vector<PartChoice>> parts;
  for (const auto& layer : sensitivity.harm) {
    for (size_t part = 0; part < 2; ++part) {
      std::vector<PartChoice>& choices = parts.emplace_back();
      for (size_t i = 0; i < settings_.formats.size(); ++i) {
        choices.push_back({part_bytes(config_, static_cast<int>(part), settings_.formats[i]), layer[part][i]});
      }
    }
  }
  const auto described_by = [&](const Selection& selection) {
    LayerMix mix(sensitivity.harm.size());
    for (size_t i = 0; i < selection.choices.size(); ++i) mix[i / 2][i % 2] = settings_.formats[selection.choices[i]];
    TunedMix one = described(std::move(mix), sensitivity.recent);
    one.foretold = foretold(sensitivity, one.mix);
    return one;
  };
  const std::vector<Selection> best = best_selections(parts, settings_.candidates);
  for (const Selection& selection : pareto_front(best)) result.front.push_back(described_by(selection));
  for (const Selection& selection : best) {
    TunedMix one = described_by(selection);
    if (fits(one)) result.candidates.push_back(std::move(one));
  }
}

// Of all numbers of recent tokens.
void Tuner::keep_best(TuneResult& result) const {
  std::ranges::stable_sort(result.candidates, {}, &TunedMix::foretold);
  if (std::ssize(result.candidates) > settings_.candidates) {
    result.candidates.resize(static_cast<size_t>(settings_.candidates));
  }
  std::ranges::stable_sort(result.front, {},
                           [](const TunedMix& one) { return std::pair(one.bytes_per_token, one.foretold); });
  double least = 1e9;
  std::erase_if(result.front, [&least](const TunedMix& one) {
    if (one.foretold >= least) return true;
    least = one.foretold;
    return false;
  });
}

void Tuner::measure_all(TuneResult& result) const {
  std::vector<std::string> policies;
  for (const auto* list : {&result.uniform, &result.candidates}) {
    for (const TunedMix& one : *list) policies.push_back(one.policy);
  }
  const size_t points = std::min(result.front.size(), static_cast<size_t>(std::max(settings_.front_points, 2)));
  for (size_t i = 0; i < points && points > 1; ++i) {
    policies.push_back(result.front[i * (result.front.size() - 1) / (points - 1)].policy);
  }
  evaluator_.measure(policies, [this](std::int64_t done, std::int64_t all, const std::string&) {
    if (on_measured_) on_measured_(done, all, "mixes");
  });
  for (auto* list : {&result.uniform, &result.candidates, &result.front}) {
    for (TunedMix& one : *list) {
      if (std::ranges::find(policies, one.policy) != policies.end()) one.measured = evaluator_.of(one.policy);
    }
  }
}

bool no_worse(const QualitySums& a, const QualitySums& b) {
  return a.kl <= b.kl && a.surprise <= b.surprise && a.same_top >= b.same_top && a.kl_99() <= b.kl_99();
}

// The least divergence among those that are no worse than a uniform format that fits, whatever is counted.
TunedMix Tuner::best_of(const TuneResult& result) const {
  std::vector<TunedMix> all = result.candidates;
  std::ranges::copy_if(result.uniform, std::back_inserter(all), [this](const TunedMix& one) { return fits(one); });
  std::optional<TunedMix> best;
  const auto take = [&](const TunedMix& one) {
    const bool never_worse = std::ranges::all_of(result.uniform, [&](const TunedMix& uniform) {
      return uniform.policy == one.policy || !fits(uniform) || no_worse(*one.measured, *uniform.measured);
    });
    if (never_worse && (!best || one.measured->kl < best->measured->kl)) best = one;
  };
  for (const TunedMix& one : all) take(one);
  if (best) return *best;
  return *std::ranges::min_element(all, {}, [](const TunedMix& one) { return one.measured->kl; });
}

}  // namespace

TuneResult tune_layers(PolicyEvaluator& evaluator, const Model& model, const TuneSettings& settings,
                       const OnMeasured& on_measured) {
  return Tuner(evaluator, model, settings, on_measured).run();
}

}  // namespace kvasir
