// A clock that costs some nanoseconds to read: the processor's time stamp counter where it runs evenly, else the
// system's clock.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <ctime>
#endif

namespace tessera::profiler {

#if defined(__x86_64__)
extern const bool g_counter_is_even;  // it runs at one speed, whatever the cores do
#endif
uint64_t system_ticks();  // nanoseconds of the monotonic clock

inline uint64_t ticks() {
#if defined(__x86_64__)
  if (g_counter_is_even) [[likely]]
    return __rdtsc();
#endif
  return system_ticks();
}

// A moment on all clocks.
struct Moment {
  uint64_t ticks;
  int64_t monotonic_ns;
  int64_t wall_ns;  // since 1970
};
Moment now();

// From ticks to nanoseconds since 1970, as the wall clock stood at `start`.
class Scale {
 public:
  explicit Scale(const Moment& start);
  int64_t wall_ns(uint64_t ticks) const {
    return start_.wall_ns +
           static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(ticks - start_.ticks)) * rate_);
  }

 private:
  Moment start_;
  double rate_;  // nanoseconds of a tick
};

}  // namespace tessera::profiler
