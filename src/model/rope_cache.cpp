#include "model/rope_cache.h"

#include <algorithm>
#include <numeric>

#include "backend/rope.h"
#include "base/check.h"

namespace kvasir {

RopeCache::RopeCache(Backend& backend, Angles angles, Position context, int most_rows)
    : backend_(backend),
      frequencies_(std::move(angles.frequencies)),
      magnitude_(static_cast<float>(angles.magnitude)),
      query_scale_(std::move(angles.query_scale)),
      remembered_((std::clamp(context, kAtLeast, kAtMost) + kTogether - 1) / kTogether * kTogether),
      most_rows_(most_rows),
      known_(static_cast<size_t>(remembered_ / kTogether)) {
  const auto rope_rows = static_cast<size_t>(remembered_ + 2 * most_rows_);
  cos_ = backend.allocate(rope_rows * frequencies_.size() * sizeof(float));
  sin_ = backend.allocate(rope_rows * frequencies_.size() * sizeof(float));
  if (query_scale_) scale_ = backend.allocate(rope_rows * sizeof(float));
}

void RopeCache::find(Use use, std::span<const Position> positions, std::vector<std::int32_t>& rope_rows) {
  rope_rows.clear();
  far_.clear();
  const Position own = remembered_ + (use == Use::kRows ? 0 : most_rows_);
  for (size_t i = 0; i < positions.size(); ++i) {
    const Position position = positions[i];
    if (position < 0 || position >= remembered_) {
      rope_rows.push_back(static_cast<std::int32_t>(own + std::ssize(far_)));
      far_.push_back(position);
      continue;
    }
    if (!known_[static_cast<size_t>(position / kTogether)]) remember(positions.subspan(i));
    rope_rows.push_back(static_cast<std::int32_t>(position));
  }
  CHECK(std::ssize(far_) <= most_rows_);
  if (!far_.empty()) put(far_, own);
}

RopeTable RopeCache::at(const std::int32_t* rope_rows) const {
  return {cos_.as<float>(), sin_.as<float>(), static_cast<int>(frequencies_.size()), rope_rows, scale_.as<float>()};
}

// The neighbours of the first one, and the next ones as long as those behind it go on into them.
void RopeCache::remember(std::span<const Position> wanted) {
  const auto first = static_cast<size_t>(wanted.front() / kTogether);
  size_t end = first;
  for (const Position position : wanted) {
    const auto at = static_cast<size_t>(position / kTogether);
    if (at + 1 == end) continue;
    if (at != end || at >= known_.size() || known_[at] || end - first == kMostTogether) break;
    ++end;
  }
  near_.resize((end - first) * static_cast<size_t>(kTogether));
  std::iota(near_.begin(), near_.end(), static_cast<Position>(first) * kTogether);
  put(near_, near_.front());
  std::fill(known_.begin() + static_cast<std::ptrdiff_t>(first), known_.begin() + static_cast<std::ptrdiff_t>(end),
            true);
}

void RopeCache::put(std::span<const Position> positions, Position place) {
  const size_t pairs = frequencies_.size();
  made_cos_.resize(positions.size() * pairs);
  made_sin_.resize(positions.size() * pairs);
  rope_angles(positions, frequencies_, made_cos_.data(), made_sin_.data());
  if (magnitude_ != 1.0F) {
    for (std::vector<float>* made : {&made_cos_, &made_sin_}) {
      for (float& value : *made) value *= magnitude_;
    }
  }
  const auto send = [&](const Buffer& to, const std::vector<float>& made) {
    float* at = to.as<float>() + static_cast<size_t>(place) * (made.size() / positions.size());
    backend_.upload(reinterpret_cast<std::byte*>(at), std::as_bytes(std::span(made)));
  };
  if (pairs > 0) {
    send(cos_, made_cos_);
    send(sin_, made_sin_);
  }
  if (!query_scale_) return;
  made_cos_.clear();
  for (const Position position : positions) made_cos_.push_back(static_cast<float>(query_scale_(position)));
  send(scale_, made_cos_);
}

}  // namespace kvasir
