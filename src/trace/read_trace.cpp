#include "trace/read_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <istream>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "trace/trace_lines.h"

namespace kvasir {
namespace {

constexpr size_t kLongestLine = size_t{64} << 20;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;  // of a text
constexpr std::int64_t kMooncakeBlock = 512;
constexpr std::string_view kFormats =
    "give a trace of kvasir serve --trace, Mooncake's lines of JSON, or Azure's CSV with "
    "TIMESTAMP,ContextTokens,GeneratedTokens";

IntegerRange up_to(std::int64_t most) { return {0, most}; }

std::int64_t integer_or(const JsonReader& object, std::string_view key, IntegerRange range, std::int64_t otherwise) {
  const auto found = object.find(key);
  return found ? found->integer(range) : otherwise;
}

std::vector<KvPolicy> policies_in(const JsonReader& list) {
  std::vector<KvPolicy> out;
  for (const JsonReader one : list.items()) out.push_back(parse_kv_policy(std::string(one.text()), list.where()));
  return out;
}

EngineConfig engine_in(const JsonReader& json) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  EngineConfig out;
  out.context = json.get("context").integer({1, kMost});
  out.block_tokens = static_cast<int>(json.get("block_tokens").integer({1, 65536}));
  out.kv = parse_kv_policy(std::string(json.get("kv").text()), json.where());
  out.kv_also = policies_in(json.get("kv_also"));
  out.internal_policies = policies_in(json.get("kv_internal"));
  if (json.get("kv_any").flag()) out.others = EngineConfig::OtherPolicies::kAny;
  out.kv_bytes = static_cast<std::uint64_t>(json.get("kv_bytes").integer(up_to(kMost)));
  out.swap_bytes = static_cast<std::uint64_t>(json.get("swap_bytes").integer(up_to(kMost)));
  out.eviction = json.get("eviction").text();
  if (!json.get("reuse").flag()) out.reuse = CacheConfig::Reuse::kOff;
  if (json.get("recompute").flag()) out.mode = EngineConfig::Mode::kRecompute;
  out.pinned_share = json.get("pinned_share").number();
  out.scheduler.max_batch_tokens = static_cast<int>(json.get("max_batch_tokens").integer({1, 1 << 20}));
  out.scheduler.max_sequences = static_cast<int>(json.get("max_sequences").integer({1, 1 << 20}));
  out.scheduler.chunk_tokens = static_cast<int>(json.get("chunk_tokens").integer(up_to(1 << 20)));
  out.scheduler.state_budget = static_cast<int>(json.get("state_budget").integer(up_to(1 << 20)));
  return out;
}

TraceConfig config_in(const JsonReader& json) {
  const JsonReader version = json.get("kvasir_trace");
  if (version.integer() != kTraceVersion) {
    version.fail(fmt::format("is another version than {}, which this program reads", kTraceVersion));
  }
  TraceConfig out;
  out.id = json.get("id").text();
  out.time = json.get("time").text();
  out.model = json.get("model").text();
  out.device = json.get("device").text();
  if (json.get("samples_on_device").flag()) out.samples = TraceConfig::Samples::kOnDevice;
  out.engine = engine_in(json.get("engine"));
  return out;
}

FinishReason finish_in(const JsonReader& text) {
  using enum FinishReason;
  for (const FinishReason reason : {kStop, kLength, kCancelled, kFailed}) {
    if (text.text() == name_of(reason)) return reason;
  }
  text.fail("is no way for an answer to end");
}

TracedRequest request_in(const JsonReader& json) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  TracedRequest out;
  out.at = json.get("at").number();
  out.id = static_cast<std::uint64_t>(json.get("id").integer(up_to(kMost)));
  out.prompt_tokens = json.get("prompt").integer({1, kMostTokens});
  out.answer_tokens = json.get("answer").integer(up_to(kMostTokens));
  out.max_tokens = json.get("most").integer({1, kMost});
  out.finish = finish_in(json.get("finish"));
  out.twin_of = static_cast<std::uint64_t>(integer_or(json, "twin_of", up_to(kMost), 0));
  out.tenant = static_cast<std::uint32_t>(integer_or(json, "tenant", up_to(1 << 30), 0));
  if (const auto share = json.find("share")) {
    std::vector<double> numbers;
    for (const JsonReader number : share->items()) numbers.push_back(number.number());
    if (numbers.size() != 3) share->fail("is not what is guaranteed, the most and a weight");
    out.share = TenantShare{numbers[0], numbers[1], numbers[2]};
  }
  out.kv = json.text_or("kv", "");
  out.priority = static_cast<int>(integer_or(json, "priority", {-(1 << 30), 1 << 30}, 0));
  if (const auto marks = json.find("keep")) {
    for (const JsonReader mark : marks->items()) {
      std::vector<std::int64_t> numbers;
      for (const JsonReader number : mark.items()) numbers.push_back(number.integer(up_to(kMost)));
      if (numbers.size() != 2) mark.fail("is no number of tokens with a time");
      out.breakpoints.push_back({numbers[0], std::chrono::seconds(numbers[1])});
    }
  }
  out.tags = json.get("tags").text();
  if (std::ssize(out.tags) != 2 * (out.prompt_tokens + out.answer_tokens)) {
    json.get("tags").fail(fmt::format("has {} characters for {} tokens, two each", out.tags.size(),
                                      out.prompt_tokens + out.answer_tokens));
  }
  MeasuredRequest measured;
  measured.reused_tokens = json.get("reused").integer(up_to(kMostTokens));
  measured.computed_tokens = json.get("computed").integer(up_to(kMost));
  measured.queue_seconds = json.get("queue").number();
  measured.first_token_seconds = json.get("first").number();
  measured.seconds = json.get("seconds").number();
  measured.preemptions = integer_or(json, "preemptions", up_to(kMost), 0);
  measured.waits = integer_or(json, "waits", up_to(kMost), 0);
  if (const auto drafted = json.find("drafted")) {
    std::vector<std::int64_t> numbers;
    for (const JsonReader number : drafted->items()) numbers.push_back(number.integer(up_to(kMostTokens)));
    if (numbers.size() != 2 || numbers[1] > numbers[0] || numbers[1] > out.answer_tokens) {
      drafted->fail("is not how many tokens were verified, and how many of them were right");
    }
    measured.drafted = numbers[0];
    measured.accepted = numbers[1];
  }
  out.measured = measured;
  return out;
}

void costs_in(const JsonReader& json, StepCosts& costs) {
  for (const JsonReader row : json.get("steps").items()) {
    std::vector<double> numbers;
    for (const JsonReader number : row.items()) numbers.push_back(number.number());
    if (numbers.size() != 5 || numbers[0] < 1 || numbers[0] > 1e15 ||
        std::ranges::any_of(numbers, [](double number) { return number < 0; })) {
      row.fail("is no row of steps, rows, keys, samples and seconds");
    }
    costs.add(StepCostCell{static_cast<std::int64_t>(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4]});
  }
  if (const auto rate = json.find("swap_bytes_per_second")) costs.swap_bytes_per_second = rate->positive();
}

class TraceReader {
 public:
  TraceReader(const std::string& where, RequestTrace& into) : where_(where), into_(into) {}

  void read(std::istream& in) {
    std::string line;
    while (std::getline(in, line)) {
      ++number_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      if (line.size() > kLongestLine) fail("is too long", "a line has at most 64 MiB");
      add(line);
    }
    if (format_ == Format::kUnknown) {
      fail_input("there is no line in it", where_, std::string(kFormats));
    }
  }

 private:
  enum class Format : std::uint8_t { kUnknown, kOwn, kMooncake, kAzure };

  [[noreturn]] void fail(const std::string& what, std::string fix) const {
    fail_input("the line " + what, fmt::format("{} line {}", where_, number_), std::move(fix));
  }

  void add(const std::string& line) {
    if (format_ == Format::kUnknown) return begin(line);
    if (format_ == Format::kAzure) return add_azure(line);
    add_json(line);
  }

  void begin(const std::string& line) {
    if (line.starts_with("TIMESTAMP,")) {
      if (line != "TIMESTAMP,ContextTokens,GeneratedTokens") fail("names other columns", std::string(kFormats));
      format_ = Format::kAzure;
      return;
    }
    if (!line.starts_with("{")) fail("is of no format that is known", std::string(kFormats));
    const JsonDocument document = parse(line);
    const JsonReader json = document.root();
    if (!json.is_object()) fail("is of no format that is known", std::string(kFormats));
    if (json.find("kvasir_trace")) {
      format_ = Format::kOwn;
    } else if (json.find("input_length")) {
      format_ = Format::kMooncake;
    } else {
      fail("is of no format that is known", std::string(kFormats));
    }
    add_json(line);
  }

  JsonDocument parse(const std::string& line) const {
    return JsonDocument(line, fmt::format("{} line {}", where_, number_), {kLongestLine, kFormats});
  }

  void add_json(const std::string& line) {
    if (format_ == Format::kMooncake) {
      const JsonDocument document = parse(line);
      return add_mooncake(document.root());
    }
    // A line that a full disk tore is followed by one that is whole.
    std::string problem;
    const auto tree = JsonTree::parse(line, problem);
    if (!tree || !tree->root().is_object()) {
      ++into_.unread_lines;
      return;
    }
    const JsonDocument document = parse(line);
    add_own(document.root());
  }

  void add_own(const JsonReader& json) {
    if (json.find("kvasir_trace")) {
      TraceConfig config = config_in(json);
      if (into_.config && into_.config->id != config.id) {
        fail("begins another server's trace", "give the files of one server at a time");
      }
      into_.config = std::move(config);
    } else if (json.find("steps")) {
      costs_in(json, into_.costs);
    } else if (const auto lost = json.find("lost")) {
      into_.lost_lines += lost->integer(up_to(std::int64_t{1} << 40));
    } else if (json.find("source")) {
      ++into_.other_requests;
    } else {
      into_.requests.push_back(request_in(json));
    }
  }

  void add_mooncake(const JsonReader& json) {
    TracedRequest request;
    request.at = json.get("timestamp").number() / 1e3;
    request.prompt_tokens = json.get("input_length").integer({1, kMostTokens});
    request.answer_tokens = std::max<std::int64_t>(json.get("output_length").integer(up_to(kMostTokens)), 1);
    request.max_tokens = request.answer_tokens;
    request.hash_tokens = kMooncakeBlock;
    for (const JsonReader hash : json.get("hash_ids").items()) request.hashes.push_back(hash.integer());
    const std::int64_t blocks = (request.prompt_tokens + kMooncakeBlock - 1) / kMooncakeBlock;
    if (std::ssize(request.hashes) > blocks) {
      json.get("hash_ids")
          .fail(fmt::format("has more than {} entries, one for each {} tokens", blocks, kMooncakeBlock));
    }
    into_.requests.push_back(std::move(request));
  }

  // 2023-11-16 18:15:46.6805900,374,44
  void add_azure(const std::string& line) {
    std::array<int, 6> when{};
    int read = 0;
    long long prompt = 0;
    long long answer = 0;
    const int found = std::sscanf(line.c_str(), "%d-%d-%d %d:%d:%d%n", &when[0], &when[1], &when[2], &when[3],
                                  &when[4], &when[5], &read);
    double fraction = 0;
    int rest = 0;
    const char* behind = line.c_str() + read;
    if (found == 6 && *behind == '.' && std::sscanf(behind, "%lf%n", &fraction, &rest) == 1) behind += rest;
    if (found == 6 && *behind == '+') behind = line.c_str() + std::min(line.find(','), line.size());  // +00:00
    if (found != 6 || std::sscanf(behind, ",%lld,%lld", &prompt, &answer) != 2) {
      fail("is not like 2023-11-16 18:15:46.6805900,374,44", std::string(kFormats));
    }
    if (prompt < 1 || answer < 0 || prompt > kMostTokens || answer > kMostTokens) {
      fail("has lengths that no text has", std::string(kFormats));
    }
    const std::chrono::year_month_day day{std::chrono::year(when[0]),
                                          std::chrono::month(static_cast<unsigned>(when[1])),
                                          std::chrono::day(static_cast<unsigned>(when[2]))};
    if (!day.ok()) fail("names a day that there is not", std::string(kFormats));
    const auto days = std::chrono::sys_days(day).time_since_epoch().count();
    TracedRequest request;
    request.at = static_cast<double>(days) * 86400 + when[3] * 3600 + when[4] * 60 + when[5] + fraction;
    request.prompt_tokens = prompt;
    request.answer_tokens = std::max<std::int64_t>(answer, 1);
    request.max_tokens = request.answer_tokens;
    into_.requests.push_back(std::move(request));
  }

  const std::string& where_;
  RequestTrace& into_;
  Format format_ = Format::kUnknown;
  std::int64_t number_ = 0;
};

std::ifstream opened(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code ignored;
  if (!in || std::filesystem::is_directory(file, ignored)) {
    fail_input("it cannot be read", file.string(), "give a file that is there");
  }
  return in;
}

// A prompt is read in chunks of so many tokens at most, each a step.
void add_prefill(const JsonReader& test, double seconds, StepCosts& costs) {
  constexpr std::int64_t kChunk = 512;
  const std::int64_t tokens = test.get("tokens").integer({1, kMostTokens});
  const std::int64_t depth = test.get("depth").integer(up_to(kMostTokens));
  const auto rows = static_cast<double>(tokens);
  costs.add(StepCostCell{(tokens + kChunk - 1) / kChunk, rows,
                         rows * static_cast<double>(depth) + rows * (rows + 1) / 2, 1, seconds});
}

void add_decode(const JsonReader& test, double seconds, StepCosts& costs) {
  const std::int64_t tokens = test.get("tokens").integer({1, kMostTokens});
  const auto depth = static_cast<double>(test.get("depth").integer(up_to(kMostTokens)));
  const auto batch = static_cast<double>(test.get("batch").integer({1, 1 << 20}));
  const auto steps = static_cast<double>(tokens);
  costs.add(
      StepCostCell{tokens, steps * batch, batch * (steps * depth + steps * (steps + 1) / 2), steps * batch, seconds});
}

bool is_bench(const std::string& text) { return text.find("\"results\"") != std::string::npos; }

StepCosts costs_of_bench(const std::string& text, const std::filesystem::path& file) {
  const JsonDocument document(text, file.string(), {kLongestLine, "give what kvasir bench --json printed"});
  StepCosts costs;
  for (const JsonReader test : document.root().get("results").items()) {
    const double seconds = test.get("median_seconds").positive();
    test.get("test").text() == "decode" ? add_decode(test, seconds, costs) : add_prefill(test, seconds, costs);
  }
  return costs;
}

}  // namespace

// Lines are written when requests end; of those that came at once ids tell the order.
void sort_by_arrival(RequestTrace& trace) {
  std::ranges::stable_sort(trace.requests, {}, [](const TracedRequest& one) { return std::pair(one.at, one.id); });
}

void read_trace(std::istream& in, const std::string& where, RequestTrace& into) { TraceReader(where, into).read(in); }

RequestTrace read_trace(std::span<const std::filesystem::path> files) {
  RequestTrace out;
  for (const std::filesystem::path& file : files) {
    std::ifstream in = opened(file);
    read_trace(in, file.string(), out);
  }
  sort_by_arrival(out);
  if (!out.config && !out.requests.empty()) {
    const double first = out.requests.front().at;
    for (TracedRequest& request : out.requests) request.at -= first;
  }
  return out;
}

StepCosts read_costs(const std::filesystem::path& file) {
  std::string text;
  {
    std::ifstream in = opened(file);
    std::getline(in, text);
    if (!text.starts_with("{\"kvasir_trace\"")) {
      text.append("\n").append(std::istreambuf_iterator<char>(in), {});
    }
  }
  StepCosts costs;
  if (text.starts_with("{\"kvasir_trace\"")) {
    costs = read_trace(std::array{file}).costs;
  } else if (is_bench(text)) {
    costs = costs_of_bench(text, file);
  }
  if (costs.empty()) {
    fail_input("it does not say how long steps take", file.string(),
               "give a trace of kvasir serve --trace, or what kvasir bench --json printed");
  }
  return costs;
}

}  // namespace kvasir
