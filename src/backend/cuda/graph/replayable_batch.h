// Addresses that the last recorded batch reads (sequences, tokens, rope rows), so that it can run again on new data
// without recording its ops.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace kvasir::cuda {

class ReplayableBatch {
 public:
  // Begins another batch; the one before cannot be replayed any more.
  void begin(std::span<const std::vector<SequenceView>> groups) {
    ++id_;
    groups_.assign(groups.begin(), groups.end());
    tokens_ = nullptr;
    rope_rows_ = nullptr;
    sent_ = 0;
  }
  // Notes the device address of an upload.
  const TokenId* note_tokens(const TokenId* at) {
    ++sent_;
    return tokens_ = at;
  }
  const std::int32_t* note_rope_rows(const std::int32_t* at) {
    ++sent_;
    return rope_rows_ = at;
  }
  void note_other() { ++sent_; }
  // Ends the recording after `ops` ops. Returns an id if the batch can be replayed: it uploaded its tokens and its
  // rope rows, once each, and nothing else.
  BatchId end(size_t ops) {
    ops_ = ops;
    return sent_ == 2 && tokens_ != nullptr && rope_rows_ != nullptr ? id_ : kNoBatch;
  }

  bool is(BatchId id, std::span<const std::vector<SequenceView>> groups) const {
    const auto at_its_place = [](std::span<const SequenceView> a, std::span<const SequenceView> b) {
      return a.data() == b.data() && a.size() == b.size();
    };
    return id != kNoBatch && id == id_ && std::ranges::equal(groups, groups_, at_its_place);
  }
  bool looks_at(const TokenId* tokens, const std::int32_t* rope_rows) const {
    return tokens == tokens_ && rope_rows == rope_rows_;
  }
  size_t ops() const { return ops_; }

 private:
  BatchId id_ = kNoBatch;                              // counts batches; returned for replayable ones only
  std::vector<std::span<const SequenceView>> groups_;  // the caller's, which the ops refer to
  const TokenId* tokens_ = nullptr;
  const std::int32_t* rope_rows_ = nullptr;
  int sent_ = 0;
  size_t ops_ = 0;
};

}  // namespace kvasir::cuda
