// The formats of K and V of every layer: what tuning chooses among.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "layout/kv_policy.h"
#include "model/config.h"

namespace kvasir {

inline constexpr std::array<const char*, 2> kPartNames{"K", "V"};

// [layer][K, V]
using LayerMix = std::vector<std::array<KvFormat, 2>>;

LayerMix uniform_mix(int layers, KvFormat k, KvFormat v);

// `others` with these formats: its retention and its recent tokens stay.
KvPolicy policy_of(const LayerMix& mix, const KvPolicy& others);

// Of one token in one layer, all heads, scales counted. part: 0 is K, 1 is V.
std::int64_t part_bytes(const ModelSpec& config, int part, KvFormat format);

// What so many bits for each number, and a scale for each row of a head, come to for one token; and back.
double bytes_of_bits(const ModelSpec& config, double bits);
double bits_of_bytes(const ModelSpec& config, double bytes);

}  // namespace kvasir
