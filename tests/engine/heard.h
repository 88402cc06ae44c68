// What became of a request, as its listener hears it.
#pragma once

#include <vector>

#include "engine/request.h"

namespace kvasir::testing {

struct Heard {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kNone;
  int ends = 0;  // updates that said it has ended
  RequestRecord record;

  void add(const Update& update) {
    if (update.token >= 0) tokens.push_back(update.token);
    finish = update.finish;
    ends += update.finish != FinishReason::kNone;
    record = *update.record;
  }
};

inline OnUpdate into(Heard& heard) {
  return [&heard](const Update& update) { heard.add(update); };
}

}  // namespace kvasir::testing
