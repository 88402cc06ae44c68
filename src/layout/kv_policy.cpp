#include "layout/kv_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

constexpr std::int64_t kMostTokens = 1'000'000'000;
constexpr std::int64_t kMostRank = 65536;
constexpr std::int64_t kMostStateBudget = 1024;
constexpr std::string_view kHow =
    "write it like \"bf16\", \"k=f16, v=bf16\", \"f16, window=1024, sinks=4\", \"bf16, recent=64:f32\" or \"int4, "
    "0-2:int8/int4\"";

// By TokenEviction::Method.
constexpr std::array<std::string_view, 6> kMethods{"none", "fifo", "lru", "h2o", "tova", "snapkv"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<std::int64_t> number(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = wrong == std::errc{} && end == text.data() + text.size();
  return whole && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

// 1 to 100, written with a percent sign; 0: it is not.
int percent(std::string_view text) {
  if (!text.ends_with('%')) return 0;
  return static_cast<int>(number(trimmed(text.substr(0, text.size() - 1)), 1, 100).value_or(0));
}

// One setting after the other, then the whole.
class Reader {
 public:
  explicit Reader(std::string_view where) : where_(where) {}

  void read(std::string_view setting) {
    ++settings_;
    if (setting.starts_with('@'))
      fail("a policy file is for the command line's --kv", "write the policy itself here");
    const size_t colon = setting.find(':');
    if (colon != std::string_view::npos && setting.front() >= '0' && setting.front() <= '9') {
      return set_layers(trimmed(setting.substr(0, colon)), trimmed(setting.substr(colon + 1)));
    }
    const size_t equals = setting.find('=');
    if (equals != std::string_view::npos) {
      return set(trimmed(setting.substr(0, equals)), trimmed(setting.substr(equals + 1)));
    }
    const KvFormat both = format(setting);
    once(k_, "the format of K", both);
    once(v_, "the format of V", both);
  }

  KvPolicy policy() const {
    KvPolicy out;
    out.k_format = k_.value_or(out.k_format);
    out.v_format = v_.value_or(out.v_format);
    if (sinks_ && !window_ && !recent_ && !evict_) {
      fail(fmt::format("sinks={} says nothing without a window: all tokens are kept", *sinks_),
           "add window=, recent= or evict=, or leave sinks out");
    }
    check_eviction();
    if (window_ && recent_ && *recent_ >= *window_) {
      fail(fmt::format("recent={} covers the whole window of {}", *recent_, *window_),
           fmt::format("use fewer recent tokens, or the format {} alone", format_name(recent_format_)));
    }
    out.retention = {window_.value_or(0), sinks_.value_or(0)};
    out.recent = recent_.value_or(0);
    if (recent_) out.recent_format = recent_format_;
    if (evict_) out.evict = *evict_;
    if (budgets_) out.evict.budgets = TokenEviction::Budgets::kPyramid;
    if (heads_) out.evict.heads = TokenEviction::Heads::kAdaptive;
    set_layer_formats(out, layers_);
    if (channels_ && k_rank_) {
      fail("both rank= and channels= say what is kept of K", "leave one of them out, or give the rank of V alone");
    }
    out.k_rank = k_rank_.value_or(0);
    out.v_rank = v_rank_.value_or(0);
    out.channels = channels_.value_or(0) % 100;  // all of them: as if nothing had been said
    out.states = states_.value_or(out.states);
    return out;
  }

  std::optional<int> state_budget() const { return state_budget_; }
  int settings() const { return settings_; }

 private:
  [[noreturn]] void fail(const std::string& what, std::string_view fix = kHow) const {
    fail_usage(what, where_, std::string(fix));
  }
  void set(std::string_view name, std::string_view value) {
    if (name == "k") return once(k_, "the format of K", format(value));
    if (name == "v") return once(v_, "the format of V", format(value));
    if (name == "window") return once(window_, name, tokens(name, value));
    if (name == "sinks") return once(sinks_, name, tokens(name, value));
    if (name == "evict") return once(evict_, name, eviction(value));
    if (name == "budgets") return once(budgets_, name, std::string(value));
    if (name == "heads") return once(heads_, name, std::string(value));
    if (name == "rank") return set_rank(value);
    if (name == "states") return once(states_, name, state_format(value));
    if (name == "state_budget") return once(state_budget_, name, state_budget(value));
    if (name == "channels") return once(channels_, name, channels(value));
    if (name == "recent") {
      const size_t colon = value.find(':');
      if (colon == std::string_view::npos) {
        fail(fmt::format("recent={} does not say in which format", value), "write it like recent=64:f32");
      }
      once(recent_, name, tokens(name, trimmed(value.substr(0, colon))));
      recent_format_ = format(trimmed(value.substr(colon + 1)));
      return;
    }
    fail(fmt::format("there is no setting '{}' in a KV policy", name));
  }

  // FORMAT, or that of K and that of V: FORMAT/FORMAT.
  void set_layers(std::string_view layers, std::string_view formats) {
    const size_t dash = layers.find('-');
    const size_t slash = formats.find('/');
    LayerFormats one;
    one.first = layer(trimmed(layers.substr(0, dash)));
    one.last = dash == std::string_view::npos ? one.first : layer(trimmed(layers.substr(dash + 1)));
    one.k_format = format(trimmed(formats.substr(0, slash)));
    one.v_format = slash == std::string_view::npos ? one.k_format : format(trimmed(formats.substr(slash + 1)));
    if (one.last < one.first) {
      fail(fmt::format("layers {} to {} are none", one.first, one.last), "name the first one first, like 3-5:int8");
    }
    for (const LayerFormats& other : layers_) {
      if (one.first > other.last || other.first > one.last) continue;
      fail(fmt::format("the formats of layer {} are given twice", std::max(one.first, other.first)),
           "give them once");
    }
    layers_.push_back(one);
  }

  int layer(std::string_view text) const {
    const std::optional<std::int64_t> layer = number(text, 0, kMostPolicyLayers - 1);
    if (!layer) {
      fail(fmt::format("'{}' is not the number of a layer", text),
           "layers count from 0; write them like 0:int8, 3-5:int8/int4");
    }
    return static_cast<int>(*layer);
  }

  KvFormat format(std::string_view name) const {
    if (name.empty()) fail("a setting of the KV policy is empty");
    try {
      return parse_kv_format(name);
    } catch (const Error& error) {  // what it says is right; where it was said is not
      fail(error.parts().what, error.parts().fix);
    }
  }

  std::int64_t tokens(std::string_view name, std::string_view value) const {
    const std::optional<std::int64_t> tokens = number(value, 1, kMostTokens);
    if (!tokens) {
      fail(fmt::format("'{}' is not a number of tokens for {}=", value, name),
           fmt::format("use 1 to {}, or leave {} out", kMostTokens, name));
    }
    return *tokens;
  }

  TokenEviction eviction(std::string_view value) const {
    constexpr std::string_view kFix = "write it like evict=h2o:256 or evict=snapkv:25%";
    const size_t colon = value.find(':');
    const std::string_view name = trimmed(value.substr(0, colon));
    const auto method = std::find(kMethods.begin() + 1, kMethods.end(), name);
    if (method == kMethods.end()) {
      fail(fmt::format("there is no way to evict called '{}'", name), "use fifo, lru, h2o, tova or snapkv");
    }
    if (colon == std::string_view::npos) fail(fmt::format("evict={} does not say how many tokens stay", value), kFix);
    const std::string_view budget = trimmed(value.substr(colon + 1));
    TokenEviction out;
    out.method = static_cast<TokenEviction::Method>(method - kMethods.begin());
    if (!budget.ends_with('%')) {
      out.tokens = tokens("evict", budget);
      return out;
    }
    out.percent = percent(budget);
    if (out.percent == 0) fail(fmt::format("'{}' is no share of a prompt", value), "use 1% to 100%");
    return out;
  }

  void check_eviction() const {
    if (budgets_ && *budgets_ != "pyramid") {
      fail(fmt::format("there are no budgets called '{}'", *budgets_), "use budgets=pyramid, or leave it out");
    }
    if (heads_ && *heads_ != "adaptive") {
      fail(fmt::format("heads={} says nothing", *heads_), "use heads=adaptive, or leave it out");
    }
    if ((budgets_ || heads_) && !evict_) fail("budgets= and heads= say nothing without evict=", "add evict=");
    if (!evict_) return;
    if (window_ || recent_) {
      fail(fmt::format("evict= does not go with {}=", window_ ? "window" : "recent"), "leave one of them out");
    }
    if (sinks_ && evict_->tokens > 0 && *sinks_ >= evict_->tokens) {
      fail(fmt::format("sinks={} leave nothing of the {} tokens that stay", *sinks_, evict_->tokens),
           "use fewer sinks, or keep more tokens");
    }
    const bool alike =
        evict_->method == TokenEviction::Method::kFifo || evict_->method == TokenEviction::Method::kTova;
    if (heads_ && alike) {
      fail(fmt::format("{} keeps the same tokens for all heads", name_of(evict_->method)), "leave heads= out");
    }
  }

  // k:N, v:N, or both with a slash between them.
  void set_rank(std::string_view value) {
    for (std::string_view rest = value;;) {
      const size_t slash = rest.find('/');
      const std::string_view part = trimmed(rest.substr(0, slash));
      const auto rank = number(trimmed(part.substr(std::min<size_t>(part.size(), 2))), 1, kMostRank);
      const bool of_k = part.starts_with("k:");
      if (!rank || (!of_k && !part.starts_with("v:"))) {
        fail(fmt::format("rank={} does not say how many numbers a row of K or V becomes", value),
             "write it like rank=k:32/v:48, rank=k:32 or rank=v:48");
      }
      once(of_k ? k_rank_ : v_rank_, of_k ? "the rank of K" : "the rank of V", static_cast<int>(*rank));
      if (slash == std::string_view::npos) return;
      rest.remove_prefix(slash + 1);
    }
  }

  int channels(std::string_view value) const {
    const int share = percent(value);
    if (share == 0) fail(fmt::format("'{}' is no share of K's channels", value), "use channels=1% to channels=100%");
    return share;
  }

  StateFormat state_format(std::string_view name) const {
    try {
      return parse_state_format(name);
    } catch (const Error& error) {  // as of format()
      fail(error.parts().what, error.parts().fix);
    }
  }

  int state_budget(std::string_view value) const {
    const std::optional<std::int64_t> budget = number(value, 0, kMostStateBudget);
    if (!budget) {
      fail(fmt::format("'{}' is not a number of states for state_budget=", value),
           fmt::format("use 0 to {}, or leave state_budget out", kMostStateBudget));
    }
    return static_cast<int>(*budget);
  }

  template <class T>
  void once(std::optional<T>& field, std::string_view name, T value) const {
    if (field) fail(fmt::format("{} is given twice", name), "give it once");
    field = value;
  }

  std::string where_;
  std::optional<KvFormat> k_;
  std::optional<KvFormat> v_;
  std::optional<std::int64_t> window_;
  std::optional<std::int64_t> sinks_;
  std::optional<std::int64_t> recent_;
  KvFormat recent_format_ = KvFormat::kF16;
  std::optional<TokenEviction> evict_;
  std::optional<std::string> budgets_;
  std::optional<std::string> heads_;
  std::vector<LayerFormats> layers_;
  std::optional<int> k_rank_;
  std::optional<int> v_rank_;
  std::optional<int> channels_;
  std::optional<StateFormat> states_;
  std::optional<int> state_budget_;
  int settings_ = 0;
};

Reader read_settings(std::string_view text, std::string_view where) {
  Reader reader(where);
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    reader.read(trimmed(rest.substr(0, comma)));
    if (comma == std::string_view::npos) return reader;
    rest.remove_prefix(comma + 1);
  }
}

// int8, or of K and V apart int8/int4.
std::string name_of(const LayerFormats& layers) {
  const std::string k(format_name(layers.k_format));
  return layers.k_format == layers.v_format ? k : fmt::format("{}/{}", k, format_name(layers.v_format));
}

}  // namespace

std::string_view name_of(TokenEviction::Method method) { return kMethods.at(static_cast<size_t>(method)); }

void set_layer_formats(KvPolicy& policy, std::vector<LayerFormats> layers) {
  std::ranges::sort(layers, {}, &LayerFormats::first);
  policy.layers.clear();
  for (const LayerFormats& next : layers) {
    if (next.k_format == policy.k_format && next.v_format == policy.v_format) continue;
    LayerFormats* before = policy.layers.empty() ? nullptr : &policy.layers.back();
    const bool joins = before != nullptr && before->last + 1 == next.first && before->k_format == next.k_format &&
                       before->v_format == next.v_format;
    if (joins) {
      before->last = next.last;
    } else {
      policy.layers.push_back(next);
    }
  }
}

std::pair<KvFormat, KvFormat> formats_of_layer(const KvPolicy& policy, int layer) {
  for (const LayerFormats& own : policy.layers) {
    if (layer >= own.first && layer <= own.last) return {own.k_format, own.v_format};
  }
  return {policy.k_format, policy.v_format};
}

KvPolicy uniform_policy(KvFormat format) {
  KvPolicy policy;
  policy.k_format = policy.v_format = format;
  return policy;
}

KvPolicy parse_kv_policy(std::string_view text, std::string_view where) {
  const Reader reader = read_settings(text, where);
  if (reader.state_budget()) {
    fail_usage("state_budget= is a request's, and no part of a policy", std::string(where),
               "leave it out, and use --state-budget");
  }
  return reader.policy();
}

RequestedKv parse_requested_kv(std::string_view text, std::string_view where) {
  const Reader reader = read_settings(text, where);
  RequestedKv out;
  out.state_budget = reader.state_budget();
  const bool says_more = reader.settings() > static_cast<int>(out.state_budget.has_value());
  if (says_more) out.policy = reader.policy();
  return out;
}

std::string to_text(const KvPolicy& policy) {
  std::string out = policy.k_format == policy.v_format
                        ? std::string(format_name(policy.k_format))
                        : fmt::format("k={}, v={}", format_name(policy.k_format), format_name(policy.v_format));
  for (const LayerFormats& own : policy.layers) {
    out +=
        fmt::format(", {}{}:{}", own.first, own.last > own.first ? fmt::format("-{}", own.last) : "", name_of(own));
  }
  if (policy.k_rank > 0) out += fmt::format(", rank=k:{}", policy.k_rank);
  if (policy.v_rank > 0) out += fmt::format("{}v:{}", policy.k_rank > 0 ? "/" : ", rank=", policy.v_rank);
  if (policy.channels > 0) out += fmt::format(", channels={}%", policy.channels);
  if (policy.states != StateFormat::kF32) out += fmt::format(", states={}", state_format_name(policy.states));
  if (policy.recent > 0) out += fmt::format(", recent={}:{}", policy.recent, format_name(policy.recent_format));
  if (policy.retention.window > 0) out += fmt::format(", window={}", policy.retention.window);
  if (const TokenEviction& evict = policy.evict; evict.on()) {
    out += fmt::format(", evict={}:", name_of(evict.method));
    out += evict.tokens > 0 ? fmt::format("{}", evict.tokens) : fmt::format("{}%", evict.percent);
    if (evict.budgets == TokenEviction::Budgets::kPyramid) out += ", budgets=pyramid";
    if (evict.heads == TokenEviction::Heads::kAdaptive) out += ", heads=adaptive";
  }
  if (policy.retention.sinks > 0) out += fmt::format(", sinks={}", policy.retention.sinks);
  return out;
}

Retention narrowed(const Retention& own, const Retention& by) {
  if (by.full()) return own;
  if (own.full()) return by;
  return {own.window == 0 ? by.window : std::min(own.window, by.window), 0, own.chunk};
}

}  // namespace kvasir
