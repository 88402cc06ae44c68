// What must be known of the last recorded batch so that it can come again without its ops: where these look for
// sequences, tokens and places, so that others can be laid there.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace kvasir::cuda {

class RepeatableBatch {
 public:
  // Another batch: from now on the one before cannot come again.
  void begin(std::span<const std::vector<SequenceView>> groups) {
    ++id_;
    groups_.assign(groups.begin(), groups.end());
    tokens_ = nullptr;
    places_ = nullptr;
    sent_ = 0;
  }
  // What it is sent; both on the device.
  const TokenId* note_tokens(const TokenId* at) {
    ++sent_;
    return tokens_ = at;
  }
  const std::int32_t* note_places(const std::int32_t* at) {
    ++sent_;
    return places_ = at;
  }
  void note_other() { ++sent_; }
  // It was recorded to its end, so many ops. It can come again, under its id, if one array of each kind was all that
  // it was sent.
  BatchId end(size_t ops) {
    ops_ = ops;
    return sent_ == 2 && tokens_ != nullptr && places_ != nullptr ? id_ : kNoBatch;
  }

  bool is(BatchId id, std::span<const std::vector<SequenceView>> groups) const {
    const auto at_its_place = [](std::span<const SequenceView> a, std::span<const SequenceView> b) {
      return a.data() == b.data() && a.size() == b.size();
    };
    return id != kNoBatch && id == id_ && std::ranges::equal(groups, groups_, at_its_place);
  }
  bool looks_at(const TokenId* tokens, const std::int32_t* places) const {
    return tokens == tokens_ && places == places_;
  }
  size_t ops() const { return ops_; }

 private:
  BatchId id_ = kNoBatch;  // batches that were begun; told of those alone that can come again
  std::vector<std::span<const SequenceView>> groups_;  // the caller's, by which ops know them
  const TokenId* tokens_ = nullptr;
  const std::int32_t* places_ = nullptr;
  int sent_ = 0;
  size_t ops_ = 0;
};

}  // namespace kvasir::cuda
