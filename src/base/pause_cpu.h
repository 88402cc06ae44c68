// For whoever looks at memory again and again until another changes it.
#pragma once

#include <thread>

namespace kvasir {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace kvasir
