// What a pass of a model over so many rows takes, measured.
#pragma once

#include <array>
#include <cstddef>

namespace kvasir {

class PassCosts {
 public:
  // A pass of so many rows, each of which was sampled from, took so long.
  void measure(int rows, double seconds);

  // The estimate: measured, or between what was measured of fewer rows and of more, or as much more than of the
  // nearest as these rows cost in a prompt.
  double seconds(int rows) const;
  bool known() const { return known_; }  // anything
  void set_row_seconds(double seconds) { row_seconds_ = seconds; }

 private:
  static constexpr std::size_t kSizes = 28;
  struct Average {
    double seconds = 0;
    int rows = 0;  // 0: never measured
    int seen = 0;
  };

  static std::size_t size_of(int rows);

  std::array<Average, kSizes> of_{};
  double row_seconds_ = 1e-3;
  bool known_ = false;
};

}  // namespace kvasir
