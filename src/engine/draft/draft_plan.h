// Which rows of each draft are worth their time in the next step.
//
// A step of n rows takes t(n) and brings a token for each sequence that decodes; a verified draft brings more, each
// with the chance that it and all before it are right. The likeliest tokens of all drafts go first, and as many of
// them as make tokens per second the most: none, where none pays. So a draft has as many branches as pay, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/draft/acceptance.h"
#include "engine/draft/drafter.h"
#include "engine/draft/pass_costs.h"

namespace kvasir {

struct DraftOffer {
  const Draft* draft = nullptr;  // of at most 64 tokens
  const Acceptance* acceptance = nullptr;
};

struct StepOutlook {
  int rows = 0;      // without drafts
  int decoding = 0;  // of them: sequences that get a token
  int most = 0;      // rows that may be added
};

class DraftPlan {
 public:
  // Which tokens of the offers' drafts are verified; none where nothing pays.
  struct Choice {
    std::vector<std::uint64_t> tokens;  // [offers]: bit i: the i-th, with all that stand before it on its path
    double tokens_per_second = 0;
    double plain_tokens_per_second = 0;
    bool pays = false;
  };

  // Kept between steps, so that one allocates nothing. Valid until the next call.
  const Choice& choose(std::span<const DraftOffer> offers, const StepOutlook& outlook, const PassCosts& costs);
  const Choice& last() const { return choice_; }

 private:
  struct Row {
    double gain = 0;
    std::size_t offer = 0;
    std::size_t token = 0;
  };

  std::vector<Row> rows_;
  std::vector<double> reaches_;
  Choice choice_;
};

}  // namespace kvasir
