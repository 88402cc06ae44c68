#include "text/score_merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_set>

#include "base/error.h"
#include "text/pieces.h"
#include "text/tokenizer_json.h"

namespace kvasir {
namespace {

[[noreturn]] void fail_scores(std::string what, const std::string& where) {
  fail_input(std::move(what), where, "the file is damaged; download or convert it again");
}

std::vector<float> distinct_scores(std::vector<float> scores, const std::string& where) {
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); }))
    fail_scores("a score is not a number", where);
  std::ranges::sort(scores, std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  return scores;
}

}  // namespace

std::vector<TokenizerSpec::Merge> merges_by_score(const std::vector<std::pair<std::string, TokenId>>& vocab,
                                                  const std::vector<float>& scores, const std::string& where) {
  std::unordered_set<std::string_view> pieces;
  pieces.reserve(vocab.size());
  for (const auto& [text, id] : vocab) {
    if (!byte_of_piece(text)) pieces.insert(text);
  }
  const std::vector<float> ranks = distinct_scores(scores, where);
  std::vector<TokenizerSpec::Merge> merges;
  for (const auto& [text, id] : vocab) {
    if (!pieces.contains(text)) continue;
    if (text.size() > kMaxAddedTokenBytes)
      fail_scores(fmt::format("the token {} has {} bytes", id, text.size()), where);
    const auto rank =
        std::ranges::lower_bound(ranks, scores[static_cast<size_t>(id)], std::greater<>()) - ranks.begin();
    const std::string_view whole = text;
    for (size_t cut = 1; cut < whole.size(); ++cut) {
      if (!pieces.contains(whole.substr(0, cut)) || !pieces.contains(whole.substr(cut))) continue;
      merges.push_back(
          {std::string(whole.substr(0, cut)), std::string(whole.substr(cut)), static_cast<std::int32_t>(rank)});
    }
  }
  return merges;
}

}  // namespace kvasir
