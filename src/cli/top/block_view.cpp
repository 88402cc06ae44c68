// The block map: a character for each block, or for several where there is no room.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "cli/top/views.h"

namespace kvasir {
namespace {

constexpr double kFlashSeconds = 0.8;
constexpr size_t kSights = 6;
constexpr std::array<std::string_view, kSights> kSightNames{"absent", "free", "in use", "shared", "cached", "pinned"};
constexpr std::array<std::string_view, kSights> kSightLetters{" ", ".", "u", "s", "c", "p"};
constexpr std::array<Ink, kSights> kSightInks{Ink::kPlain,  Ink::kGrey, Ink::kGreen,
                                              Ink::kYellow, Ink::kBlue, Ink::kMagenta};
constexpr std::array<Ink, 6> kHues{Ink::kGreen, Ink::kBlue, Ink::kYellow, Ink::kMagenta, Ink::kCyan, Ink::kRed};
constexpr std::array<double, 5> kAges{1, 10, 60, 300, 1800};
constexpr std::array<std::string_view, 6> kAgeNames{"under 1 s",   "under 10 s",   "under 1 min",
                                                    "under 5 min", "under 30 min", "older"};
constexpr std::array<std::string_view, 4> kColourNames{"state", "tenant", "policy", "age"};

// What a block is counted and coloured as. Free blocks are free however others are coloured.
int kind_of(const LiveCell& cell, CellColour by, double now) {
  if (by == CellColour::kState) return static_cast<int>(cell.sight);
  if (cell.sight == BlockSight::kFree || cell.sight == BlockSight::kAbsent) return -1;
  if (by == CellColour::kTenant) return static_cast<int>(std::max<std::int64_t>(cell.tenant, 0));
  if (by == CellColour::kPolicy) return static_cast<int>(cell.group);
  const bool held = cell.sight == BlockSight::kInUse || cell.sight == BlockSight::kShared;
  const double age = held ? 0 : now - cell.used;
  return static_cast<int>(std::ranges::find_if(kAges, [age](double bound) { return age < bound; }) - kAges.begin());
}

struct CellLook {
  std::string text;
  TextStyle style;
};

CellLook look_of(int kind, const TopChoice& choice) {
  if (kind < 0) return {choice.plain ? "." : "·", {Ink::kGrey, false, false}};
  const auto n = static_cast<size_t>(kind);
  if (choice.colour_by == CellColour::kState) {
    if (choice.plain) return {std::string(kSightLetters[n]), {}};
    return {kind == static_cast<int>(BlockSight::kFree) ? "·" : "■", {kSightInks[n], false, false}};
  }
  if (choice.plain) return {std::string(1, static_cast<char>('a' + n % 26)), {}};
  return {"■", {kHues[n % kHues.size()], false, false}};
}

std::string name_of_kind(int kind, const TopScene& scene) {
  if (kind < 0) return "free";
  const auto n = static_cast<size_t>(kind);
  switch (scene.choice.colour_by) {
    case CellColour::kState:
      return std::string(kSightNames[n]);
    case CellColour::kTenant:
      return scene.picture.tenant_name(kind);
    case CellColour::kPolicy:
      return n < scene.picture.policies().size() ? scene.picture.policies()[n] : "a policy";
    case CellColour::kAge:
      break;
  }
  return std::string(kAgeNames[n]);
}

// What just happened to a block is shown in its place for a moment.
CellLook flash_of(const std::string& change) {
  if (change == "evicted") return {"x", {Ink::kRed, true, false}};
  if (change == "hit") return {"+", {Ink::kBright, true, false}};
  if (change == "taken") return {"■", {Ink::kBright, true, false}};
  if (change == "moved") return {"~", {Ink::kCyan, true, false}};
  return {};
}

// Several blocks in one character: as most of them are; of equals, as the later kind, which is the busier one.
int majority(const std::map<int, int>& counts) {
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first;
}

void draw_legend(const TopScene& scene, Canvas& canvas, Box box, size_t each) {
  std::map<int, std::int64_t> counts;
  for (const auto& [id, cell] : scene.picture.cells()) ++counts[kind_of(cell, scene.choice.colour_by, scene.now)];
  const int end = box.x + box.width;
  const std::string title = fmt::format("{} blocks by {}  ", scene.picture.cells().size(),
                                        kColourNames[static_cast<size_t>(scene.choice.colour_by)]);
  int x = canvas.text(box.x, box.y, title, {Ink::kPlain, true, false}, end);
  for (const auto& [kind, count] : counts) {
    const CellLook look = look_of(kind, scene.choice);
    x = canvas.text(x, box.y, look.text, look.style, end);
    x = canvas.text(x + 1, box.y, fmt::format("{} {}", name_of_kind(kind, scene), count), {}, end) + 2;
  }
  if (each > 1) canvas.text(x, box.y, fmt::format("({} in a character)", each), {Ink::kGrey, false, false}, end);
}

}  // namespace

int block_rows(const LivePicture& picture, int width) {
  const int cells = static_cast<int>(picture.cells().size());
  return 1 + std::max((cells + width - 1) / std::max(width, 1), 1);
}

void draw_blocks(const TopScene& scene, Canvas& canvas, Box box) {
  const auto& cells = scene.picture.cells();
  const auto room = static_cast<size_t>(std::max(box.width * (box.height - 1), 1));
  const size_t each = std::max<size_t>((cells.size() + room - 1) / room, 1);
  draw_legend(scene, canvas, box, each);
  size_t place = 0;
  for (auto cell = cells.begin(); cell != cells.end(); ++place) {
    std::map<int, int> kinds;
    CellLook flash;
    for (size_t i = 0; i < each && cell != cells.end(); ++i, ++cell) {
      ++kinds[kind_of(cell->second, scene.choice.colour_by, scene.now)];
      const bool fresh = scene.now - cell->second.changed < kFlashSeconds;
      if (fresh && !scene.choice.plain) flash = flash_of(cell->second.change);
    }
    const CellLook look = flash.text.empty() ? look_of(majority(kinds), scene.choice) : flash;
    const auto width = static_cast<size_t>(box.width);
    canvas.text(box.x + static_cast<int>(place % width), box.y + 1 + static_cast<int>(place / width), look.text,
                look.style);
  }
}

}  // namespace kvasir
