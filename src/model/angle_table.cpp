#include "model/angle_table.h"

#include <algorithm>
#include <numeric>

#include "backend/rope.h"
#include "base/check.h"

namespace kvasir {

AngleTable::AngleTable(Backend& backend, std::vector<double> frequencies, Position context, int most_rows)
    : backend_(backend),
      frequencies_(std::move(frequencies)),
      remembered_((std::clamp(context, kAtLeast, kAtMost) + kTogether - 1) / kTogether * kTogether),
      most_rows_(most_rows),
      known_(static_cast<size_t>(remembered_ / kTogether)) {
  const auto places = static_cast<size_t>(remembered_ + 2 * most_rows_);
  cos_ = backend.allocate(places * frequencies_.size() * sizeof(float));
  sin_ = backend.allocate(places * frequencies_.size() * sizeof(float));
}

void AngleTable::find(Use use, std::span<const Position> positions, std::vector<std::int32_t>& places) {
  places.clear();
  far_.clear();
  const Position own = remembered_ + (use == Use::kRows ? 0 : most_rows_);
  for (size_t i = 0; i < positions.size(); ++i) {
    const Position position = positions[i];
    if (position < 0 || position >= remembered_) {
      places.push_back(static_cast<std::int32_t>(own + std::ssize(far_)));
      far_.push_back(position);
      continue;
    }
    if (!known_[static_cast<size_t>(position / kTogether)]) remember(positions.subspan(i));
    places.push_back(static_cast<std::int32_t>(position));
  }
  CHECK(std::ssize(far_) <= most_rows_);
  if (!far_.empty()) put(far_, own);
}

RopeTable AngleTable::at(const std::int32_t* places) const {
  return {cos_.as<float>(), sin_.as<float>(), static_cast<int>(frequencies_.size()), places};
}

// The neighbours of the first one, and the next ones as long as those behind it go on into them.
void AngleTable::remember(std::span<const Position> wanted) {
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

void AngleTable::put(std::span<const Position> positions, Position place) {
  const size_t pairs = frequencies_.size();
  made_cos_.resize(positions.size() * pairs);
  made_sin_.resize(positions.size() * pairs);
  rope_angles(positions, frequencies_, made_cos_.data(), made_sin_.data());
  const auto send = [&](const Buffer& to, const std::vector<float>& made) {
    float* at = to.as<float>() + static_cast<size_t>(place) * pairs;
    backend_.upload(reinterpret_cast<std::byte*>(at), std::as_bytes(std::span(made)));
  };
  send(cos_, made_cos_);
  send(sin_, made_sin_);
}

}  // namespace kvasir
