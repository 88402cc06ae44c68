// Charts as SVG text: panels side by side, each with axes, a grid and labelled series.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvasir {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string label;  // beside the point; may be empty
};

struct ChartSeries {
  enum class Style : std::uint8_t { kDots, kLine };
  std::string label;  // at the end of a line; may be empty
  std::vector<ChartPoint> points;
  Style style = Style::kDots;
};

// Points that a logarithmic axis cannot show, 0 and below, are left out.
struct Chart {
  enum class Scale : std::uint8_t { kLinear, kLog };
  std::string title;
  std::string x_label;
  std::string y_label;
  Scale x_scale = Scale::kLinear;
  Scale y_scale = Scale::kLinear;
  std::vector<ChartSeries> series;
};

// A whole SVG document. Texts may hold anything: they are escaped.
std::string svg_page(std::span<const Chart> panels);

// Throws Error when the file cannot be written.
void write_svg(const std::string& path, std::span<const Chart> panels);

}  // namespace kvasir
