#include "tensor/cuda/runtime/streams.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/thread_state.h"

namespace tessera::cuda {
namespace {

constexpr int kStreamsPerPool = 32;
constexpr int kMaxPriorities = 8;

std::atomic<bool> forked{false};
std::atomic<SyncDebugMode> debug_mode{SyncDebugMode::kDefault};

// Streams of one device, by priority (0, -1, ...). Each is made when it is first handed out.
struct StreamPool {
  std::mutex mutex;
  cudaStream_t streams[kMaxPriorities][kStreamsPerPool] = {};
  unsigned next[kMaxPriorities] = {};
};
StreamPool& stream_pool(int device) {
  static StreamPool* pools = new StreamPool[kMaxDevices];
  return pools[device];
}

void warn_on_stderr(const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); }
std::atomic<void (*)(const std::string&)> sync_warning{warn_on_stderr};

std::mutex peer_mutex;
bool peer_enabled[kMaxDevices][kMaxDevices];

}  // namespace

int selected_device() { return thread_state().selected; }

void check_device(int device) {
  if (device < 0 || device >= device_count()) internal::raise_error(cudaErrorInvalidDevice);
}

void select_device(int device) {
  check_device(device);
  ThreadState& s = thread_state();
  s.selected = device;
  set_op_device(-1);
}

void synchronize_device(int device) {
  check_device(device);
  OpDevice on(device);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_reports();
}

bool is_forked() { return forked; }

namespace internal {
void watch_forks() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  static_cast<void>(once);
}
}  // namespace internal

bool can_access_peer(int device, int peer) {
  check_device(device);
  check_device(peer);
  if (device == peer) return false;
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer");
  return can != 0;
}

void enable_peer_access(int device, int peer) {
  if (device == peer) return;
  std::lock_guard lock(peer_mutex);
  if (peer_enabled[device][peer]) return;
  if (can_access_peer(device, peer)) {
    OpDevice on(device);
    const cudaError_t e = cudaDeviceEnablePeerAccess(peer, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError();
    else
      check(e, "cudaDeviceEnablePeerAccess");
  }
  peer_enabled[device][peer] = true;
}

Stream current_stream(int device) { return {device, thread_state().streams[device]}; }

void set_current_stream(Stream s) {
  check_device(s.device);
  thread_state().streams[s.device] = s.handle;
}

std::pair<int, int> stream_priority_range() {
  static const std::pair<int, int> range = [] {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    return std::pair(least, std::max(greatest, least - kMaxPriorities + 1));
  }();
  return range;
}

Stream stream_from_pool(int device, int priority) {
  check_device(device);
  const auto [least, greatest] = stream_priority_range();
  priority = std::clamp(priority, greatest, least);
  const int row = least - priority;
  StreamPool& pool = stream_pool(device);
  std::lock_guard lock(pool.mutex);
  cudaStream_t& s = pool.streams[row][pool.next[row]++ % kStreamsPerPool];
  if (!s) {
    OpDevice on(device);
    check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, priority), "cudaStreamCreateWithPriority");
  }
  return {device, s};
}

int stream_priority(Stream s) {
  OpDevice on(s.device);
  int priority = 0;
  check(cudaStreamGetPriority(s.handle, &priority), "cudaStreamGetPriority");
  return priority;
}

bool query(Stream s) {
  OpDevice on(s.device);
  const cudaError_t e = cudaStreamQuery(s.handle);
  if (e == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(e, "cudaStreamQuery");
  return true;
}

void synchronize(Stream s) {
  OpDevice on(s.device);
  check(cudaStreamSynchronize(s.handle), "cudaStreamSynchronize");
  check_reports();
}

bool is_capturing(Stream s) {
  if (!s.handle) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(s.handle, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

StreamGuard::StreamGuard(Stream s) : device_before_(selected_device()), before_(current_stream(s.device)) {
  set_current_stream(s);
  select_device(s.device);
}
StreamGuard::~StreamGuard() {
  thread_state().streams[before_.device] = before_.handle;
  thread_state().selected = device_before_;
  set_op_device(-1);
}

// Events.

void Event::create(int device) {
  OpDevice on(device);
  const unsigned flags = (flags_.timing ? 0 : cudaEventDisableTiming) | (flags_.blocking ? cudaEventBlockingSync : 0) |
                         (flags_.interprocess ? cudaEventInterprocess : 0);
  check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
  device_ = device;
}

Event::Event(int device, const cudaIpcEventHandle_t& handle) : device_(device) {
  OpDevice on(device);
  check(cudaIpcOpenEventHandle(&event_, handle), "cudaIpcOpenEventHandle");
}

Event& Event::operator=(Event&& o) noexcept {
  std::swap(event_, o.event_);
  std::swap(device_, o.device_);
  std::swap(flags_, o.flags_);
  return *this;
}

Event::~Event() {
  if (event_ && !is_forked()) cudaEventDestroy(event_);
}

void Event::record(Stream s) {
  if (!event_) create(s.device);
  TESSERA_CHECK(device_ == s.device, "Event device ", device_, " does not match recording stream's device ", s.device,
                ".");
  OpDevice on(s.device);
  const unsigned flags = flags_.external && is_capturing(s) ? cudaEventRecordExternal : cudaEventRecordDefault;
  check(cudaEventRecordWithFlags(event_, s.handle, flags), "cudaEventRecord");
}

void Event::wait(Stream s) const {
  if (!event_) return;
  OpDevice on(s.device);
  const unsigned flags = flags_.external && is_capturing(s) ? cudaEventWaitExternal : cudaEventWaitDefault;
  check(cudaStreamWaitEvent(s.handle, event_, flags), "cudaStreamWaitEvent");
}

bool Event::query() const {
  if (!event_) return true;
  const RelaxedCapture relaxed;  // or it would end what other threads capture
  const cudaError_t e = cudaEventQuery(event_);
  if (e == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(e, "cudaEventQuery");
  return true;
}

void Event::synchronize() const {
  if (event_) check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

double Event::elapsed_ms(const Event& end) const {
  TESSERA_CHECK_VALUE(flags_.timing && end.flags_.timing,
                      "Both events must be created with argument 'enable_timing=True'.");
  TESSERA_CHECK_VALUE(event_ && end.event_, "Both events must be recorded before calculating elapsed time.");
  TESSERA_CHECK_VALUE(query() && end.query(), "Both events must be completed before calculating elapsed time.");
  float ms = 0;
  OpDevice on(device_);
  check(cudaEventElapsedTime(&ms, event_, end.event_), "cudaEventElapsedTime");
  return ms;
}

cudaIpcEventHandle_t Event::ipc_handle(int device) {
  if (!event_) {
    flags_.interprocess = true;
    create(device);
  }
  cudaIpcEventHandle_t handle;
  check(cudaIpcGetEventHandle(&handle, event_), "cudaIpcGetEventHandle");
  return handle;
}

// Waiting where one should not.

SyncDebugMode sync_debug_mode() { return debug_mode; }
void set_sync_debug_mode(SyncDebugMode m) { debug_mode = m; }
void before_synchronizing() {
  const SyncDebugMode m = debug_mode;
  if (m == SyncDebugMode::kDefault) return;
  TESSERA_CHECK(m == SyncDebugMode::kWarn, "called a synchronizing CUDA operation");
  sync_warning.load()("called a synchronizing CUDA operation");
}
void set_sync_warning(void (*warn)(const std::string& message)) { sync_warning = warn ? warn : warn_on_stderr; }

RelaxedCapture::RelaxedCapture() {
  check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
}
RelaxedCapture::~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

}  // namespace tessera::cuda
