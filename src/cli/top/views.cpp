#include "cli/top/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "base/bytes.h"

namespace kvasir {
namespace {

constexpr TextStyle kTitle{Ink::kPlain, true, false};
constexpr TextStyle kQuiet{Ink::kGrey, false, false};
constexpr std::array<std::string_view, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// The last values as bars, the newest last; where nothing is known, a space.
std::string spark(const std::deque<LiveRates>& rates,
                  const std::function<std::optional<double>(const LiveRates&)>& of, size_t width) {
  const size_t from = rates.size() > width ? rates.size() - width : 0;
  double most = 0;
  for (size_t i = from; i < rates.size(); ++i) most = std::max(most, of(rates[i]).value_or(0));
  std::string out;
  for (size_t i = from; i < rates.size(); ++i) {
    const std::optional<double> value = of(rates[i]);
    if (!value || most <= 0) {
      out += value ? "▁" : " ";
      continue;
    }
    out += kBars[std::min<size_t>(static_cast<size_t>(*value / most * 8), 7)];
  }
  return out;
}

std::string or_dash(std::optional<double> value, const char* unit) {
  return value ? brief_count(*value) + unit : "–";
}

struct Figure {
  std::string name;
  std::string value;
  std::string trend;
};

void draw_figures(Canvas& canvas, Box box, int y, std::span<const Figure> figures) {
  int x = box.x;
  const int end = box.x + box.width;
  for (const Figure& figure : figures) {
    x = canvas.text(x, y, figure.name + " ", kQuiet, end);
    x = canvas.text(x, y, figure.value, kTitle, end);
    if (!figure.trend.empty()) x = canvas.text(x + 1, y, figure.trend, {Ink::kCyan, false, false}, end);
    x += 3;
  }
}

std::int64_t count_waiting(const LivePicture& picture) {
  return std::ranges::count(picture.running(), std::string("queued"), &LiveRunning::phase);
}

void draw_totals(const TopScene& scene, Canvas& canvas, Box box, int y) {
  const LivePicture& picture = scene.picture;
  if (!picture.numbers()) return;
  const LiveNumbers& now = *picture.numbers();
  std::vector<Figure> figures{
      {"reused so far", brief_share(static_cast<double>(now.hit), static_cast<double>(now.queried)), ""},
      {"evicted", brief_count(static_cast<double>(now.evicted)), ""}};
  if (now.swaps + now.recomputes > 0)
    figures.push_back({"pauses", fmt::format("{} swapped, {} computed again", now.swaps, now.recomputes), ""});
  if (now.swapped_bytes > 0)
    figures.push_back({"swapped out", format_bytes(static_cast<std::uint64_t>(now.swapped_bytes)), ""});
  if (now.draft_tokens > 0) {
    figures.push_back({"drafts right",
                       brief_share(static_cast<double>(now.accepted_tokens), static_cast<double>(now.draft_tokens)),
                       ""});
    figures.push_back({"saved", brief_seconds(std::max(now.saved_seconds, 0.0)), ""});
  }
  draw_figures(canvas, box, y, figures);
}

void draw_all(const TopScene& scene, Canvas& canvas, Box box) {
  const int least_requests = std::min(box.height, 5);
  const int blocks = std::min(block_rows(scene.picture, box.width), std::max((box.height - least_requests) / 2, 2));
  const int alive = static_cast<int>(scene.picture.lanes().size());
  const int lanes = std::clamp(alive + 2, 3, std::max((box.height - blocks) / 2, 3));
  draw_blocks(scene, canvas, {box.x, box.y, box.width, blocks});
  draw_lanes(scene, canvas, {box.x, box.y + blocks + 1, box.width, lanes});
  const int used = blocks + lanes + 2;
  if (used < box.height) draw_requests(scene, canvas, {box.x, box.y + used, box.width, box.height - used});
}

}  // namespace

std::string brief_count(double count) {
  if (count < 10)
    return count == std::floor(count) ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}", count);
  if (count < 100'000) return format_count(static_cast<std::uint64_t>(count + 0.5));
  constexpr std::array<std::string_view, 4> kUnits{"k", "M", "G", "T"};
  size_t unit = 0;
  for (count /= 1000; count >= 1000 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return fmt::format("{:.{}f}{}", count, count < 10 ? 2 : count < 100 ? 1 : 0, kUnits[unit]);
}

std::string brief_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 90) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 5400) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string brief_share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f}%", 100 * part / whole) : "–";
}

void draw_summary(const TopScene& scene, Canvas& canvas, Box box) {
  const LivePicture& picture = scene.picture;
  const LiveServer& server = picture.server();
  const int end = box.x + box.width;
  int x = canvas.text(box.x, box.y, "kvasir top", kTitle, end);
  x = canvas.text(x, box.y, fmt::format("  {} on {}", server.model, server.device), {}, end);
  const std::string status(scene.status);
  const int place = end - static_cast<int>(status.size());
  const TextStyle style{scene.status == "live" ? Ink::kGreen : Ink::kRed, true, false};
  if (place > box.x + 12) canvas.text(canvas.text(place - 1, box.y, " ", {}, end), box.y, status, style, end);
  const LiveRates last = picture.rates().empty() ? LiveRates{} : picture.rates().back();
  const auto waiting = count_waiting(picture);
  const size_t width = box.width >= 100 ? 12 : 6;
  const std::array<Figure, 5> figures{
      {{"running", fmt::format("{}", std::ssize(picture.running()) - waiting), ""},
       {"waiting", fmt::format("{}", waiting), ""},
       {"answers", or_dash(last.answer, "/s"),
        spark(
            picture.rates(), [](const LiveRates& of) { return of.answer; }, width)},
       {"prompts", or_dash(last.prompt, "/s"),
        spark(
            picture.rates(), [](const LiveRates& of) { return of.prompt; }, width)},
       {"first token", last.first_token ? brief_seconds(*last.first_token) : "–", ""}}};
  draw_figures(canvas, box, box.y + 1, figures);
  draw_totals(scene, canvas, box, box.y + 2);
}

void draw_keys(Canvas& canvas, Box box) {
  constexpr std::array<std::string_view, 11> kLines{
      "1 or a    all at a glance",
      "2 or b    the block map",
      "3 or l    requests as lanes on a time axis",
      "4 or r    the last requests, and why no more of each was reused",
      "5 or t    tenants and their shares",
      "tab       the next of these",
      "c         colour blocks by state, tenant, policy or age",
      "+ -       a shorter or longer time axis;  ← →  back in time, up to ten minutes",
      "↑ ↓       choose a request; escape lets go",
      "space     hold still",
      "q         leave"};
  canvas.text(box.x, box.y, "Keys", kTitle);
  for (size_t i = 0; i < kLines.size() && static_cast<int>(i) + 2 < box.height; ++i)
    canvas.text(box.x + 2, box.y + 2 + static_cast<int>(i), kLines[i], {}, box.x + box.width);
}

void draw_tenants(const TopScene& scene, Canvas& canvas, Box box) {
  const LivePicture& picture = scene.picture;
  const int end = box.x + box.width;
  canvas.text(box.x, box.y, "Tenants", kTitle, end);
  if (!picture.numbers()) return;
  const auto all = static_cast<double>(std::max<std::int64_t>(picture.server().kv_bytes, 1));
  canvas.text(box.x, box.y + 1,
              fmt::format("{:<20} {:>10} {:>6}  {:<20}  {:>9} {:>7} {:>8}", "tenant", "has", "share", "", "asked",
                          "reused", "evicted"),
              kQuiet, end);
  int y = box.y + 2;
  for (const LiveTenant& one : picture.numbers()->tenants) {
    if (y >= box.y + box.height) break;
    const auto bytes = static_cast<double>(one.bytes);
    std::string bar;
    for (int i = 0; i < 20; ++i) bar += i < bytes / all * 20 ? "█" : "·";
    canvas.text(box.x, y, picture.tenant_name(one.id), {}, std::min(box.x + 20, end));
    canvas.text(
        box.x + 20, y++,
        fmt::format(" {:>10} {:>6}  {}  {:>9} {:>7} {:>8}", format_bytes(static_cast<std::uint64_t>(one.bytes)),
                    brief_share(bytes, all), bar, brief_count(static_cast<double>(one.queried)),
                    brief_share(static_cast<double>(one.hit), static_cast<double>(one.queried)),
                    brief_count(static_cast<double>(one.evicted))),
        {}, end);
  }
}

void draw_top(const TopScene& scene, Canvas& canvas) {
  const Box all{0, 0, canvas.width(), canvas.height()};
  draw_summary(scene, canvas, {0, 0, all.width, 3});
  const Box rest{0, 4, all.width, std::max(all.height - 5, 1)};
  if (scene.choice.help) {
    draw_keys(canvas, rest);
  } else {
    switch (scene.choice.page) {
      case TopPage::kAll:
        draw_all(scene, canvas, rest);
        break;
      case TopPage::kBlocks:
        draw_blocks(scene, canvas, rest);
        break;
      case TopPage::kLanes:
        draw_lanes(scene, canvas, rest);
        break;
      case TopPage::kRequests:
        draw_requests(scene, canvas, rest);
        break;
      case TopPage::kTenants:
        draw_tenants(scene, canvas, rest);
        break;
    }
  }
  if (scene.choice.plain || all.height < 6) return;
  canvas.text(0, all.height - 1,
              " 1 all  2 blocks  3 lanes  4 requests  5 tenants  c colour  space hold  ? keys  q leave ",
              {Ink::kPlain, false, true});
}

}  // namespace kvasir
