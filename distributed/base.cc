#include "distributed/base.h"

#include <algorithm>

namespace tessera::distributed {

thread_local bool (*g_interrupted)() = nullptr;

Deadline deadline_after(double seconds) {
  constexpr double kCentury = 100.0 * 365 * 86400;
  if (!(seconds < kCentury)) seconds = kCentury;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(seconds, 0.0)));
}

std::string milliseconds_text(Clock::time_point from, Clock::time_point to) {
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(to - from).count()) + "ms";
}

int milliseconds_until(Deadline deadline, int most) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, most));
}

void check_interrupted() {
  if (g_interrupted && g_interrupted()) throw Error(Fault::kInterrupted, "interrupted");
}

}  // namespace tessera::distributed
