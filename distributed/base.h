#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tessera::distributed {

enum class Fault { kBackend, kNetwork, kStore, kTimeout, kQueueEmpty, kInterrupted };

// What goes wrong between processes. The binding makes the Python exception of its kind.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& what) : std::runtime_error(what), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// A point `seconds` from now; a century ahead for what is not finite.
Deadline deadline_after(double seconds);
// The time between two points for people, such as 100ms.
std::string milliseconds_text(Clock::time_point from, Clock::time_point to);

// Milliseconds until then for poll(), between 0 and `most`.
int milliseconds_until(Deadline deadline, int most);

// Whether to look for what comes next for a moment before sleeping, which takes longer than the other side does when
// both have a processor. A look in vain is followed by many waits without one.
class Haste {
 public:
  // Calls look() until it returns true or the moment is over. Whether it did.
  template <class F>
  bool look_for(F look) {
    if (!hopeful_ && ++waits_ % 64 != 0) return false;
    auto end = Clock::now() + std::chrono::microseconds(20);
    do { hopeful_ = look(); } while (!hopeful_ && Clock::now() < end);
    return hopeful_;
  }

 private:
  bool hopeful_ = false;
  unsigned waits_ = 0;
};

// Called between the slices of a long wait on a thread that sets it: returns true to give the wait up (signals). Null:
// never.
extern thread_local bool (*g_interrupted)();
void check_interrupted();

}  // namespace tessera::distributed
