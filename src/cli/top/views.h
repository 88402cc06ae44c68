// What kvasir top shows of a picture: a bar of rates above one of several pages. Each part draws itself into a box.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/top/canvas.h"
#include "cli/top/live_picture.h"

namespace kvasir {

enum class TopPage : std::uint8_t { kAll, kBlocks, kLanes, kRequests, kTenants };
enum class CellColour : std::uint8_t { kState, kTenant, kPolicy, kAge };

// What its user chose.
struct TopChoice {
  TopPage page = TopPage::kAll;
  CellColour colour_by = CellColour::kState;
  double span = 60;  // seconds of the lanes' axis, …
  double back = 0;   // … and how far its end is moved back
  int chosen = -1;   // of the finished requests, the newest first; -1: none
  bool help = false;
  bool plain = false;  // no colours: letters tell states
};

struct TopScene {
  const LivePicture& picture;
  TopChoice choice;
  double now = 0;           // on the picture's clock
  std::string_view status;  // "live", "no connection"
};

void draw_top(const TopScene& scene, Canvas& canvas);

// The parts. Each writes the title of its section into the first row of the box.
void draw_summary(const TopScene& scene, Canvas& canvas, Box box);  // three rows
void draw_blocks(const TopScene& scene, Canvas& canvas, Box box);
void draw_lanes(const TopScene& scene, Canvas& canvas, Box box);
void draw_requests(const TopScene& scene, Canvas& canvas, Box box);
void draw_tenants(const TopScene& scene, Canvas& canvas, Box box);
void draw_keys(Canvas& canvas, Box box);

// How many rows draw_blocks could use, its title with them.
int block_rows(const LivePicture& picture, int width);

// "1,234", "12.3k": at most six columns.
std::string brief_count(double count);
std::string brief_seconds(double seconds);  // "312 ms", "1.2 s", "4 min 10 s"
std::string brief_share(double part, double whole);

}  // namespace kvasir
