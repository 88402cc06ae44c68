// Whether a text can go on, where open sets (open_sets.h) may have every element that could come.
//
// From every place there is a way to the end of the text, but for elements that a set has. A text that no longer goes
// along with any of these can become a new element, and go on: what is left to write is never a set of too few
// values, which is seen to when a schema is compiled (schema_sets.cpp). So this looks for a byte that leads away from
// all earlier elements, nearly always there at once, and else follows the earlier elements as far as they go.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "grammar/matcher.h"

namespace kvasir::grammar {
namespace {

// Places looked at in one search: tens of thousands of elements of which nearly all are there.
constexpr std::size_t kMaxSearched = std::size_t{1} << 20;

}  // namespace

bool Stepper::has_free_byte(const Places& places) const {
  const OpenSets::Bytes binding = sets_.binding();
  for (const Place& place : places) {
    for (const ByteEdge& edge : grammar_.edges_of(place.state)) {
      for (unsigned byte = edge.low; byte <= edge.high; ++byte) {
        if (!binding[byte]) return true;
      }
    }
  }
  return false;
}

// Along the earlier elements, depth first, and the ends of an element before its further bytes. White space leads
// nowhere else. Leaves the sets as they are.
bool Stepper::has_way(const Places& places) {
  if (has_free_byte(places)) return true;
  struct Turn {
    Places places;
    OpenSets::Mark mark;
    int byte = 255;  // the next to try
  };
  const OpenSets::Mark before = sets_.mark();
  std::size_t searched = 0;
  std::vector<Turn> path{{places, before}};
  bool found = false;
  while (!found && !path.empty()) {
    Turn& turn = path.back();
    if (turn.byte < 0) {
      path.pop_back();
      continue;
    }
    const auto byte = static_cast<std::uint8_t>(turn.byte--);
    const auto takes = [&](const Place& place) { return grammar_.next(place.state, byte) != kNoState; };
    if (std::ranges::none_of(turn.places, takes)) continue;
    sets_.rewind(turn.mark);
    if (sets_.skips(byte)) continue;
    searched += turn.places.size();
    if (searched > kMaxSearched) {
      throw Error(Error::Kind::kCapacity, {"an array with \"uniqueItems\" has nearly all of too many values",
                                           "schema", "ask for fewer elements, or allow more values"});
    }
    Turn next;
    if (!follow(turn.places, byte, next.places)) continue;
    found = !sets_.is_bound() || has_free_byte(next.places);
    next.mark = sets_.mark();
    if (!found) path.push_back(std::move(next));
  }
  searched_ += searched;
  sets_.rewind(before);
  return found;
}

// Sets that no way of reading the text is in any more make room.
std::uint32_t Stepper::enter_set(const Places& places) {
  if (const std::uint32_t depth = sets_.enter(); depth != 0) return depth;
  std::vector<std::uint32_t> depths;
  std::unordered_set<StackId> seen;
  std::vector<StackId> todo;
  for (const Place& place : places) todo.push_back(place.stack);
  while (!todo.empty()) {
    const StackId stack = todo.back();
    todo.pop_back();
    if (!seen.insert(stack).second) continue;
    for (const StackLink& link : pool_.links_of(stack)) {
      if (link.set != 0) depths.push_back(link.set);
      todo.push_back(link.below);
    }
  }
  sets_.keep(depths);
  if (const std::uint32_t depth = sets_.enter(); depth != 0) return depth;
  throw Error(Error::Kind::kCapacity, {"the answer follows too many arrays with \"uniqueItems\" at once", "schema",
                                       "use fewer or more distinct alternatives"});
}

}  // namespace kvasir::grammar
