// What a recorded batch was sent beside its tables: where its ops look for tokens and places, so that others can be
// laid there when it comes again.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace kvasir::cuda {

class SentInputs {
 public:
  void begin(std::span<const std::vector<SequenceView>> groups) {
    groups_.assign(groups.begin(), groups.end());
    tokens_ = nullptr;
    places_ = nullptr;
    count_ = 0;
  }
  // Both on the device.
  const TokenId* note_tokens(const TokenId* at) {
    ++count_;
    return tokens_ = at;
  }
  const std::int32_t* note_places(const std::int32_t* at) {
    ++count_;
    return places_ = at;
  }
  void note_other() { ++count_; }

  // Whether one array of each kind was all.
  bool complete() const { return count_ == 2 && tokens_ != nullptr && places_ != nullptr; }
  bool are_at(const TokenId* tokens, const std::int32_t* places) const {
    return tokens == tokens_ && places == places_;
  }
  bool are_of(std::span<const std::vector<SequenceView>> groups) const {
    return std::ranges::equal(groups, groups_, [](std::span<const SequenceView> a, std::span<const SequenceView> b) {
      return a.data() == b.data() && a.size() == b.size();
    });
  }

 private:
  std::vector<std::span<const SequenceView>> groups_;  // the caller's, by which ops know them
  const TokenId* tokens_ = nullptr;
  const std::int32_t* places_ = nullptr;
  int count_ = 0;
};

}  // namespace kvasir::cuda
