// kvasir tune --rank: reads a text with a model and writes the directions in which its K and V say most.
#pragma once

#include <cstdint>
#include <string>

#include "cli/model_options.h"

namespace kvasir {

struct RankTuning {
  ModelOptions model;
  std::string text;          // a file
  std::int64_t context = 0;  // of a window; 0: the model's, at most 2048
  std::int64_t tokens = 0;   // of the text, at most; 0: all
  std::string out;           // empty: kKvBasisFile in the model's folder
};

// Throws Error. Says on stderr what it wrote.
void tune_rank(const RankTuning& tuning);

}  // namespace kvasir
