#include "eval/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr double kWidth = 640;  // of a panel
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kRight = 130;  // labels of the last points stand there
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr double kLabelHeight = 14;
constexpr std::array kColours{"#2f6fde", "#d9822b", "#2a9d5c", "#b0419a", "#b03a2e", "#4a5568"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// One axis: from values to places between `from` and `to`.
class Axis {
 public:
  Axis(Chart::Scale scale, std::vector<double> values, double from, double to) : scale_(scale), from_(from), to_(to) {
    if (values.empty()) values = {1, 10};
    const auto [least, most] = std::ranges::minmax(values);
    if (scale == Chart::Scale::kLog) {
      low_ = least / 2;
      high_ = most * 2;
    } else {
      const double margin = most > least ? 0.08 * (most - least) : std::max(1e-9, 0.1 * std::abs(most));
      low_ = least - margin;
      high_ = most + margin;
    }
  }

  double at(double value) const {
    const bool log = scale_ == Chart::Scale::kLog;
    const double share = log ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + (to_ - from_) * share;
  }

  std::vector<double> ticks() const {
    std::vector<double> out;
    if (scale_ == Chart::Scale::kLog) {
      const int first = static_cast<int>(std::floor(std::log10(low_)));
      const int last = static_cast<int>(std::ceil(std::log10(high_)));
      const bool wide = last - first > 4;  // then only whole decades
      for (int e = first; e <= last; ++e) {
        for (const double m : {1.0, 2.0, 5.0}) {
          const double tick = m * std::pow(10.0, e);
          if (tick >= low_ && tick <= high_ && (m == 1.0 || !wide)) out.push_back(tick);
        }
      }
      return out;
    }
    const double rough = (high_ - low_) / 6;
    const double decade = std::pow(10.0, std::floor(std::log10(rough)));
    const double step = decade * (rough / decade > 5 ? 10 : rough / decade > 2 ? 5 : rough / decade > 1 ? 2 : 1);
    for (double i = std::ceil(low_ / step); i * step <= high_; ++i) out.push_back(i * step);
    return out;
  }

 private:
  Chart::Scale scale_;
  double from_;
  double to_;
  double low_ = 0;
  double high_ = 1;
};

bool shown(const Chart& chart, const ChartPoint& point) {
  const bool x = chart.x_scale == Chart::Scale::kLinear || point.x > 0;
  const bool y = chart.y_scale == Chart::Scale::kLinear || point.y > 0;
  return x && y && std::isfinite(point.x) && std::isfinite(point.y);
}

// 1,000,000 and not 1e+06; what rounding makes of 0 is 0.
std::string tick_text(double tick) {
  std::string text = fmt::format("{:.6g}", std::abs(tick) < 1e-12 ? 0.0 : tick);
  if (std::abs(tick) < 1000 || std::abs(tick) >= 1e15) return text;
  text = fmt::format("{:.0f}", tick);
  const size_t digits = text.find_first_of("0123456789");
  for (size_t at = text.size(); at > digits + 3;) text.insert(at -= 3, ",");
  return text;
}

class Panel {
 public:
  Panel(const Chart& chart, double left)
      : chart_(chart),
        left_(left),
        x_(chart.x_scale, values(&ChartPoint::x), left + kLeft, left + kWidth - kRight),
        y_(chart.y_scale, values(&ChartPoint::y), kHeight - kBottom, kTop) {}

  std::string draw() {
    frame();
    for (size_t i = 0; i < chart_.series.size(); ++i) draw_series(chart_.series[i], kColours[i % kColours.size()]);
    return out_;
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  std::vector<double> values(double ChartPoint::*member) const {
    std::vector<double> out;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        if (shown(chart_, point)) out.push_back(point.*member);
      }
    }
    return out;
  }

  void frame() {
    const double right = left_ + kWidth - kRight;
    const double bottom = kHeight - kBottom;
    put(R"(<text x="{:.1f}" y="26" font-size="16" font-weight="bold">{}</text>)", left_ + kLeft,
        escaped(chart_.title));
    for (const double tick : y_.ticks()) {
      const double y = y_.at(tick);
      put(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", left_ + kLeft, right, y, y);
      put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", left_ + kLeft - 8, y + 4, tick_text(tick));
    }
    for (const double tick : x_.ticks()) {
      const double x = x_.at(tick);
      put(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", x, x, kTop, bottom);
      put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", x, bottom + 18, tick_text(tick));
    }
    const double middle = (kTop + bottom) / 2;
    put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", (left_ + kLeft + right) / 2, kHeight - 14,
        escaped(chart_.x_label));
    put(R"x(<text x="{0:.1f}" y="{1:.1f}" text-anchor="middle" transform="rotate(-90 {0:.1f} {1:.1f})">{2}</text>)x",
        left_ + 18, middle, escaped(chart_.y_label));
  }

  void draw_series(const ChartSeries& series, const char* colour) {
    std::string path;
    const ChartPoint* last = nullptr;
    for (const ChartPoint& point : series.points) {
      if (!shown(chart_, point)) continue;
      last = &point;
      path += fmt::format("{:.1f},{:.1f} ", x_.at(point.x), y_.at(point.y));
    }
    if (last == nullptr) return;
    if (series.style == ChartSeries::Style::kLine) {
      put(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)", path, colour);
      label(x_.at(last->x), y_.at(last->y), series.label, colour);
      return;
    }
    for (const ChartPoint& point : series.points) {
      if (!shown(chart_, point)) continue;
      put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="{}"/>)", x_.at(point.x), y_.at(point.y), colour);
      label(x_.at(point.x), y_.at(point.y), point.label.empty() ? series.label : point.label, colour);
    }
  }

  // To the right of its point, but inside the panel, moved down until it covers no other label.
  void label(double x, double y, const std::string& text, const char* colour) {
    if (text.empty()) return;
    const double width = 7.0 * static_cast<double>(text.size());
    Place place{std::clamp(left_ + kWidth - width - 4, left_, x + 8), y + 4, width};
    const auto covers = [&place](const Place& other) {
      return std::abs(other.y - place.y) < kLabelHeight && other.x < place.x + place.width &&
             place.x < other.x + other.width;
    };
    while (std::ranges::any_of(labels_, covers)) place.y += kLabelHeight / 2;
    labels_.push_back(place);
    put(R"(<text x="{:.1f}" y="{:.1f}" style="fill:{}">{}</text>)", place.x, place.y, colour, escaped(text));
  }

  struct Place {
    double x = 0;
    double y = 0;
    double width = 0;
  };

  const Chart& chart_;
  double left_;
  Axis x_;
  Axis y_;
  std::vector<Place> labels_;
  std::string out_;
};

}  // namespace

std::string svg_page(std::span<const Chart> panels) {
  const double width = kWidth * static_cast<double>(panels.size());
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif" font-size="13">
<style>text{{fill:#333}}.grid{{stroke:#ddd;stroke-width:1}}</style>
<rect width="{0:.0f}" height="{1:.0f}" rx="8" fill="#fff"/>
)",
      width, kHeight);
  double left = 0;
  for (const Chart& chart : panels) {
    out += Panel(chart, left).draw();
    left += kWidth;
  }
  return out + "</svg>\n";
}

void write_svg(const std::string& path, std::span<const Chart> panels) {
  std::ofstream file(path, std::ios::binary);
  file << svg_page(panels);
  file.close();
  if (!file) fail_system("it cannot be written", path, "check that the folder exists and is yours to write to");
}

}  // namespace kvasir
