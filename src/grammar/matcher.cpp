#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace kvasir::grammar {
namespace {

constexpr std::size_t kMaxPlaces = 1024;

void check_count(const Places& places) {
  if (places.size() <= kMaxPlaces) return;
  throw Error(Error::Kind::kCapacity, {"the answer follows too many alternatives of its schema at once", "schema",
                                       "use fewer or more distinct alternatives"});
}

void sort_unique(Places& places) {
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
}

}  // namespace

void Stepper::start(RuleId rule, Places& out) {
  out.assign(1, Place{grammar_.start_of(rule), kBottom});
  close(out);
}

bool Stepper::step(const Places& in, std::uint8_t byte, Places& out) {
  if (!follow(in, byte, out)) return false;
  if (!grammar_.has_sets() || !sets_.is_bound() || has_way(out)) return true;
  out.clear();
  return false;
}

// One step, whether or not the open sets have every element that may be there after it.
bool Stepper::follow(const Places& in, std::uint8_t byte, Places& out) {
  out.clear();
  bool plain = true;  // no returns and no calls to follow
  for (const Place& place : in) {
    const StateId target = grammar_.next(place.state, byte);
    if (target == kNoState) continue;
    out.push_back({target, place.stack});
    plain = plain && !grammar_.is_final(target) && grammar_.calls_of(target).empty();
  }
  if (out.empty()) return false;
  if (grammar_.has_sets()) sets_.push(byte);
  if (out.size() == 1 && plain) return true;
  close(out);
  return !out.empty();
}

// Adds what can be reached without a byte.
void Stepper::close(Places& places) {
  sort_unique(places);
  add_returns(places);
  add_calls(places);
  sort_unique(places);
  check_count(places);
}

// Rules that end here return to those who called them, which may end here too. A place that can only return is
// dropped once it has, but for the bottom's: there it says that the text may end. An element that its set has does
// not end.
void Stepper::add_returns(Places& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    if (!grammar_.is_final(place.state)) continue;
    if (grammar_.role(place.state) == Grammar::Role::kElementEnd && sets_.has_element()) continue;
    for (const StackLink& link : pool_.links_of(place.stack)) {
      const Place back{link.after, link.below};
      if (std::ranges::find(places, back) == places.end()) places.push_back(back);
    }
    check_count(places);
  }
  std::erase_if(places, [this](const Place& place) {
    return place.stack != kBottom && grammar_.edges_of(place.state).empty() && grammar_.calls_of(place.state).empty();
  });
}

// One stack for all that call a rule here. A rule may begin with calls itself: a few rounds, since none begins with
// itself.
void Stepper::add_calls(Places& places) {
  std::size_t done = 0;
  while (done < places.size()) {
    pending_.clear();
    for (; done < places.size(); ++done) {
      const bool is_element = grammar_.role(places[done].state) == Grammar::Role::kElementStart;
      const std::uint32_t set = is_element ? enter_set(places) : 0;
      for (const RuleCall& call : grammar_.calls_of(places[done].state)) {
        pending_.push_back({call.rule, {call.after, places[done].stack, set}});
      }
    }
    std::ranges::sort(pending_);
    for (std::size_t i = 0; i < pending_.size();) {
      const RuleId rule = pending_[i].rule;
      links_.clear();
      for (; i < pending_.size() && pending_[i].rule == rule; ++i) {
        if (links_.empty() || links_.back() != pending_[i].link) links_.push_back(pending_[i].link);
      }
      places.push_back({grammar_.start_of(rule), pool_.intern(links_)});
    }
  }
}

bool Stepper::complete(const Places& places) const {
  return std::ranges::any_of(
      places, [this](const Place& place) { return place.stack == kBottom && grammar_.is_final(place.state); });
}

bool Stepper::can_go_on(const Places& places) const {
  return std::ranges::any_of(places, [this](const Place& place) {
    return !grammar_.edges_of(place.state).empty() || !grammar_.calls_of(place.state).empty();
  });
}

Matcher::Matcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), pool_(std::make_shared<StackPool>()) {
  CHECK(grammar_ != nullptr);
  stepper(sets_).start(grammar_->root(), places_);
}

Matcher Matcher::apart() const {
  Matcher copy = *this;
  copy.pool_ = std::make_shared<StackPool>(*pool_);
  return copy;
}

bool Matcher::run(std::string_view bytes, Places& places, OpenSets& sets) const {
  Stepper stepper = this->stepper(sets);
  Places next;
  for (const char c : bytes) {
    if (!stepper.step(places, static_cast<std::uint8_t>(c), next)) return false;
    std::swap(places, next);
  }
  return true;
}

bool Matcher::accept(std::string_view bytes) {
  Places places = places_;
  const OpenSets::Mark before = sets_.mark();
  try {
    if (!run(bytes, places, sets_)) {
      sets_.rewind(before);
      return false;
    }
  } catch (...) {
    sets_.rewind(before);
    throw;
  }
  places_ = std::move(places);
  sets_.settle();
  return true;
}

bool Matcher::can_accept(std::string_view bytes) const {
  Places places = places_;
  OpenSets sets = sets_;
  return run(bytes, places, sets);
}

bool Matcher::complete() const {
  OpenSets none;
  return stepper(none).complete(places_);
}

bool Matcher::can_go_on() const {
  OpenSets none;
  return stepper(none).can_go_on(places_);
}

// Over the stacks' digests, not their ids, which differ from pool to pool; and a sum, since ids decide the order.
std::optional<std::array<std::uint64_t, 2>> Matcher::digest() const {
  if (sets_.is_open()) return std::nullopt;
  std::array<std::uint64_t, 2> out{places_.size(), ~places_.size()};
  for (const Place& place : places_) {
    const auto& stack = pool_->digest_of(place.stack);
    out[0] += mix(place.state, stack[0], 7);
    out[1] += mix(place.state, stack[1], 11);
  }
  return out;
}

}  // namespace kvasir::grammar
