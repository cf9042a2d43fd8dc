// Handles of NVIDIA's libraries: a thread has its own on each device, because a handle serves one thread at a time.
#pragma once

#include <map>
#include <mutex>
#include <vector>

namespace tessera::cuda {

// Entry: a type of its own for each library; it has a member `handle`, null at first, and what else the thread knows of
// that handle.
template <class Entry>
class ThreadHandles {
 public:
  // The calling thread's.
  static ThreadHandles& here() {
    thread_local ThreadHandles handles;
    return handles;
  }
  // The one on that device. make() makes a handle where no thread that has ended has left one.
  template <class Make>
  Entry& on(int device, Make make) {
    Entry& entry = by_device_[device];
    if (!entry.handle && !take_idle(device, entry)) entry.handle = make();
    return entry;
  }
  template <class F>
  void for_each(F f) {
    for (auto& [device, entry] : by_device_) f(entry);
  }

  ~ThreadHandles() {
    const std::lock_guard lock(idle().mutex);
    for (const auto& [device, entry] : by_device_)
      if (entry.handle) idle().by_device[device].push_back(entry.handle);
  }

 private:
  // Never destroyed: the driver may be gone by then.
  struct Idle {
    std::mutex mutex;
    std::map<int, std::vector<decltype(Entry::handle)>> by_device;
  };
  static Idle& idle() {
    static Idle& i = *new Idle;
    return i;
  }
  static bool take_idle(int device, Entry& entry) {
    const std::lock_guard lock(idle().mutex);
    auto& handles = idle().by_device[device];
    if (handles.empty()) return false;
    entry.handle = handles.back();
    handles.pop_back();
    return true;
  }

  std::map<int, Entry> by_device_;
};

}  // namespace tessera::cuda
