// The reference's logits of the chunk that is being read: the only ones that are kept.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace kvasir {

class ReferenceRows {
 public:
  void clear() { filled_ = 0; }

  // Positions ascend by one.
  void add(Position position, std::span<const float> row) {
    if (filled_ == 0) first_ = position;
    CHECK(position == first_ + static_cast<Position>(filled_));
    if (rows_.size() == filled_) rows_.emplace_back();
    rows_[filled_++].assign(row.begin(), row.end());
  }

  Position first() const { return first_; }
  size_t size() const { return filled_; }
  const std::vector<float>& at(Position position) const {
    CHECK(position >= first_ && position < first_ + static_cast<Position>(filled_));
    return rows_[static_cast<size_t>(position - first_)];
  }

 private:
  Position first_ = 0;
  std::vector<std::vector<float>> rows_;  // kept between chunks, so that their memory is
  size_t filled_ = 0;
};

}  // namespace kvasir
