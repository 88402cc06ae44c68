// Requests: as lanes on a time axis, and as a table of the last ones with what each reused and why no more.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "cli/top/views.h"

namespace kvasir {
namespace {

constexpr TextStyle kLaneTitle{Ink::kPlain, true, false};
constexpr TextStyle kLaneQuiet{Ink::kGrey, false, false};

struct PhaseLook {
  std::string_view phase;
  std::string_view text;
  Ink ink;
};
constexpr std::array<PhaseLook, 6> kPhases{{{"queued", "·", Ink::kGrey},
                                            {"prefill", "▒", Ink::kYellow},
                                            {"decode", "█", Ink::kGreen},
                                            {"stalled", "!", Ink::kMagenta},
                                            {"preempted", "x", Ink::kRed},
                                            {"swapped", "~", Ink::kCyan}}};

const PhaseLook* look_of_phase(const std::string& phase) {
  const auto found = std::ranges::find(kPhases, phase, &PhaseLook::phase);
  return found == kPhases.end() ? nullptr : &*found;
}

// What the cache says of why a prompt was not reused further, for people.
struct ReasonText {
  std::string_view reason;
  std::string_view text;
};
constexpr std::array<ReasonText, 10> kReasons{{{"whole_prompt", "all of it was cached"},
                                               {"short_tail", "the rest does not fill a block"},
                                               {"diverged", "a cached text goes on differently there"},
                                               {"evicted", "it was cached, and made room"},
                                               {"window_dropped", "a layer with a window no longer holds it"},
                                               {"state_before", "the nearest kept state lies before it"},
                                               {"never_seen", "nothing was cached after this point"},
                                               {"other_policy", "cached under another KV policy"},
                                               {"private", "this policy keeps a request's cache to itself"},
                                               {"off", "the cache is off"}}};

std::string text_of_reason(const std::string& reason) {
  const auto found = std::ranges::find(kReasons, reason, &ReasonText::reason);
  return found == kReasons.end() ? reason : std::string(found->text);
}

struct LaneRow {
  std::int64_t id;
  const LiveLane* lane;
};

// Those that were alive between the two times, the newest last, as many as there is room for.
std::vector<LaneRow> lanes_between(const LivePicture& picture, double from, double to, size_t most) {
  std::vector<LaneRow> out;
  for (const auto& [id, lane] : picture.lanes()) {
    if (lane.stretches.empty() || lane.stretches.front().from >= to || lane.stretches.back().to <= from) continue;
    out.push_back({id, &lane});
  }
  std::ranges::sort(out, {}, [](const LaneRow& row) { return row.lane->stretches.front().from; });
  if (out.size() > most) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most));
  return out;
}

// Every column shows the last stretch that touches it: a short one is not lost behind a long one.
void draw_lane_row(Canvas& canvas, Box box, const LiveLane& lane, double from, double span) {
  const double each = span / box.width;
  for (const LiveStretch& stretch : lane.stretches) {
    const PhaseLook* look = look_of_phase(stretch.phase);
    if (look == nullptr || stretch.to < from || stretch.from > from + span) continue;
    const int first = std::max(static_cast<int>(std::floor((stretch.from - from) / each)), 0);
    const int last = std::min(static_cast<int>(std::ceil((stretch.to - from) / each)), box.width);
    for (int x = first; x < std::max(last, first + 1) && x < box.width; ++x)
      canvas.text(box.x + x, box.y, look->text, {look->ink, false, false});
  }
}

void draw_axis(const TopScene& scene, Canvas& canvas, Box box) {
  const auto ago = [](double seconds) { return seconds < 0.5 ? std::string("now") : "-" + brief_seconds(seconds); };
  const std::string end = ago(scene.choice.back);
  canvas.text(box.x, box.y, ago(scene.choice.back + scene.choice.span), kLaneQuiet, box.x + box.width);
  canvas.text(box.x + box.width - static_cast<int>(end.size()), box.y, end, kLaneQuiet);
}

// The table's columns, of which `why` takes what room is left. There is no tenant where no keys are used.
struct RequestCells {
  std::string id, asked, tenant, prompt, reused, why, answer, first, rate, end;
};

void draw_request_row(Canvas& canvas, Box box, int y, const RequestCells& cells, TextStyle style) {
  const std::string tenant = cells.tenant.empty() ? "" : fmt::format("{:<10.10} ", cells.tenant);
  const std::string left =
      fmt::format("{:>9} {:>8} {}{:>7} {:>6}  ", cells.id, cells.asked, tenant, cells.prompt, cells.reused);
  const std::string right =
      fmt::format(" {:>6} {:>9} {:>7} {:<8.8}", cells.answer, cells.first, cells.rate, cells.end);
  const int end = box.x + box.width;
  const int place = std::max(end - static_cast<int>(right.size()), box.x + static_cast<int>(left.size()));
  int x = canvas.text(box.x, y, left, style, end);
  x = canvas.text(x, y, cells.why, style, std::max(place - 1, x));
  while (x < std::min(place, canvas.width())) x = canvas.text(x, y, " ", style, place);
  canvas.text(place, y, right, style, end);
}

// A number that a tenant sees has fourteen digits: its last ones tell two apart.
std::string short_id(std::int64_t id) {
  std::string text = fmt::format("{}", id);
  return text.size() > 9 ? "…" + text.substr(text.size() - 8) : text;
}

std::string column_of_tenant(const LivePicture& picture, std::int64_t id) {
  return picture.server().open ? "" : picture.tenant_name(id);
}

RequestCells cells_of(const LiveRunning& one, const LivePicture& picture) {
  return {.id = short_id(one.id),
          .asked = "now",
          .tenant = column_of_tenant(picture, one.tenant),
          .prompt = fmt::format("{}", one.prompt),
          .reused = brief_share(static_cast<double>(one.reused), static_cast<double>(one.prompt)),
          .why = fmt::format("{}, {} tokens in {} blocks", one.phase, one.cached, one.blocks),
          .answer = fmt::format("{}", one.answer),
          .first = {},
          .rate = {},
          .end = {}};
}

RequestCells cells_of(const LiveFinished& one, const LivePicture& picture, double wall) {
  const double decoding = one.seconds - one.first_token_seconds;
  const bool timed = one.answer > 1 && decoding > 0;
  const double ago = std::max(wall - one.created, 0.0);
  return {.id = short_id(one.id),
          .asked = ago < 1    ? "now"
                   : ago < 90 ? fmt::format("-{:.0f} s", ago)
                              : fmt::format("-{:.0f} min", ago / 60),
          .tenant = column_of_tenant(picture, one.tenant),
          .prompt = fmt::format("{}", one.prompt),
          .reused = brief_share(static_cast<double>(one.reused), static_cast<double>(one.prompt)),
          .why = text_of_reason(one.reason),
          .answer = fmt::format("{}", one.answer),
          .first = brief_seconds(one.first_token_seconds),
          .rate = timed ? brief_count(static_cast<double>(one.answer - 1) / decoding) : "–",
          .end = one.finish};
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The chosen request in full; returns the rows that took.
int draw_chosen(const LiveFinished& one, Canvas& canvas, Box box) {
  const int end = box.x + box.width;
  canvas.text(box.x, box.y, fmt::format("Request {}  {}", one.id, one.label), kLaneTitle, end);
  const std::string where =
      one.stopped >= 0 && one.reused < one.prompt ? fmt::format(", stopped at token {}", one.stopped) : "";
  canvas.text(box.x + 2, box.y + 1,
              fmt::format("{} of {} prompt tokens reused{}: {}", one.reused, one.prompt, where,
                          one.reason.empty() ? "no reason was given" : text_of_reason(one.reason)),
              {Ink::kCyan, false, false}, end);
  canvas.text(box.x + 2, box.y + 2,
              fmt::format("waited {}, first token after {}, {} in all; {} tokens computed, {} pauses; policy {}",
                          brief_seconds(one.queue_seconds), brief_seconds(one.first_token_seconds),
                          brief_seconds(one.seconds), one.computed, one.pauses, one.kv),
              {}, end);
  return 4;
}

}  // namespace

void draw_lanes(const TopScene& scene, Canvas& canvas, Box box) {
  const int end = box.x + box.width;
  int x = canvas.text(box.x, box.y, "requests over time  ", kLaneTitle, end);
  for (const PhaseLook& look : kPhases) {
    x = canvas.text(x, box.y, look.text, {look.ink, false, false}, end);
    x = canvas.text(x + 1, box.y, look.phase, {}, end) + 2;
  }
  const int label = std::min(14, box.width / 3);
  const Box axis{box.x + label, box.y + box.height - 1, box.width - label, 1};
  draw_axis(scene, canvas, axis);
  const double to = scene.now - scene.choice.back;
  const double from = to - scene.choice.span;
  int y = box.y + 1;
  for (const LaneRow& row :
       lanes_between(scene.picture, from, to, static_cast<size_t>(std::max(box.height - 2, 0)))) {
    canvas.text(box.x, y, short_id(row.id), row.lane->running ? kLaneTitle : TextStyle{}, box.x + label - 1);
    draw_lane_row(canvas, {axis.x, y++, axis.width, 1}, *row.lane, from, scene.choice.span);
  }
}

void draw_requests(const TopScene& scene, Canvas& canvas, Box box) {
  const auto& finished = scene.picture.finished();
  const int chosen = std::min(scene.choice.chosen, static_cast<int>(finished.size()) - 1);
  if (chosen >= 0 && box.height > 8) {
    const int rows = draw_chosen(finished[static_cast<size_t>(chosen)], canvas, box);
    box = {box.x, box.y + rows, box.width, box.height - rows};
  }
  const std::string tenant = scene.picture.server().open ? "" : "tenant";
  const RequestCells titles{"request",     "asked",  tenant,  "prompt",   "reused",
                            "why no more", "answer", "first", "tokens/s", "end"};
  draw_request_row(canvas, box, box.y, titles, kLaneTitle);
  int y = box.y + 1;
  const int bottom = box.y + box.height;
  for (const LiveRunning& one : scene.picture.running()) {
    if (y >= bottom) return;
    draw_request_row(canvas, box, y++, cells_of(one, scene.picture), {Ink::kGreen, false, false});
  }
  const double wall = wall_clock();
  const int first = std::max(chosen - (bottom - y) + 1, 0);
  for (int i = first; i < static_cast<int>(finished.size()) && y < bottom; ++i) {
    const TextStyle style{Ink::kPlain, false, i == chosen};
    draw_request_row(canvas, box, y++, cells_of(finished[static_cast<size_t>(i)], scene.picture, wall), style);
  }
}

}  // namespace kvasir
