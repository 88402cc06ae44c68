#include "text/decoder.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/byte_level.h"
#include "text/pieces.h"

namespace kvasir {
namespace {

using Place = Decoder::Place;
using Kind = Decoder::Kind;

bool is_first(Place place) { return place == Place::kFirst || place == Place::kOnly; }
bool is_last(Place place) { return place == Place::kLast || place == Place::kOnly; }

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty() || text.find(from) == std::string::npos) return;
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  out.append(text, done);
  text = std::move(out);
}

// English as BERT's library writes it, rule by rule.
void clean_up(std::string& text) {
  static constexpr std::array<std::array<std::string_view, 2>, 11> kRules{{{" .", "."},
                                                                           {" ?", "?"},
                                                                           {" !", "!"},
                                                                           {" ,", ","},
                                                                           {" ' ", "'"},
                                                                           {" n't", "n't"},
                                                                           {" 'm", "'m"},
                                                                           {" do not", " don't"},
                                                                           {" 's", "'s"},
                                                                           {" 've", "'ve"},
                                                                           {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

struct OneToken {
  std::string& text;
  Kind kind;
  Place place;

  // An added token is its own text, not spelled: its marks are no spaces, and a template finds it as it is.
  void operator()(const ByteLevelDecode&) const {
    if (kind == Kind::kAdded) return;
    if (auto bytes = unspell_bytes(text)) text = std::move(*bytes);
  }
  void operator()(const ByteFallbackDecode&) const {
    if (kind == Kind::kAdded) return;
    if (const auto byte = byte_of_piece(text)) text.assign(1, static_cast<char>(*byte));
  }
  void operator()(const FuseDecode&) const {}
  void operator()(const JoinDecode&) const {
    if (!is_first(place)) text.insert(0, 1, ' ');
  }
  void operator()(const WordPieceDecode& step) const {
    if (!is_first(place)) {
      if (text.starts_with(step.prefix)) {
        text.erase(0, step.prefix.size());
      } else {
        text.insert(0, 1, ' ');
      }
    }
    if (step.cleanup) clean_up(text);
  }
  void operator()(const MetaspaceDecode& step) const {
    replace_all(text, step.mark, is_first(place) && step.first_has_none ? "" : " ");
  }
  void operator()(const SuffixDecode& step) const { replace_all(text, step.suffix, is_last(place) ? "" : " "); }
  void operator()(const CtcDecode& step) const {
    replace_all(text, step.pad, "");
    if (!step.cleanup) return;
    clean_up(text);
    replace_all(text, step.delimiter, " ");
  }
  void operator()(const StripDecode& step) const {
    std::string_view rest = text;
    for (int i = 0; i < step.start && rest.starts_with(step.content); ++i) rest.remove_prefix(step.content.size());
    for (int i = 0; i < step.stop && rest.ends_with(step.content); ++i) rest.remove_suffix(step.content.size());
    text = std::string(rest);
  }
  void operator()(const ReplaceDecode& step) const {
    if (const auto* literal = std::get_if<std::string>(&step.pattern)) {
      if (kind == Kind::kAdded && *literal == kSpaceMark) return;
      return replace_all(text, *literal, step.content);
    }
    std::string out;
    size_t done = 0;
    for (const TextRange& match : std::get<Regex>(step.pattern).matches(text)) {
      out.append(text, done, match.begin - done).append(step.content);
      done = match.end;
    }
    text = out.append(text, done);
  }
};

template <class Step>
bool has(const std::vector<DecodeStep>& steps) {
  return std::ranges::any_of(steps, [](const DecodeStep& step) { return std::holds_alternative<Step>(step); });
}

}  // namespace

Decoder::Decoder(std::vector<DecodeStep> steps) {
  bool fused = false;
  for (DecodeStep& step : steps) {
    const bool on_text = std::holds_alternative<StripDecode>(step) || std::holds_alternative<ReplaceDecode>(step);
    CHECK(!fused || on_text || std::holds_alternative<FuseDecode>(step));
    const bool fuses = std::holds_alternative<FuseDecode>(step) || std::holds_alternative<ByteLevelDecode>(step);
    if (!fuses || !fused) (fused ? on_text_ : on_tokens_).push_back(std::move(step));
    fused |= fuses;
  }
  minds_first_ = has<JoinDecode>(on_tokens_) || has<WordPieceDecode>(on_tokens_);
  for (const DecodeStep& step : on_tokens_) {
    const auto* metaspace = std::get_if<MetaspaceDecode>(&step);
    minds_first_ |= metaspace != nullptr && metaspace->first_has_none;
  }
  minds_last_ = has<SuffixDecode>(on_tokens_);
  drops_repeats_ = has<CtcDecode>(on_tokens_);
}

std::string Decoder::text_of(std::string_view token, Kind kind, Place place) const {
  std::string text(token);
  for (const DecodeStep& step : on_tokens_) std::visit(OneToken{text, kind, place}, step);
  return text;
}

TextStream::TextStream(const Decoder& decoder, Begins begins)
    : decoder_(&decoder), states_(decoder.on_text().size()) {
  for (size_t i = 0; i < states_.size(); ++i) {
    const auto* strip = std::get_if<StripDecode>(&decoder.on_text()[i]);
    if (strip != nullptr && begins == Begins::kHere) states_[i].to_drop = strip->start;
  }
}

std::string TextStream::run(std::string text, size_t first_step) {
  for (size_t i = first_step; i < states_.size(); ++i) {
    const DecodeStep& step = decoder_->on_text()[i];
    if (const auto* stripped = std::get_if<StripDecode>(&step)) {
      text = strip(*stripped, states_[i], text);
    } else {
      text = replace(std::get<ReplaceDecode>(step), states_[i], text);
    }
  }
  return text;
}

// What could still be taken away at the end is held back.
std::string TextStream::strip(const StripDecode& step, State& state, std::string_view text) {
  std::string& held = state.held;
  held += text;
  while (state.to_drop > 0 && !held.empty()) {
    if (held.starts_with(step.content)) {
      held.erase(0, step.content.size());
      --state.to_drop;
    } else if (std::string_view(step.content).starts_with(held)) {
      return {};  // the beginning of one, perhaps
    } else {
      state.to_drop = 0;
    }
  }
  const size_t keep = std::min(held.size(), static_cast<size_t>(step.stop) * step.content.size());
  std::string out = held.substr(0, held.size() - keep);
  held.erase(0, out.size());
  return out;
}

std::string TextStream::replace(const ReplaceDecode& step, State& state, std::string_view text) {
  const std::string& pattern = std::get<std::string>(step.pattern);
  std::string& held = state.held;
  held += text;
  std::string out;
  size_t done = 0;
  for (size_t at = held.find(pattern); at != std::string::npos; at = held.find(pattern, done)) {
    out.append(held, done, at - done).append(step.content);
    done = at + pattern.size();
  }
  const size_t keep = std::min(held.size() - done, pattern.size() - 1);
  out.append(held, done, held.size() - keep - done);
  held.erase(0, held.size() - keep);
  return out;
}

std::string TextStream::finish() {
  std::string out;
  for (size_t i = 0; i < states_.size(); ++i) {
    std::string rest = std::move(states_[i].held);
    states_[i].held.clear();
    if (const auto* strip = std::get_if<StripDecode>(&decoder_->on_text()[i])) {
      for (int k = 0; k < strip->stop && rest.ends_with(strip->content); ++k)
        rest.erase(rest.size() - strip->content.size());
    }
    out += run(std::move(rest), i + 1);
  }
  return out;
}

}  // namespace kvasir
