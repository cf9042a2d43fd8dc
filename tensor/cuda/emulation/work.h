// The work of the emulated devices' streams.
//
// It is done at once, or with TESSERA_EMULATED_DEFERRED=1 as late as a program may notice: when a stream or an event is
// waited or asked for, and then what it depends on first; with a seed (orders.h) other streams' work goes on in
// between.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

namespace tessera::cuda::emulation {

using Work = std::function<void()>;

class Queue;
// What a queue held when it was marked. Without a queue: nothing.
struct Mark {
  std::shared_ptr<Queue> queue;
  uint64_t count = 0;
};

// A stream's work, in its order.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  static std::shared_ptr<Queue> make(int device, bool waits_for_default);
  // The one of a device's default stream.
  static const std::shared_ptr<Queue>& of_default(int device);

  void add(Work work);
  void wait_for(const Mark& mark);
  Mark mark();

 private:
  friend void finish(const Mark& mark);
  friend void finish_device(int device);
  friend void go_on_elsewhere();
  struct Item {
    Work work;  // none: a wait
    Mark awaited;
  };

  void follow_default();
  bool ready() const;
  void step();

  int device_ = 0;
  bool blocking_ = false, at_work_ = false;
  std::deque<Item> items_;
  uint64_t added_ = 0, done_ = 0;
};

bool deferred();
// Does all that was marked, or added to the queues of a device.
void finish(const Mark& mark);
void finish_device(int device);

}  // namespace tessera::cuda::emulation
