#include "engine/draft/draft.h"

#include <algorithm>

namespace kvasir {

std::size_t DraftView::chain_length() const {
  std::size_t length = 0;
  while (length < size() && parents[length] == static_cast<std::int32_t>(length) - 1) ++length;
  return length;
}

std::int32_t DraftView::find(std::int32_t parent, TokenId token) const {
  for (auto i = static_cast<std::size_t>(parent + 1); i < size(); ++i) {
    if (parents[i] == parent && tokens[i] == token) return static_cast<std::int32_t>(i);
  }
  return -1;
}

int DraftView::depth(std::size_t place) const {
  int depth = 0;
  for (std::int32_t at = parents[place]; at >= 0; at = parents[static_cast<std::size_t>(at)]) ++depth;
  return depth;
}

void Draft::cut(std::size_t length) {
  if (length >= tokens.size()) return;
  tokens.resize(length);
  confidence.resize(length);
  parents.resize(length);
}

bool Draft::stands_beside(std::int32_t place) const {
  const std::int32_t parent = parents[static_cast<std::size_t>(place)];
  if (parent == place - 1) return false;
  return std::find(parents.begin() + parent + 1, parents.begin() + place, parent) != parents.begin() + place;
}

void Draft::follow(TokenId token) {
  const std::int32_t root = view().find(-1, token);
  if (root < 0) return clear();
  constexpr std::int32_t kGone = -2;
  std::int32_t left = 0;
  for (std::int32_t i = 0; i < size(); ++i) {
    const std::int32_t parent = parents[static_cast<std::size_t>(i)];
    const std::int32_t now = i == root ? -1 : parent < 0 ? kGone : places_[static_cast<std::size_t>(parent)];
    if (i == root || now == kGone) {
      places_.push_back(now);
      continue;
    }
    places_.push_back(left);
    move_token(i, left++, now);
  }
  places_.clear();
  cut(static_cast<std::size_t>(left));
}

}  // namespace kvasir
