#include "eval/svg_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kvasir::testing {
namespace {

// Whether tags nest, attributes are quoted, and no text holds a bare < or &: what a strict reader asks for.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&') {
      const size_t end = xml.find(';', i);
      if (end == std::string::npos || end - i > 6) return false;
    }
    if (xml[i] != '<') continue;
    const size_t end = xml.find('>', i);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (tag.find('<') != std::string::npos || std::ranges::count(tag, '"') % 2 != 0) return false;
    const bool closes = tag.starts_with('/');
    const std::string name = tag.substr(closes ? 1 : 0, tag.find_first_of(" /", closes ? 1 : 0) - (closes ? 1 : 0));
    if (closes) {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    i = end;
  }
  return open.empty();
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(SvgChart, TheCheckItselfFindsFaults) {
  EXPECT_TRUE(well_formed("<a b=\"c\"><d/>x &amp; y</a>"));
  for (const char* wrong : {"<a>", "<a></b>", "<a b=\"c></a>", "<a>1 & 2</a>", "<a><b</a>"}) {
    EXPECT_FALSE(well_formed(wrong)) << wrong;
  }
}

TEST(SvgChart, IsWellFormedWhateverTheTextsAre) {
  Chart chart{"a < b & \"c\"", "x > 1", "<script>", Chart::Scale::kLog, Chart::Scale::kLog, {}};
  chart.series.push_back({"k=int8, v=<int4>", {{100, 1e-5, {}}, {50, 0.1, "x & y"}}});
  chart.series.push_back({"line", {{10, 1, {}}, {20, 2, {}}}, ChartSeries::Style::kLine});
  const std::string page = svg_page(std::vector<Chart>{chart, chart});
  EXPECT_TRUE(well_formed(page)) << page;
  EXPECT_EQ(page.find("<script>"), std::string::npos);
  EXPECT_EQ(count(page, "<circle"), 4U);
  EXPECT_EQ(count(page, "<polyline"), 2U);
}

TEST(SvgChart, LeavesOutWhatALogarithmCannotShowAndDrawsNothingOfNothing) {
  Chart chart{"t", "x", "y", Chart::Scale::kLog, Chart::Scale::kLog, {}};
  chart.series.push_back({"zero", {{1, 0, {}}, {2, std::numeric_limits<double>::quiet_NaN(), {}}}});
  const std::string empty = svg_page(std::vector<Chart>{chart});
  EXPECT_TRUE(well_formed(empty));
  EXPECT_EQ(count(empty, "<circle"), 0U);
  chart.series.push_back({"one", {{3, 4, {}}}});
  const std::string page = svg_page(std::vector<Chart>{chart});
  EXPECT_EQ(count(page, "<circle"), 1U);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(page.find("inf"), std::string::npos);
}

TEST(SvgChart, LabelsOfPointsInOnePlaceDoNotCoverEachOther) {
  Chart chart{"t", "x", "y", Chart::Scale::kLinear, Chart::Scale::kLinear, {}};
  for (int i = 0; i < 5; ++i) chart.series.push_back({"label" + std::to_string(i), {{1, 1, {}}}});
  const std::string page = svg_page(std::vector<Chart>{chart});
  std::vector<double> places;
  for (int i = 0; i < 5; ++i) {
    const size_t at = page.rfind("y=\"", page.find(">label" + std::to_string(i)));
    places.push_back(std::stod(page.substr(at + 3)));
  }
  std::ranges::sort(places);
  for (size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i] - places[i - 1], 13.9);
}

TEST(SvgChart, WritesLargeTicksAndZeroAsPeopleDo) {
  Chart chart{"t", "x", "y", Chart::Scale::kLinear, Chart::Scale::kLinear, {}};
  chart.series.push_back({"line", {{10'000, -1e6, {}}, {1'000'000, 1, {}}}, ChartSeries::Style::kLine});
  const std::string page = svg_page(std::vector<Chart>{chart});
  EXPECT_EQ(count(page, ">1,000,000<"), 1U) << page;
  EXPECT_EQ(count(page, ">200,000<"), 1U);
  EXPECT_EQ(count(page, ">-200,000<"), 1U);
  EXPECT_EQ(count(page, ">0<"), 2U);
  EXPECT_EQ(page.find(">-0<"), std::string::npos);
}

TEST(SvgChart, ALongLabelStaysInsideThePage) {
  Chart chart{"t", "x", "y", Chart::Scale::kLinear, Chart::Scale::kLinear, {}};
  chart.series.push_back({std::string(40, 'w'), {{0, 0, {}}, {1, 1, {}}}, ChartSeries::Style::kLine});
  const std::string page = svg_page(std::vector<Chart>{chart});
  const size_t at = page.rfind("<text x=\"", page.find(">wwww"));
  EXPECT_LE(std::stod(page.substr(at + 9)) + 40 * 7, 640);
}

}  // namespace
}  // namespace kvasir::testing
