#include "cli/top/live_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr size_t kKeptFinished = 200;
constexpr size_t kKeptLanes = 600;
constexpr JsonFileKind kEventKind{size_t{256} << 20, "is this the address of a kvasir server of the same version?"};

std::int64_t integer_or(const JsonReader& of, std::string_view key, std::int64_t otherwise) {
  const auto found = of.find(key);
  return found ? found->integer() : otherwise;
}

double number_or(const JsonReader& of, std::string_view key, double otherwise) {
  const auto found = of.find(key);
  return found ? found->number() : otherwise;
}

std::optional<std::int64_t> integer_of(const JsonReader& of, std::string_view key) {
  const auto found = of.find(key);
  if (!found) return std::nullopt;
  return found->integer();
}

std::vector<JsonReader> row_of(const JsonReader& array, size_t least) {
  std::vector<JsonReader> out;
  for (const JsonReader item : array.items()) out.push_back(item);
  if (out.size() < least) array.fail(fmt::format("has fewer than {} items", least));
  return out;
}

BlockSight sight_numbered(const JsonReader& number) {
  return static_cast<BlockSight>(number.integer({0, static_cast<int>(BlockSight::kPinned)}));
}

LiveRunning running_of(const JsonReader& one) {
  return {.id = one.get("id").integer(),
          .label = std::string(one.text_or("request", "")),
          .tenant = integer_or(one, "tenant", 0),
          .phase = std::string(one.get("phase").text()),
          .prompt = integer_or(one, "prompt", 0),
          .cached = integer_or(one, "cached", 0),
          .reused = integer_or(one, "reused", 0),
          .answer = integer_or(one, "answer", 0),
          .blocks = integer_or(one, "blocks", 0),
          .pauses = integer_or(one, "pauses", 0),
          .kv = std::string(one.text_or("kv", ""))};
}

LiveFinished finished_of(const JsonReader& one) {
  LiveFinished out;
  out.label = one.text_or("id", "");
  if (const auto tasks = one.find("tasks")) {
    for (const JsonReader task : tasks->items()) {
      out.id = task.integer();
      break;
    }
  }
  if (const auto reasons = one.find("finish_reasons")) {
    for (const JsonReader reason : reasons->items())
      out.finish += (out.finish.empty() ? "" : ",") + std::string(reason.text());
  }
  out.tenant = integer_or(one, "tenant", 0);
  out.created = number_or(one, "created", 0);
  out.prompt = integer_or(one, "prompt_tokens", 0);
  out.reused = integer_or(one, "reused_tokens", 0);
  out.answer = integer_or(one, "answer_tokens", 0);
  out.computed = integer_or(one, "computed_tokens", 0);
  out.pauses = integer_or(one, "preemptions", 0);
  out.first_token_seconds = number_or(one, "first_token_seconds", 0);
  out.queue_seconds = number_or(one, "queue_seconds", 0);
  out.seconds = number_or(one, "seconds", 0);
  out.reason = one.text_or("reason", "");
  out.stopped = integer_or(one, "stopped_at", -1);
  out.kv = one.text_or("kv", "");
  return out;
}

std::optional<double> per_second(std::optional<std::int64_t> now, std::optional<std::int64_t> before,
                                 double seconds) {
  if (!now || !before || seconds <= 0) return std::nullopt;
  return static_cast<double>(std::max<std::int64_t>(*now - *before, 0)) / seconds;
}

// What prompts took of computing: what was found needed none.
std::optional<std::int64_t> computed_prompts(const LiveNumbers& of) {
  if (of.prompt_tokens && of.reused_tokens) return *of.prompt_tokens - *of.reused_tokens;
  return of.queried - of.hit;
}

LiveRates rates_between(const LiveNumbers& before, const LiveNumbers& now) {
  const double seconds = now.at - before.at;
  LiveRates out;
  out.at = now.at;
  out.prompt = per_second(computed_prompts(now), computed_prompts(before), seconds);
  out.answer = per_second(now.answer_tokens, before.answer_tokens, seconds);
  if (const std::int64_t asked = now.queried - before.queried; asked > 0)
    out.reused = static_cast<double>(now.hit - before.hit) / static_cast<double>(asked);
  if (const std::int64_t firsts = now.first_tokens - before.first_tokens; firsts > 0)
    out.first_token = (now.first_token_sum - before.first_token_sum) / static_cast<double>(firsts);
  return out;
}

}  // namespace

void LivePicture::take(std::string_view json, double now) {
  const JsonDocument document(json, "the server's stream", kEventKind);
  const JsonReader piece = document.root();
  if (const auto hello = piece.find("hello")) take_hello(*hello);
  if (!begun_) piece.fail("does not say who serves");
  if (const auto groups = piece.find("groups")) {
    policies_.clear();
    for (const JsonReader group : groups->items()) policies_.emplace_back(group.text_or("policy", ""));
  }
  if (const auto blocks = piece.find("blocks")) take_cells(*blocks, now);
  if (const auto gone = piece.find("gone")) {
    for (const JsonReader cell : gone->items()) cells_.erase(static_cast<std::uint64_t>(cell.integer()));
  }
  if (const auto events = piece.find("events")) take_events(*events, now);
  if (const auto requests = piece.find("requests")) take_running(*requests);
  keep_lanes(running_, now);
  if (const auto finished = piece.find("finished")) take_finished(*finished, now);
  if (const auto numbers = piece.find("numbers")) take_numbers(*numbers, now);
  forget(now);
}

// A new stream begins with all that is: what was known of another is no longer true, but for what is past.
void LivePicture::take_hello(const JsonReader& hello) {
  cells_.clear();
  policies_.clear();
  running_.clear();
  finished_.clear();
  numbers_.reset();
  begun_ = true;
  server_ = {.version = std::string(hello.text_or("version", "")),
             .model = std::string(hello.text_or("model", "")),
             .device = std::string(hello.text_or("device", "")),
             .kv = std::string(hello.text_or("kv", "")),
             .eviction = std::string(hello.text_or("eviction", "")),
             .started = number_or(hello, "started", 0),
             .open = hello.flag_or("open", true),
             .sees_all = hello.flag_or("operator", true),
             .block_tokens = integer_or(hello, "block_tokens", 16),
             .kv_bytes = integer_or(hello, "kv_bytes", 0),
             .tenants = {}};
  if (const auto tenants = hello.find("tenants")) {
    for (const JsonReader tenant : tenants->items()) {
      const std::vector<JsonReader> row = row_of(tenant, 2);
      server_.tenants[row[0].integer()] = row[1].text();
    }
  }
}

// [cell, group, sight, refs, tenant, place, parent, named ago, used ago, key]; a free one ends after its sight.
void LivePicture::take_cells(const JsonReader& rows, double now) {
  for (const JsonReader item : rows.items()) {
    const std::vector<JsonReader> row = row_of(item, 3);
    LiveCell& cell = cells_[static_cast<std::uint64_t>(row[0].integer())];
    cell.group = static_cast<size_t>(row[1].integer({0, 1 << 20}));
    cell.sight = sight_numbered(row[2]);
    cell.refs = row.size() > 3 ? row[3].integer() : 0;
    cell.tenant = row.size() > 4 ? row[4].integer() : -1;
    cell.used = row.size() > 8 ? now - row[8].number() : now;
  }
}

// [kind, cell, request or 0, seconds ago]
void LivePicture::take_events(const JsonReader& list, double now) {
  for (const JsonReader item : list.items()) {
    const std::vector<JsonReader> row = row_of(item, 4);
    const std::string kind(row[0].text());
    ++happened_[kind];
    const auto cell = cells_.find(static_cast<std::uint64_t>(row[1].integer()));
    if (cell == cells_.end()) continue;
    cell->second.change = kind;
    cell->second.changed = now;
  }
}

void LivePicture::take_running(const JsonReader& list) {
  running_.clear();
  for (const JsonReader one : list.items()) running_.push_back(running_of(one));
}

void LivePicture::keep_lanes(const std::vector<LiveRunning>& running, double now) {
  std::set<std::int64_t> seen;
  for (const LiveRunning& one : running) {
    seen.insert(one.id);
    LiveLane& lane = lanes_[one.id];
    lane.label = one.label;
    lane.tenant = one.tenant;
    lane.running = true;
    if (!lane.stretches.empty()) lane.stretches.back().to = now;
    if (lane.stretches.empty() || lane.stretches.back().phase != one.phase)
      lane.stretches.push_back({now, now, one.phase});
  }
  for (auto& [id, lane] : lanes_) {
    if (lane.running && !seen.contains(id)) lane.running = false;
  }
}

// A record has its times to the microsecond, where looks at the request while it ran were a few a second.
void LivePicture::draw_lane(const LiveFinished& of, double now) {
  LiveLane& lane = lanes_[of.id];
  const double end = lane.stretches.empty() ? now : lane.stretches.back().to;
  lane.label = of.label;
  lane.tenant = of.tenant;
  lane.running = false;
  if (of.pauses > 0 && !lane.stretches.empty()) return;  // the looks know of these
  const double start = end - of.seconds;
  lane.stretches = {{start, start + of.queue_seconds, "queued"},
                    {start + of.queue_seconds, start + of.first_token_seconds, "prefill"},
                    {start + of.first_token_seconds, end, "decode"}};
}

void LivePicture::take_finished(const JsonReader& list, double now) {
  for (const JsonReader one : list.items()) {
    finished_.push_front(finished_of(one));
    if (finished_.front().id != 0 && numbers_) draw_lane(finished_.front(), now);  // in the first piece: all are past
  }
  while (finished_.size() > kKeptFinished) finished_.pop_back();
}

void LivePicture::take_numbers(const JsonReader& fields, double now) {
  LiveNumbers next;
  next.at = now;
  next.queried = integer_or(fields, "queried", 0);
  next.hit = integer_or(fields, "hit", 0);
  next.evicted = integer_or(fields, "evicted", 0);
  next.prompt_tokens = integer_of(fields, "prompt_tokens");
  next.reused_tokens = integer_of(fields, "reused_tokens");
  next.answer_tokens = integer_of(fields, "answer_tokens");
  next.swapped_bytes = integer_or(fields, "swapped_bytes", 0);
  next.recomputes = integer_or(fields, "recomputes", 0);
  next.swaps = integer_or(fields, "swaps", 0);
  if (const auto speculation = fields.find("speculation")) {
    next.draft_tokens = integer_or(*speculation, "draft_tokens", 0);
    next.accepted_tokens = integer_or(*speculation, "accepted_tokens", 0);
    next.saved_seconds = number_or(*speculation, "saved_seconds", 0);
  }
  if (const auto first = fields.find("first_token")) {
    next.first_token_sum = number_or(*first, "sum", 0);
    for (const JsonReader count : first->get("counts").items()) next.first_tokens += count.integer();
  }
  if (const auto tenants = fields.find("tenants")) {
    for (const JsonReader tenant : tenants->items()) {
      const std::vector<JsonReader> row = row_of(tenant, 6);
      next.tenants.push_back({row[0].integer(), row[1].integer(), row[2].integer(), row[3].integer(),
                              row[4].integer(), row[5].integer()});
    }
  }
  if (numbers_ && now > numbers_->at) {
    LiveRates rates = rates_between(*numbers_, next);
    const auto held = std::ranges::count_if(cells_, [](const auto& cell) {
      return cell.second.sight == BlockSight::kInUse || cell.second.sight == BlockSight::kShared;
    });
    if (!cells_.empty()) rates.used = static_cast<double>(held) / static_cast<double>(cells_.size());
    rates_.push_back(rates);
  }
  numbers_ = std::move(next);
}

void LivePicture::forget(double now) {
  const double oldest = now - kHistorySeconds;
  std::erase_if(lanes_, [oldest](const auto& lane) {
    return !lane.second.running && (lane.second.stretches.empty() || lane.second.stretches.back().to < oldest);
  });
  while (lanes_.size() > kKeptLanes) lanes_.erase(lanes_.begin());
  while (!rates_.empty() && rates_.front().at < oldest) rates_.pop_front();
}

std::string LivePicture::tenant_name(std::int64_t id) const {
  const auto found = server_.tenants.find(id);
  return found == server_.tenants.end() ? fmt::format("{}", id) : found->second;
}

}  // namespace kvasir
