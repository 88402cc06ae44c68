// Random programs against a cache and a model of it (world.h), which compares the two after every step.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <ostream>

#include "base/law.h"
#include "kv/world.h"

namespace kvasir {

// Numbers that a program turns into verbs and their arguments, so that any list of them is a program.
struct Step {
  int verb = 0;
  unsigned who = 0;
  unsigned amount = 0;
  unsigned bits = 0;
};

std::ostream& operator<<(std::ostream& os, const Step& s) {
  return os << "{" << s.verb << ", " << s.who << ", " << s.amount << ", " << s.bits << "}";
}

std::ostream& operator<<(std::ostream& os, const WorldConfig& c) {
  os << "block_tokens " << c.block_tokens << ", " << c.eviction << ", late " << int(c.copies) << ", shuffle "
     << c.shuffle;
  os << ", public " << c.public_text.size();
  for (const auto& [id, share] : c.shares) os << ", tenant " << id << ": " << share.guaranteed << " " << share.most;
  for (const auto& g : c.groups)
    os << ", {" << g.retention.window << ", " << g.retention.sinks << ": " << g.blocks << " of " << g.bytes
       << (g.state() ? ", states}" : "}");
  os << ", pages of " << c.page_bytes;
  for (const auto& policy : c.more_policies) {
    os << ", policy";
    for (const auto& g : policy)
      os << " {" << g.retention.window << ", " << g.retention.sinks << ": of " << g.bytes << "}";
  }
  return os;
}

}  // namespace kvasir

namespace rc {

template <>
struct Arbitrary<kvasir::Step> {
  static Gen<kvasir::Step> arbitrary() {
    using kvasir::Step;
    // Resized, so that short programs are as varied as long ones.
    return gen::resize(kNominalSize, gen::build<Step>(gen::set(&Step::verb, gen::inRange(0, 18)),
                                                      gen::set(&Step::who, gen::inRange(0U, 64U)),
                                                      gen::set(&Step::amount, gen::inRange(0U, 1U << 12)),
                                                      gen::set(&Step::bits, gen::inRange(0U, 1U << 20))));
  }
};

}  // namespace rc

namespace kvasir {
namespace {

using Text = World::Text;
using Program = std::vector<Step>;

constexpr size_t kMostLeases = 6;

// The reader of a program. Texts are made of few token ids, and begin as texts before them did, so that they
// collide.
class Player {
 public:
  Player(const WorldConfig& config, int vocabulary, std::uint32_t tenants)
      : world(config), block_(config.block_tokens), vocabulary_(vocabulary), tenants_(tenants) {}

  void play(const Step& step) {
    const size_t who = world.leases() == 0 ? 0 : step.who % world.leases();
    if (world.leases() == 0 || (step.verb < 4 && world.leases() < kMostLeases)) return open(step);
    if (step.verb < 4) return release(who);
    if (step.verb < 9) return write(who, suffix(step, 2 * block_ + 1));
    if (step.verb < 10) return void(world.reserve(who, step.amount % static_cast<unsigned>(3 * block_ + 2)));
    if (step.verb < 11) return commit_reserved(who, step);
    if (step.verb < 13) return truncate(who, step);
    if (step.verb < 15 && world.leases() < kMostLeases) return world.fork(who);
    if (step.verb > 15) return keep_state(who, step);
    release(who);
  }

  Text prompt(const Step& step) const {
    Text out;
    if (!texts_.empty() && step.verb != 0) {
      const Text& old = texts_[step.who % texts_.size()];
      out.assign(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(step.amount % (old.size() + 1)));
    }
    const Text more = suffix(step, 2 * block_ + 1);
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  void release(size_t who) {
    texts_.push_back(world.text(who));
    world.release(who);
  }

  World world;

 private:
  // At least one token.
  Text suffix(const Step& step, int most) const {
    Text out;
    unsigned bits = step.bits;
    const int count = 1 + static_cast<int>(step.bits % static_cast<unsigned>(most));
    for (int i = 0; i < count; ++i, bits = bits * 5 + 3) {
      out.push_back(static_cast<TokenId>((bits >> 7) % static_cast<unsigned>(vocabulary_)));
    }
    return out;
  }

  void open(const Step& step) {
    const Text text = prompt(step);
    world.open(text, step.who % tenants_, step.bits % world.policies());
    const auto reused = static_cast<std::ptrdiff_t>(world.text(world.leases() - 1).size());
    if (step.bits % 3 != 0) write(world.leases() - 1, {text.begin() + reused, text.end()});
  }

  void write(size_t who, const Text& tokens) {
    if (world.write(who, tokens)) texts_.push_back(world.text(who));
  }

  void commit_reserved(size_t who, const Step& step) {
    Text tokens = suffix(step, 2 * block_ + 1);
    tokens.resize(std::min(tokens.size(), static_cast<size_t>(world.reserved(who))));
    world.commit(who, tokens);
  }

  // Mostly where one can be.
  void keep_state(size_t who, const Step& step) {
    const auto over = static_cast<int>(std::ssize(world.text(who)) % block_);
    Text rest = suffix(step, 1);
    rest.resize(static_cast<size_t>(block_ - over), rest.front());
    if (over > 0 && step.bits % 4 != 0) write(who, rest);
    if (step.bits % 3 == 0 && world.has_states(world.lease(who).policy()))
      world.expect(who, {block_ * static_cast<Position>(1 + step.amount % 5)});
    world.keep_state(who, step.bits % 2 == 0 ? KvCache::Stay::kUntilEvicted : KvCache::Stay::kUntilNext);
  }

  void truncate(size_t who, const Step& step) {
    const auto length = static_cast<Position>(step.amount % (world.text(who).size() + 1));
    if (world.may_truncate(who, length)) world.truncate(who, length);
  }

  int block_;
  int vocabulary_;
  std::uint32_t tenants_;
  std::vector<Text> texts_;
};

enum class Groups { kOneFull, kOneFullAndStates, kAny };

WorldConfig::Group any_states(std::int64_t page_bytes) {
  const std::int64_t blocks = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(1, 7));
  return {{}, blocks, page_bytes / *rc::gen::element(1, 2, 3), CacheGroupConfig::Keeps::kState};
}

std::vector<WorldConfig::Group> any_groups(int block_tokens, std::int64_t page_bytes) {
  std::vector<WorldConfig::Group> groups;
  const int count = *rc::gen::inRange(1, 3);
  for (int g = 0; g < count; ++g) {
    Retention retention;
    retention.window = *rc::gen::element(0, 1, block_tokens, 2 * block_tokens + 1);
    retention.sinks = retention.full() ? 0 : *rc::gen::element(0, 1, block_tokens + 1);
    const std::int64_t blocks = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(1, 13));
    groups.push_back({retention, blocks, page_bytes / *rc::gen::element(1, 2, 3, 4)});
  }
  for (int states = *rc::gen::element(0, 0, 1, 2); states > 0; --states) groups.push_back(any_states(page_bytes));
  return groups;
}

WorldConfig any_config(Groups which) {
  WorldConfig config;
  config.block_tokens = *rc::gen::element(1, 2, 4, 16);
  config.eviction = *rc::gen::element<std::string>("lru", "fifo", "cost");
  config.copies = *rc::gen::element(WorldConfig::Copies::kEager, WorldConfig::Copies::kLate);
  config.shuffle = *rc::gen::inRange(0U, 5U);
  if (which != Groups::kAny) {
    config.groups = {{{}, *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(1, 13)), config.page_bytes}};
    if (which == Groups::kOneFullAndStates) config.groups.push_back(any_states(config.page_bytes));
  } else {
    config.groups = any_groups(config.block_tokens, config.page_bytes);
    const int more = *rc::gen::inRange(0, 3);
    for (int i = 0; i < more; ++i) config.more_policies.push_back(any_groups(config.block_tokens, config.page_bytes));
  }
  if (*rc::gen::inRange(0, 3) == 0) config.public_text = Text(static_cast<size_t>(2 * config.block_tokens + 1), 1);
  for (std::uint32_t tenant = 0; tenant < 2; ++tenant) {
    if (*rc::gen::inRange(0, 3) != 0) continue;
    const double most = *rc::gen::element(0.3, 0.6, 1.0);
    config.shares[tenant] = {*rc::gen::element(0.0, 0.2, 0.5) * most, most, 1};
  }
  return config;
}

Player any_player(Groups which) { return {any_config(which), *rc::gen::inRange(1, 4), *rc::gen::inRange(1U, 3U)}; }

void play_all(Player& player, const Program& program) {
  for (const Step& step : program) {
    player.play(step);
    RC_ASSERT(player.world.wrong() == "");
  }
}

TEST(Cache, AnyProgramKeepsEveryTextAndLosesNoBlock) {
  law(2000, [](const Program& program) {
    Player player = any_player(Groups::kAny);
    play_all(player, program);
    player.world.release_all();
    RC_ASSERT(player.world.wrong() == "");
  });
}

// Also that a hit is exactly what brute force over all named blocks finds: the oracle is exact for one full
// group.
TEST(Cache, AFullGroupFindsExactlyWhatIsCached) {
  law(2000, [](const Program& program) {
    Player player = any_player(Groups::kOneFull);
    play_all(player, program);
    player.world.release_all();
    RC_ASSERT(player.world.wrong() == "");
  });
}

// The same where states must be there as well.
TEST(Cache, StatesAreFoundExactlyWhereTheyWereKept) {
  law(2000, [](const Program& program) {
    Player player = any_player(Groups::kOneFullAndStates);
    play_all(player, program);
    player.world.release_all();
    RC_ASSERT(player.world.wrong() == "");
  });
}

// Alone, whatever fits_alone() promises can be had a token at a time, whatever was cached before.
void alone_to(Player& player, Text text, std::int64_t length, PolicyId policy) {
  World& world = player.world;
  world.release_all();
  if (std::ssize(text) > length) text.resize(static_cast<size_t>(length));
  world.open(text, 0, policy);
  RC_ASSERT(world.wrong() == "");
  while (world.lease(0).length() < length) {
    const auto at = static_cast<size_t>(world.lease(0).length());
    RC_ASSERT(world.write(0, {at < text.size() ? text[at] : 0}));
    RC_ASSERT(world.wrong() == "");
  }
}

TEST(Cache, ALoneLeaseReachesWhateverFitsAlone) {
  law(1000, [](const Program& program, const Step& last) {
    Player player = any_player(Groups::kAny);
    play_all(player, program);
    std::int64_t length = *rc::gen::inRange(1, 12 * 16 + 1);
    const PolicyId policy = last.amount % player.world.policies();
    while (!player.world.fits_alone(policy, length, 0)) --length;
    if (length > 0) alone_to(player, player.prompt(last), length, policy);
  });
}

TEST(Cache, ALoneLeaseFillsTheWholePoolOfAFullGroup) {
  law(1000, [](const Program& program, const Step& last) {
    WorldConfig config = any_config(Groups::kOneFull);
    config.shares.clear();
    Player player(config, *rc::gen::inRange(1, 4), *rc::gen::inRange(1U, 3U));
    KvCache& cache = player.world.cache();
    const std::int64_t length = cache.pool(0).size() * cache.block_tokens();
    RC_ASSERT(cache.fits_alone(length));
    RC_ASSERT(!cache.fits_alone(length + 1));
    play_all(player, program);
    alone_to(player, player.prompt(last), length, 0);
    RC_ASSERT(!player.world.reserve(0, 1));
    RC_ASSERT(player.world.wrong() == "");
  });
}

}  // namespace
}  // namespace kvasir
