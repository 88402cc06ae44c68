// Can one tenant tell what another has cached? Measures it from outside, as an attacker would: over HTTP, with a
// clock.
//
// For every sample the attacker sends a new random prompt and takes the time to its first token. Before half of them,
// in random order, the victim has sent the same prompt; before the others, another one of the same length, so that
// the server has done as much work either way. Then the attacker sends its prompt again: its own hit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/client/http_client.h"

namespace kvasir {

struct IsolationOptions {
  HttpAddress address;
  std::string victim_key;
  std::string attacker_key;
  int samples = 1000;       // even
  int prompt_tokens = 256;  // of each prompt
  std::uint64_t seed = 0;   // of the prompts and their order
};

struct IsolationSamples {
  struct Kind {
    std::vector<double> seconds;     // to the first token
    std::int64_t cached_tokens = 0;  // in all of them together
  };
  Kind primed;  // the victim had sent it
  Kind fresh;   // nobody had
  Kind own;     // the attacker itself had
};

// Throws Error when the server cannot be asked. `on_sample` hears how many are done.
IsolationSamples probe_isolation(const IsolationOptions& options, const std::function<void(int done)>& on_sample);

struct IsolationVerdict {
  bool hidden = false;      // no cached token of the victim's, and the times do not differ (p > 0.01)
  bool own_faster = false;  // p < 1e-6: had a hit been possible, it would have been seen
  std::string table;        // for people
};
IsolationVerdict judge(const IsolationSamples& samples);

}  // namespace kvasir
