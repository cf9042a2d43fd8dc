// Devices, streams and events as torch.cuda documents them. A thread has a selected device, and for each device a
// current stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

// The device that the user selected for this thread.
int selected_device();
void select_device(int device);  // Error if there is no such device
void check_device(int device);   // Error "CUDA error: invalid device ordinal ..." likewise
// Waits for all work of a device, then raises what its kernels reported.
void synchronize_device(int device);

// True if this process is a fork of one that had used a device: CUDA does not work here.
bool is_forked();

bool can_access_peer(int device, int peer);
void enable_peer_access(int device, int peer);  // once for all; where the devices cannot reach each other, nothing

// A stream is the runtime's handle and its device; null is the default stream. Those of the pool live as long as the
// program.
struct Stream {
  int device = 0;
  cudaStream_t handle = nullptr;
  friend bool operator==(const Stream&, const Stream&) = default;
};
Stream current_stream(int device);
void set_current_stream(Stream s);
// The next of the 32 streams of a priority, round robin. Priorities lower than the least or higher than the greatest
// are moved to those.
Stream stream_from_pool(int device, int priority = 0);
std::pair<int, int> stream_priority_range();  // least (0), greatest (negative)
int stream_priority(Stream s);
bool query(Stream s);
void synchronize(Stream s);
bool is_capturing(Stream s);  // work on the stream is recorded into a graph now

// Selects a device and a stream on it, until its end.
class StreamGuard {
 public:
  explicit StreamGuard(Stream s);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  int device_before_;
  Stream before_;
};

// A point in a stream's work. The runtime's event is made when it is first recorded, on that stream's device.
class Event {
 public:
  struct Flags {
    bool timing = false, blocking = false, interprocess = false, external = false;
  };
  Event() = default;
  explicit Event(Flags flags) : flags_(flags) {}
  Event(int device, const cudaIpcEventHandle_t& handle);
  Event(Event&& o) noexcept : event_(std::exchange(o.event_, nullptr)), device_(o.device_), flags_(o.flags_) {}
  Event& operator=(Event&& o) noexcept;
  ~Event();

  void record(Stream s);
  void wait(Stream s) const;  // later work of s waits for the point
  bool query() const;         // the point has been reached, or was never recorded
  void synchronize() const;
  double elapsed_ms(const Event& end) const;
  cudaIpcEventHandle_t ipc_handle(int device);
  cudaEvent_t handle() const { return event_; }
  int device() const { return device_; }  // -1: not recorded yet
  Flags flags() const { return flags_; }

 private:
  void create(int device);
  cudaEvent_t event_ = nullptr;
  int device_ = -1;
  Flags flags_;
};

// What happens when the library waits for a device within an operator: nothing, a warning, or an error.
enum class SyncDebugMode : int { kDefault = 0, kWarn, kError };
SyncDebugMode sync_debug_mode();
void set_sync_debug_mode(SyncDebugMode m);
void before_synchronizing();  // called before each such wait
// Where the warning goes; stderr if not set.
void set_sync_warning(void (*warn)(const std::string& message));

// While one lives, calls that CUDA refuses while a stream is captured (allocating, queries of events) are allowed to
// this thread: they do not touch the captured stream.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace tessera::cuda
