// Matcher: where in a grammar a text has come to. Follows all ways of reading the text at once, byte by byte.
//
// A way is a Place: a state, and the stack of whom to return to. Places that agree are one, and all places that call
// a rule at the same byte share one stack (stack_pool.h), so that their number is bounded by the grammar, not by the
// text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/open_sets.h"
#include "grammar/stack_pool.h"

namespace kvasir::grammar {

struct Place {
  StateId state = kNoState;
  StackId stack = kBottom;

  friend bool operator==(const Place&, const Place&) = default;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// All places of one text: sorted, each once. Empty: no text of the grammar begins like this.
using Places = std::vector<Place>;

// One step of the automaton, with its scratch memory. Reused from step to step: nothing is allocated once it is warm.
class Stepper {
 public:
  Stepper(const Grammar& grammar, StackPool& pool, OpenSets& sets) : grammar_(grammar), pool_(pool), sets_(sets) {}

  // Where the texts of a rule begin.
  void start(RuleId rule, Places& out);

  // The places after one more byte, which the sets take too. False, with `out` empty, when no text goes on like this:
  // whoever tries another byte then, or goes back, rewinds the sets first. Throws Error when a hostile grammar leads
  // to too many places, or too long a search. REQUIRES: `in` and `out` are not the same.
  bool step(const Places& in, std::uint8_t byte, Places& out);

  bool complete(const Places& places) const;
  bool can_go_on(const Places& places) const;  // another byte may follow

  // How many places were looked at in searches since the last call, beside those given to step().
  std::size_t take_searched() { return std::exchange(searched_, 0); }

 private:
  bool follow(const Places& in, std::uint8_t byte, Places& out);
  bool has_way(const Places& places);
  bool has_free_byte(const Places& places) const;
  std::uint32_t enter_set(const Places& places);
  void close(Places& places);
  void add_returns(Places& places);
  void add_calls(Places& places);

  struct PendingCall {
    RuleId rule;
    StackLink link;
    friend auto operator<=>(const PendingCall&, const PendingCall&) = default;
  };

  const Grammar& grammar_;
  StackPool& pool_;
  OpenSets& sets_;
  std::size_t searched_ = 0;
  std::vector<PendingCall> pending_;
  std::vector<StackLink> links_;
};

// A value: copies are forks, and going back is taking an earlier copy. Copies share the storage of their stacks: they
// belong to one thread at a time, all together.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Grammar> grammar);

  // A copy with storage of its own, for another thread.
  Matcher apart() const;

  // Takes all of the bytes and returns true, or none and returns false.
  bool accept(std::string_view bytes);
  bool can_accept(std::string_view bytes) const;

  bool complete() const;   // the text may end here
  bool can_go_on() const;  // another byte may follow; either this or complete()

  // The same for all matchers of one grammar that are at the same places, whatever their texts: what caches know a
  // matcher by, beside its grammar. nullopt while a set is open: then it matters which elements it has.
  std::optional<std::array<std::uint64_t, 2>> digest() const;

  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  const Places& places() const { return places_; }
  const OpenSets& sets() const { return sets_; }
  Stepper stepper(OpenSets& sets) const { return Stepper(*grammar_, *pool_, sets); }

 private:
  bool run(std::string_view bytes, Places& places, OpenSets& sets) const;

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<StackPool> pool_;  // grows; what is in it never changes
  Places places_;
  OpenSets sets_;
};

}  // namespace kvasir::grammar
