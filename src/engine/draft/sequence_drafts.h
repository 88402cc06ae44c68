// What is known of one sequence's drafts while it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "engine/draft/acceptance.h"
#include "engine/draft/drafter.h"
#include "kv/lease.h"

namespace kvasir {

struct SequenceDrafts {
  struct Track {
    bool allowed = true;  // by the request
    Acceptance acceptance;
    Draft guess;  // what this drafter says of the tokens behind `seen`: compared with what comes
    std::unique_ptr<DrafterState> state;
    // Of a model that did not pay: steps until it is tried again, and how many it will be the next time.
    std::int64_t pause = 0;
    std::int64_t next_pause = 8;
  };

  std::vector<Track> tracks;  // by drafter of the engine
  int generation = 0;         // of these drafters: see Speculator::force
  Position seen = 0;          // tokens that guesses were compared with
  int chosen = -1;            // whose tokens Sequence::draft has
  // Of a sequence with states, while a draft of it is verified: its lease as it was. A state has seen wrong tokens,
  // too, and cannot forget them: then the sequence goes on from here, and computes again what was right.
  KvLease before;

  // Blocks of the cache that drafters hold for it. True: there were some.
  bool let_go() {
    bool some = false;
    for (Track& track : tracks) some |= track.state != nullptr && track.state->let_go();
    return some;
  }
};

}  // namespace kvasir
