#include "api/warm_up.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace kvasir {

void warm_up(Engine& engine, std::span<const int> batch_sizes) {
  CHECK(engine.idle());
  constexpr std::int64_t kPrompt = 4;
  constexpr std::int64_t kAnswer = 8;
  // Less than a block, so that no block is full and kept.
  const std::int64_t most = std::min<std::int64_t>(engine.config().block_tokens - 1, engine.context() - 1);
  Request request;
  request.prompt.assign(static_cast<size_t>(std::clamp<std::int64_t>(most - kAnswer, 1, kPrompt)), 0);
  request.max_tokens = std::clamp<std::int64_t>(most - static_cast<std::int64_t>(request.prompt.size()), 1, kAnswer);
  request.sampling.temperature = 0;
  request.origin = Request::Origin::kInternal;
  for (const int size : batch_sizes) {
    try {
      for (int i = 0; i < size; ++i) engine.submit(request, {});
    } catch (const Error&) {  // a cache or a context too small for this: the first request will say so
      engine.cancel_all();
    }
    engine.run();
  }
}

}  // namespace kvasir
