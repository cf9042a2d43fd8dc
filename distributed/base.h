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

// Called between the slices of a long wait on a thread that sets it: returns true to give the wait up (signals). Null:
// never.
extern thread_local bool (*g_interrupted)();
void check_interrupted();

}  // namespace tessera::distributed
