#include "tune/head_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "eval/policy_engine.h"
#include "eval/reader.h"
#include "eval/reference_rows.h"
#include "layout/codec.h"
#include "tune/layer_mix.h"

namespace kvasir {
namespace {

constexpr size_t kHeadsSideBySide = 12;

struct Probed {
  QuantizedHead what;
  QualitySums sums;
};

std::vector<Probed> all_heads(const ModelSpec& config, KvFormat format) {
  std::vector<Probed> out;
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    for (int part = 0; part < 2; ++part) {
      for (int head = 0; head < config.attention(layer).kv.heads; ++head)
        out.push_back({{layer, head, part, format}, {}});
    }
  }
  return out;
}

// Several heads beside one reference, chunk by chunk. Each has a cache of its own.
class SideBySide {
 public:
  SideBySide(QuantizeOneHeadBackend& backend, Model& model, std::int64_t context, std::span<Probed> heads)
      : backend_(backend), heads_(heads), reference_(backend, model, with_policy({}, kReferencePolicy), context) {
    for (size_t i = 0; i < heads.size(); ++i) {
      readers_.push_back(std::make_unique<Reader>(backend, model, with_policy({}, kReferencePolicy), context));
    }
  }

  void read(const TextWindow& window) {
    reference_.open(window.tokens, window.first_judged);
    for (auto& reader : readers_) reader->open(window.tokens, window.first_judged);
    ReferenceRows rows;
    while (true) {
      rows.clear();
      backend_.quantize(std::nullopt);
      if (!reference_.step([&](Position at, std::span<const float> row) { rows.add(at, row); })) break;
      for (size_t i = 0; i < readers_.size(); ++i) {
        backend_.quantize(heads_[i].what);
        readers_[i]->step([&](Position at, std::span<const float> row) {
          heads_[i].sums.add(compare_rows(rows.at(at), row, window.tokens[static_cast<size_t>(at)]));
        });
      }
    }
    backend_.quantize(std::nullopt);
  }

 private:
  QuantizeOneHeadBackend& backend_;
  std::span<Probed> heads_;
  Reader reference_;
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace

HeadHarm probe_heads(QuantizeOneHeadBackend& backend, Model& model, const TextWindows& windows, KvFormat format,
                     const OnMeasured& on_measured) {
  const ModelSpec& config = model.config();
  std::vector<Probed> heads = all_heads(config, format);
  const auto all = static_cast<std::int64_t>(heads.size()) * windows.count();
  std::int64_t done = 0;
  for (size_t first = 0; first < heads.size(); first += kHeadsSideBySide) {
    const std::span<Probed> some = std::span(heads).subspan(first, std::min(kHeadsSideBySide, heads.size() - first));
    SideBySide probe(backend, model, windows.cut().context, some);
    for (std::int64_t window = 0; window < windows.count(); ++window) {
      probe.read(windows.at(window));
      done += static_cast<std::int64_t>(some.size());
      if (on_measured) on_measured(done, all, fmt::format("heads of layer {}", some.front().what.layer));
    }
  }
  HeadHarm out(config.layers.size());
  for (const Probed& one : heads) {
    out[static_cast<size_t>(one.what.layer)][static_cast<size_t>(one.what.part)].push_back(one.sums.mean_kl());
  }
  return out;
}

}  // namespace kvasir
