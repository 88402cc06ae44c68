// The plain loops of recurrent layers, in double.
#pragma once

#include "backend/recurrent_ops.h"

namespace kvasir {

void ref_conv(const CausalConvOp& op);
void ref_decay(const DecayOp& op);
void ref_recurrence(const RecurrenceOp& op);
void ref_round_states(const StateRoundOp& op);

}  // namespace kvasir
