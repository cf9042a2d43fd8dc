#include "profiler/clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tessera::profiler {
namespace {

int64_t read(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

#if defined(__x86_64__)
bool counter_is_even() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
}
#endif

}  // namespace

#if defined(__x86_64__)
const bool g_counter_is_even = counter_is_even();
#endif

uint64_t system_ticks() { return static_cast<uint64_t>(read(CLOCK_MONOTONIC)); }

Moment now() {
  // The reading of the clock between the two closest readings of the counter: nobody was interrupted there.
  Moment best{};
  uint64_t width = ~uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = ticks();
    const int64_t monotonic = read(CLOCK_MONOTONIC);
    const uint64_t after = ticks();
    if (after - before >= width) continue;
    width = after - before;
    best = {before + (after - before) / 2, monotonic, 0};
  }
  best.wall_ns = read(CLOCK_REALTIME) - (read(CLOCK_MONOTONIC) - best.monotonic_ns);
  return best;
}

Scale::Scale(const Moment& start) : start_(start), rate_(1) {
  // The longer the span, the smaller the share of what the readings cost: it begins with the first recording.
  static const Moment first = start;
  Moment end = now();
  while (end.monotonic_ns - first.monotonic_ns < 2'000'000) end = now();
  if (end.ticks > first.ticks)
    rate_ = static_cast<double>(end.monotonic_ns - first.monotonic_ns) / static_cast<double>(end.ticks - first.ticks);
}

}  // namespace tessera::profiler
