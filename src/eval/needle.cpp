#include "eval/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"

namespace kvasir {
namespace {

constexpr std::array kWho{"The old miller",   "A grey goose",    "The baker's wife", "My uncle",
                          "The tall soldier", "A small boy",     "The gardener",     "The black cat",
                          "Her sister",       "The king's cook", "A young sailor",   "The shepherd"};
constexpr std::array kDid{"walked slowly to",   "looked for a while at", "came back from",  "had never liked",
                          "told a story about", "was very fond of",      "sat down beside", "dreamed of",
                          "ran quickly past",   "often thought of"};
constexpr std::array kWhat{"the river",       "the green hill",   "the market",  "the old bridge",
                           "the garden wall", "the forest",       "the harbour", "the little house",
                           "the apple tree",  "the church tower", "the meadow",  "the long road"};
constexpr std::array kWhen{"in the morning",   "before supper", "on a rainy day", "every summer",
                           "when it was late", "after school",  "in the evening"};

constexpr std::array kFirstNames{"Anna",  "Ben",  "Clara", "Daniel", "Emma",   "Felix", "Grace", "Henry",
                                 "Ivy",   "Jack", "Kate",  "Leo",    "Lucy",   "Max",   "Nora",  "Oscar",
                                 "Peter", "Rosa", "Ruby",  "Sam",    "Tom",    "Vera",  "Alice", "Martin",
                                 "Mary",  "Paul", "Simon", "Ella",   "Edward", "Robert"};
constexpr std::array kLastNames{"Brown",  "Hill",  "Cole",   "Fisher", "Reed", "Young", "Park",  "Miller",
                                "Wood",   "Stone", "King",   "Baker",  "Bell", "Day",   "Green", "Gray",
                                "Hunter", "Lake",  "Moon",   "North",  "Page", "Rose",  "Snow",  "Summer",
                                "West",   "White", "Winter", "Field",  "Ford", "Hope"};

// Draws that depend on the case and on how many came before, and on nothing else.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return mix(seed_, next_++, 11) % bound; }
  template <class List>
  std::string_view of(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

std::string sentence(Draws& draws) {
  const std::string_view who = draws.of(kWho);
  const std::string_view did = draws.of(kDid);
  const std::string_view what = draws.of(kWhat);
  return fmt::format(" {} {} {} {}.", who, did, what, draws.of(kWhen));
}

std::string name(Draws& draws) {
  const std::string_view first = draws.of(kFirstNames);
  return fmt::format(" {} {}", first, draws.of(kLastNames));
}

// Others of as many tokens, so that none is likelier for being shorter.
std::vector<std::vector<TokenId>> candidates_like(const std::string& key, const Tokenizer& tokenizer, int count,
                                                  Draws& draws) {
  std::vector<std::vector<TokenId>> out{tokenizer.encode(key, Tokenizer::Specials::kPlain)};
  for (int tries = 0; static_cast<int>(out.size()) < count; ++tries) {
    if (tries == 1000 * count) {
      fail_input(fmt::format("the tokenizer has not {} names of {} tokens", count, out.front().size()), "--needles",
                 "ask for fewer candidates");
    }
    std::vector<TokenId> other = tokenizer.encode(name(draws), Tokenizer::Specials::kPlain);
    if (other.size() == out.front().size() && std::ranges::find(out, other) == out.end()) out.push_back(other);
  }
  return out;
}

}  // namespace

NeedleCase make_needle_case(const Tokenizer& tokenizer, const NeedlePlan& plan, int i) {
  const auto tokens = [&](const std::string& text) { return tokenizer.encode(text, Tokenizer::Specials::kPlain); };
  Draws draws(0x6e6565646c65U + static_cast<std::uint64_t>(i));
  const std::string key = name(draws);
  NeedleCase out;
  out.candidates = candidates_like(key, tokenizer, plan.candidates, draws);
  const std::vector<TokenId> needle =
      tokens(fmt::format(" The queen was called{}. Everyone knew Queen{}.", key, key));
  const std::vector<TokenId> question = tokens(" The queen was called");
  std::int64_t room = plan.context - static_cast<std::int64_t>(plan.opening.size() + needle.size() + question.size() +
                                                               out.candidates.front().size());
  std::vector<std::vector<TokenId>> hay;
  while (true) {
    std::vector<TokenId> next = tokens(sentence(draws));
    room -= static_cast<std::int64_t>(next.size());
    if (room < 0) break;
    hay.push_back(std::move(next));
  }
  if (hay.empty()) {
    fail_usage(fmt::format("{} tokens are too few for a needle in a haystack", plan.context), "--ctx",
               "use 128 or more, or --needles 0");
  }
  const double depth = plan.depths > 1 ? static_cast<double>(i % plan.depths) / (plan.depths - 1) : 0.5;
  const auto before = static_cast<size_t>(std::lround(depth * static_cast<double>(hay.size())));
  out.prompt = plan.opening;
  const auto append = [&out](const std::vector<TokenId>& more) {
    out.prompt.insert(out.prompt.end(), more.begin(), more.end());
  };
  for (size_t s = 0; s < hay.size(); ++s) {
    if (s == before) append(needle);
    append(hay[s]);
  }
  if (before == hay.size()) append(needle);
  append(question);
  return out;
}

bool finds_needle(Reader& reader, const NeedleCase& one) {
  const double of_true = reader.log_likelihood(one.prompt, one.candidates.front());
  return std::all_of(one.candidates.begin() + 1, one.candidates.end(), [&](const std::vector<TokenId>& other) {
    return reader.log_likelihood(one.prompt, other) < of_true;
  });
}

}  // namespace kvasir
