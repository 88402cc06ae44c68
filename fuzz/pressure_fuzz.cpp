// Requests in turn against one engine whose cache is too small for them: they share beginnings, wait, are paused,
// evicted, cancelled, and have tenants with shares. After each step the cache's books are in order, and every answer
// is the one that an engine with room for everything gives to that request alone.
//
// The input is a byte for the engine and then orders, each of a byte and its arguments.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "backend/make_backend.h"
#include "base/check.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/known_models.h"
#include "model/random_model.h"

namespace kvasir {
namespace {

constexpr int kBlockTokens = 4;
constexpr std::int64_t kContext = 64;
constexpr int kBlockBytes = 256;  // of f16: two layers of one head of eight numbers, K and V
constexpr size_t kMostOrders = 24;
constexpr std::uint32_t kTenants = 3;
constexpr const char* kPolicies[] = {"f16", "int8", "f16, window=12, sinks=4", "f16, evict=h2o:16"};

class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  int next() {
    if (bytes_.empty()) return 0;
    const int byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// One for the whole process: engines come and go.
struct Machine {
  Machine() {
    const std::string shape = fmt::format(
        "layers=2,hidden=16,ffn=16,heads=2,kv_heads=1,head_dim=8,vocab=48,context={},dtype=f32", kContext);
    const ModelSpec config = parse_shape(shape);
    model = make_random_model(config, *backend, {.max_rows = 64, .progress = {}}, 1);
  }

  std::unique_ptr<Backend> backend = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model;
};

Machine& machine() {
  static Machine one;
  return one;
}

EngineConfig roomy() {
  EngineConfig config;
  config.kv = parse_kv_policy(kPolicies[0], "fuzz");
  config.others = EngineConfig::OtherPolicies::kAny;
  config.block_tokens = kBlockTokens;
  config.kv_bytes = 1 << 20;
  return config;
}

using Name = std::tuple<std::vector<TokenId>, int, int, std::int64_t>;  // of a request's answer
struct Answer {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kNone;
  std::string failure;
  bool operator==(const Answer& other) const { return tokens == other.tokens && finish == other.finish; }
};

struct Asked {
  Name name;
  Request request;
};

// Prompts of two texts that part somewhere, so that they share beginnings and never all of them.
Asked read_request(Bytes& in) {
  Asked asked;
  const int length = 1 + in.next() % 40;
  const int parts_at = in.next() % 41;
  const int text = in.next() % 4;
  for (int i = 0; i < length; ++i)
    asked.request.prompt.push_back((i * 7 + (i >= parts_at ? 5 * (text + 1) : 0)) % 48);
  asked.request.max_tokens = 1 + in.next() % 16;
  const int drawn = in.next() % 8;
  asked.request.sampling.temperature = drawn == 0 ? 0.0F : 1.0F;
  asked.request.sampling.seed = static_cast<std::uint64_t>(drawn);
  const int policy = in.next() % 4;
  asked.request.kv = parse_kv_policy(kPolicies[policy], "fuzz");
  asked.request.tenant.id = static_cast<std::uint32_t>(in.next()) % kTenants;
  asked.request.tenant.secret.bytes.fill(static_cast<std::uint8_t>(asked.request.tenant.id));
  asked.request.priority = in.next() % 3;
  if (const int keep = in.next() % 4; keep == 1)
    asked.request.breakpoints = {{length / 2, std::chrono::seconds(300)}};
  asked.name = {asked.request.prompt, drawn, policy, asked.request.max_tokens};
  return asked;
}

OnUpdate into(Answer& answer) {
  return [&answer](const Update& update) {
    if (update.token >= 0) answer.tokens.push_back(update.token);
    answer.finish = update.finish;
    if (update.record != nullptr) answer.failure = update.record->failure;
  };
}

// What an engine with room for all says, asked for nothing else.
const Answer& alone(const Asked& asked) {
  static std::map<Name, Answer> known;
  if (known.size() > 4096) known.clear();
  const auto [at, is_new] = known.try_emplace(asked.name);
  if (is_new) {
    Engine engine(*machine().backend, *machine().model, roomy());
    engine.submit(asked.request, into(at->second));
    engine.run();
  }
  return at->second;
}

class Session {
 public:
  explicit Session(EngineConfig config) : engine_(*machine().backend, *machine().model, std::move(config)) {}

  void carry_out(Bytes& in) {
    for (size_t i = 0; i < kMostOrders && !in.empty(); ++i) {
      order(in);
      check_books();
    }
    engine_.run();
    check_books();
    for (const Live& live : asked_) {
      if (live.cancelled) continue;
      if (live.answer->finish == FinishReason::kFailed && shares_changed_) continue;  // it has no room any more
      const Answer& expected = alone(live.asked);
      CHECK_THAT(*live.answer == expected, difference(live, expected));
    }
    CHECK(engine_.swap().used() == 0);
  }

 private:
  struct Live {
    Asked asked;
    RequestId id = 0;
    std::unique_ptr<Answer> answer;
    bool cancelled = false;
  };

  void order(Bytes& in) {
    const int what = in.next();
    if (what % 4 < 2) {
      submit(read_request(in));
    } else if (what % 4 == 2) {
      for (int steps = 1 + what / 4 % 8; steps > 0; --steps) {
        engine_.step();
        check_books();
      }
    } else if (what % 8 == 3 && !asked_.empty()) {
      Live& one = asked_[static_cast<size_t>(in.next()) % asked_.size()];
      one.cancelled = one.cancelled || one.answer->finish == FinishReason::kNone;
      engine_.cancel(one.id);
    } else {
      const auto tenant = static_cast<std::uint32_t>(in.next()) % kTenants;
      const double most = 0.25 * (1 + in.next() % 4);
      shares_changed_ = true;
      engine_.set_share(tenant, {0.25 * (in.next() % 2), most, 1.0 + in.next() % 3});
    }
  }

  void submit(Asked asked) {
    Live live{std::move(asked), 0, std::make_unique<Answer>()};
    try {
      live.id = engine_.submit(live.asked.request, into(*live.answer));
    } catch (const Error& error) {  // it could never fit
      CHECK(error.kind() == Error::Kind::kCapacity);
      return;
    }
    asked_.push_back(std::move(live));
  }

  static std::string difference(const Live& live, const Answer& expected) {
    const Request& request = live.asked.request;
    return fmt::format("{} tokens of prompt, {}, at most {}: [{}] {} {} instead of [{}] {}", request.prompt.size(),
                       to_text(*request.kv), request.max_tokens, fmt::join(live.answer->tokens, " "),
                       name_of(live.answer->finish), live.answer->failure, fmt::join(expected.tokens, " "),
                       name_of(expected.finish));
  }

  void check_books() {
    const std::optional<std::string> problem = engine_.cache().problem();
    CHECK_THAT(!problem, *problem);
  }

  Engine engine_;
  std::vector<Live> asked_;
  bool shares_changed_ = false;
};

void run(Bytes in) {
  const int how = in.next();
  EngineConfig config = roomy();
  config.kv_bytes = static_cast<std::uint64_t>(kBlockBytes * (14 + in.next() % 24));
  config.eviction = how % 2 == 0 ? "lru" : "fifo";
  config.swap_bytes = how / 2 % 2 == 0 ? 0 : config.kv_bytes;
  if (how / 4 % 2 == 1) config.costs = CostModel{1e-9, 1e3, 1};
  config.scheduler.max_batch_tokens = how / 8 % 2 == 0 ? 64 : 7;
  std::optional<Session> session;
  try {
    session.emplace(std::move(config));
  } catch (const Error&) {  // not even one block
    return;
  }
  session->carry_out(in);
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvasir::run(kvasir::Bytes({data, size}));
  return 0;
}
