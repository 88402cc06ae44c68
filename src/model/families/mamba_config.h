// What configs say of Mamba-2 layers: those that spell it "mamba_…", and what all of them share.
#pragma once

#include "model/families/family.h"

namespace kvasir {

// config.recurrent of a state that has `inner` numbers in all heads. 0: "mamba_expand" times the hidden size.
void read_mamba(const JsonReader& in, int inner, DecoderConfig& config);

// What steps are held to: "time_step_limit", of which the second may be Infinity in any of its spellings.
void read_step_limits(const JsonReader& in, RecurrentSpec& recurrent);

// A number of an array of so many, all of them finite.
std::vector<float> read_multipliers(const JsonReader& in, std::string_view key, size_t count);

}  // namespace kvasir
