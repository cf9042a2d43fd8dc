// The functions of the CUDA runtime that the library calls, for the emulated devices. Work is done at once or later
// (work.h), except on a stream that is captured, where it is recorded.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tensor/cuda/emulation/activity.h"
#include "tensor/cuda/emulation/blocks.h"
#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/memory.h"
#include "tensor/cuda/emulation/work.h"

using namespace tessera::cuda::emulation;

namespace {
struct Capture {
  std::vector<Work> work;
  std::vector<CUstream_st*> streams;  // the first one began it
  // What each stream is known to come after: so many pieces of work of each stream. An event carries its stream's.
  std::map<const CUstream_st*, std::map<const CUstream_st*, int64_t>> known;
  cudaStreamCaptureMode mode;
  unsigned long long id;
  bool invalid = false;
};
}  // namespace

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  unsigned long long id;
  std::shared_ptr<Queue> queue;
  Capture* capture = nullptr;
};
struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<int64_t> time = std::make_shared<int64_t>(-1);  // ns; -1: not reached
  Mark mark = {};
  Capture* capture = nullptr;
  std::map<const CUstream_st*, int64_t> known;  // of the capture, where it was recorded
};
struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

namespace {

std::mutex mutex;  // of what follows
std::vector<Capture*> captures;
unsigned long long next_id = 1;
std::map<const void*, size_t> host_allocations;
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

cudaError_t done(cudaError_t e) {
  if (e != cudaSuccess && e != cudaErrorNotReady) last_error = e;
  return e;
}
bool good_device(int d) { return d >= 0 && d < emulated_devices(); }
// The legacy and per-thread handles stand for the default stream.
bool is_default(cudaStream_t s) { return s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread; }
Capture* capture_of(cudaStream_t s) { return is_default(s) ? nullptr : s->capture; }
int device_of_stream(cudaStream_t s) { return is_default(s) ? current_device : s->device; }
Where where(cudaStream_t s) { return {device_of_stream(s), is_default(s) ? 0 : static_cast<uint32_t>(s->id)}; }
Queue& queue_of(cudaStream_t s) { return is_default(s) ? *Queue::of_default(current_device) : *s->queue; }
void finish_stream(cudaStream_t s) { finish(queue_of(s).mark()); }
int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// What may wait for the device or change its address space is refused while any stream is captured, unless capture and
// thread are relaxed about it.
bool is_unsafe_now() {
  std::lock_guard lock(mutex);
  bool unsafe = false;
  for (Capture* c : captures) {
    if (c->mode == cudaStreamCaptureModeRelaxed || thread_mode == cudaStreamCaptureModeRelaxed) continue;
    c->invalid = unsafe = true;
  }
  return unsafe;
}

cudaError_t submit(cudaStream_t s, Work work) {
  if (Capture* c = capture_of(s)) {
    if (c->invalid) return cudaErrorStreamCaptureInvalidated;
    ++c->known[s][s];
    c->work.push_back(std::move(work));
    return cudaSuccess;
  }
  if (deferred())
    queue_of(s).add(std::move(work));
  else
    work();
  return cudaSuccess;
}

bool is_pinned_host(const void* p) {
  std::lock_guard lock(mutex);
  auto it = host_allocations.upper_bound(p);
  return it != host_allocations.begin() &&
         (--it, static_cast<const char*>(p) < static_cast<const char*>(it->first) + it->second);
}

// What a copy is told of the host's memory: pageable bytes are taken when it is called, and are there when a copy to
// them returns.
struct HostSide {
  std::shared_ptr<std::vector<char>> taken;  // instead of the source
  bool waits = false;
  HostSide(const void* dst, const void* src, size_t n, cudaStream_t stream) {
    if (!deferred() || capture_of(stream)) return;
    if (device_of(src) < 0 && !is_pinned_host(src))
      taken = std::make_shared<std::vector<char>>(static_cast<const char*>(src), static_cast<const char*>(src) + n);
    waits = device_of(dst) < 0 && !is_pinned_host(dst);
  }
  const void* source(const void* given) const { return taken ? taken->data() : given; }
};

bool good_kind(const void* dst, const void* src, cudaMemcpyKind kind) {
  const bool to_device = device_of(dst) >= 0, from_device = device_of(src) >= 0;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

WorkNote::Work copy_of(Where where, const void* dst, const void* src, size_t n) {
  return {.kind = WorkKind::kCopy, .where = where, .bytes = n, .from = device_of(src), .to = device_of(dst)};
}

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not initiated in this stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "capture merge: dependency created across separate captures"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
};
const ErrorText* find_error(cudaError_t e) {
  for (const ErrorText& t : kErrors)
    if (t.code == e) return &t;
  return nullptr;
}

}  // namespace

namespace tessera::cuda::emulation {
cudaError_t run(cudaStream_t stream, dim3 blocks, dim3 threads, size_t shared_bytes, bool cooperate,
                std::function<void()> body) {
  if (const cudaError_t e = check_launch(blocks, threads, shared_bytes); e != cudaSuccess) return done(e);
  if (device_of_stream(stream) != current_device) return done(cudaErrorInvalidResourceHandle);
  const RuntimeCall call("cudaLaunchKernel");
  return done(submit(stream, [=, where = where(stream), body = std::move(body)] {
    // What a launch captures has the kernel's parameters in its type's name.
    const WorkNote note({.kind = WorkKind::kKernel,
                         .where = where,
                         .name = body.target_type().name(),
                         .blocks = blocks,
                         .threads = threads,
                         .shared_bytes = shared_bytes});
    DeviceAccess access(where.device);
    run_blocks(blocks, threads, shared_bytes, cooperate, body, body.target_type().name());
  }));
}
}  // namespace tessera::cuda::emulation

extern "C" {

// Errors.
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t e) {
  const ErrorText* t = find_error(e);
  return t ? t->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t e) {
  const ErrorText* t = find_error(e);
  return t ? t->text : "unrecognized error code";
}

// Devices.
cudaError_t cudaGetDeviceCount(int* n) {
  // TESSERA_EMULATED_CONNECTION: the number of an error that stands for a machine whose driver does not work.
  const char* broken = std::getenv("TESSERA_EMULATED_CONNECTION");
  if (broken && *broken) return done(static_cast<cudaError_t>(std::atoi(broken)));
  *n = emulated_devices();
  return done(*n > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (!good_device(device)) return done(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (!good_device(device)) return done(cudaErrorInvalidDevice);
  *p = {};
  std::strcpy(p->name, "Emulated Device");
  p->uuid.bytes[15] = static_cast<char>(device + 1);
  p->totalGlobalMem = total_memory();
  p->major = capability().major;
  p->minor = capability().minor;
  p->multiProcessorCount = capability().multiprocessors;
  p->warpSize = 32;
  p->maxThreadsPerBlock = kMaxThreadsPerBlock;
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerBlock = 48 * 1024;
  p->sharedMemPerBlockOptin = capability().max_shared_bytes;
  p->sharedMemPerMultiprocessor = capability().max_shared_bytes + 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->l2CacheSize = 50 << 20;
  p->pciBusID = device + 1;
  p->unifiedAddressing = p->canMapHostMemory = p->concurrentKernels = p->managedMemory = 1;
  p->maxGridSize[0] = 0x7fffffff;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t e = cudaGetDeviceProperties(&p, device); e != cudaSuccess) return e;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    default:
      return done(cudaErrorNotSupported);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const RuntimeCall call("cudaDeviceSynchronize");
  if (is_unsafe_now()) return done(cudaErrorStreamCaptureUnsupported);
  finish_device(current_device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!good_device(device) || !good_device(peer)) return done(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!good_device(peer) || peer == current_device) return done(cudaErrorInvalidDevice);
  return done(set_peer_access(current_device, peer, true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (!good_device(peer)) return done(cudaErrorInvalidDevice);
  return done(set_peer_access(current_device, peer, false) ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}
cudaError_t cudaDriverGetVersion(int* version) {
  const char* broken = std::getenv("TESSERA_EMULATED_CONNECTION");
  *version = broken && *broken ? 11040 : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

// Memory.
cudaError_t cudaMalloc(void** p, size_t n) {
  const RuntimeCall call("cudaMalloc");
  *p = nullptr;
  if (is_unsafe_now()) return done(cudaErrorStreamCaptureUnsupported);
  if (n == 0) return cudaSuccess;
  *p = allocate_memory(current_device, n);
  return done(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  if (is_unsafe_now()) return done(cudaErrorStreamCaptureUnsupported);
  if (const int device = device_of(p); device >= 0) finish_device(device);  // it waits for the device
  return done(free_memory_at(p) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *available = free_memory(current_device);
  *total = total_memory();
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) {
  *p = nullptr;
  if (n == 0) return cudaSuccess;
  if (is_unsafe_now()) return done(cudaErrorStreamCaptureUnsupported);
  *p = std::aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  if (!*p) return done(cudaErrorMemoryAllocation);
  std::memset(*p, 0xCD, n);
  std::lock_guard lock(mutex);
  host_allocations[*p] = n;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  if (!p) return cudaSuccess;
  for (int device = 0; device < emulated_devices(); ++device) finish_device(device);
  {
    std::lock_guard lock(mutex);
    if (host_allocations.erase(p) == 0) return done(cudaErrorInvalidValue);
  }
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* p, size_t n, unsigned) {
  if (!p || n == 0) return done(cudaErrorInvalidValue);
  std::lock_guard lock(mutex);
  return done(host_allocations.emplace(p, n).second ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* p) {
  std::lock_guard lock(mutex);
  return done(host_allocations.erase(p) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  *a = {};
  a->device = current_device;
  void* start;
  size_t n;
  if (find_allocation(p, &start, &n)) {
    a->type = cudaMemoryTypeDevice;
    a->device = device_of(p);
    a->devicePointer = const_cast<void*>(p);
    return cudaSuccess;
  }
  const bool pinned = is_pinned_host(p);
  a->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  if (pinned) a->devicePointer = const_cast<void*>(p);
  a->hostPointer = const_cast<void*>(p);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t n, cudaMemcpyKind kind, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  if (!good_kind(dst, src, kind) || !is_accessible(dst, n) || !is_accessible(src, n))
    return done(cudaErrorInvalidValue);
  const RuntimeCall call("cudaMemcpyAsync");
  const HostSide host(dst, src, n, stream);
  const cudaError_t e = submit(stream, [=, where = where(stream)] {
    const WorkNote note(copy_of(where, dst, src, n));
    DeviceAccess access;
    std::memmove(dst, host.source(src), n);
  });
  if (e == cudaSuccess && host.waits) finish_stream(stream);
  return done(e);
}
cudaError_t cudaMemcpy(void* dst, const void* src, size_t n, cudaMemcpyKind kind) {
  if (is_unsafe_now()) return done(cudaErrorStreamCaptureImplicit);
  const cudaError_t e = cudaMemcpyAsync(dst, src, n, kind, nullptr);
  finish_stream(nullptr);
  return e;
}
cudaError_t cudaMemcpyPeerAsync(void* dst, int, const void* src, int, size_t n, cudaStream_t stream) {
  return cudaMemcpyAsync(dst, src, n, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > dst_pitch || width > src_pitch || !good_kind(dst, src, kind) ||
      !is_accessible(dst, dst_pitch * (height - 1) + width) || !is_accessible(src, src_pitch * (height - 1) + width)) {
    return done(cudaErrorInvalidValue);
  }
  const RuntimeCall call("cudaMemcpy2DAsync");
  const HostSide host(dst, src, src_pitch * (height - 1) + width, stream);
  const cudaError_t e = submit(stream, [=, where = where(stream)] {
    const WorkNote note(copy_of(where, dst, src, width * height));
    DeviceAccess access;
    for (size_t i = 0; i < height; ++i)
      std::memmove(static_cast<char*>(dst) + i * dst_pitch, static_cast<const char*>(host.source(src)) + i * src_pitch,
                   width);
  });
  if (e == cudaSuccess && host.waits) finish_stream(stream);
  return done(e);
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  if (device_of(p) < 0 || !is_accessible(p, n)) return done(cudaErrorInvalidValue);
  const RuntimeCall call("cudaMemsetAsync");
  return done(submit(stream, [=, where = where(stream)] {
    const WorkNote note({.kind = WorkKind::kSet, .where = where, .bytes = n});
    DeviceAccess access;
    std::memset(p, value, n);
  }));
}
cudaError_t cudaMemset(void* p, int value, size_t n) { return cudaMemsetAsync(p, value, n, nullptr); }

// Streams.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int priority) {
  std::lock_guard lock(mutex);
  *s = new CUstream_st{current_device, flags,
                       priority > 0    ? 0
                       : priority < -5 ? -5
                                       : priority,
                       next_id++, Queue::make(current_device, !(flags & cudaStreamNonBlocking))};
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  return cudaStreamCreateWithPriority(s, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  if (is_default(s)) return done(cudaErrorInvalidResourceHandle);
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t s, int* priority) {
  *priority = is_default(s) ? 0 : s->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned* flags) {
  *flags = is_default(s) ? cudaStreamDefault : s->flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t s, int* device) {
  *device = device_of_stream(s);
  return cudaSuccess;
}
cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long* id) {
  *id = is_default(s) ? 0 : s->id;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  if (capture_of(s)) return done(cudaErrorStreamCaptureUnsupported);
  finish_stream(s);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  const RuntimeCall call("cudaStreamSynchronize");
  if (Capture* c = capture_of(s)) {
    c->invalid = true;
    return done(cudaErrorStreamCaptureUnsupported);
  }
  finish_stream(s);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (!e) return done(cudaErrorInvalidResourceHandle);
  Capture* c = e->capture;
  if (!c) {
    if (!capture_of(s)) queue_of(s).wait_for(e->mark);
    return cudaSuccess;
  }
  if (capture_of(s) != c) {
    if (is_default(s)) return done(cudaErrorStreamCaptureImplicit);
    if (s->capture) return done(cudaErrorStreamCaptureMerge);
    s->capture = c;
    c->streams.push_back(s);
  }
  for (const auto& [other, n] : e->known) {
    int64_t& done_there = c->known[s][other];
    done_there = std::max(done_there, n);
  }
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void* data) {
  return done(submit(s, [=] { f(data); }));
}

// Events.
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
  *e = new CUevent_st{current_device, flags};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned) {
  if (!e || e->device != device_of_stream(s)) return done(cudaErrorInvalidResourceHandle);
  e->capture = capture_of(s);
  if (e->capture) {
    e->known = e->capture->known[s];
    return cudaSuccess;
  }
  e->time = std::make_shared<int64_t>(-1);
  const cudaError_t error = submit(s, [time = e->time] { *time = now(); });
  e->mark = queue_of(s).mark();
  return done(error);
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return cudaEventRecordWithFlags(e, s, 0); }
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (is_unsafe_now()) return done(cudaErrorStreamCaptureUnsupported);
  if (!e) return done(cudaErrorInvalidResourceHandle);
  if (e->capture) return done(cudaErrorCapturedEvent);
  finish(e->mark);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) { return cudaEventQuery(e); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  if (!a || !b || !a->mark.queue || !b->mark.queue || ((a->flags | b->flags) & cudaEventDisableTiming))
    return done(cudaErrorInvalidResourceHandle);
  if (*a->time < 0 || *b->time < 0) return done(cudaErrorNotReady);
  *ms = static_cast<float>(*b->time - *a->time) * 1e-6f;
  return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) { return done(cudaErrorNotSupported); }
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) { return done(cudaErrorNotSupported); }
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return done(cudaErrorNotSupported); }
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) { return done(cudaErrorNotSupported); }
cudaError_t cudaIpcCloseMemHandle(void*) { return done(cudaErrorNotSupported); }

// Graphs.
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  if (is_default(s)) return done(cudaErrorStreamCaptureUnsupported);
  if (s->capture) return done(cudaErrorIllegalState);
  std::lock_guard lock(mutex);
  s->capture = new Capture{.work = {}, .streams = {s}, .known = {}, .mode = mode, .id = next_id++};
  captures.push_back(s->capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  *graph = nullptr;
  Capture* c = capture_of(s);
  if (!c) return done(cudaErrorIllegalState);
  if (c->streams[0] != s) return done(cudaErrorStreamCaptureUnmatched);
  std::unique_ptr<Capture> owned(c);
  std::lock_guard lock(mutex);
  std::erase(captures, c);
  for (CUstream_st* joined : c->streams) joined->capture = nullptr;
  if (c->invalid) return done(cudaErrorStreamCaptureInvalidated);
  for (CUstream_st* joined : c->streams)
    if (c->known[s][joined] < c->known[joined][joined]) return done(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(c->work)};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  const Capture* c = capture_of(s);
  *status = !c           ? cudaStreamCaptureStatusNone
            : c->invalid ? cudaStreamCaptureStatusInvalidated
                         : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  const Capture* c = capture_of(s);
  if (id) *id = c ? c->id : 0;
  return cudaStreamIsCapturing(s, status);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  const RuntimeCall call("cudaGraphLaunch");
  return done(submit(s, [work = exec->work] {
    for (const Work& w : work) w();
  }));
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* n) {
  *n = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  FILE* f = std::fopen(path, "w");
  if (!f) return done(cudaErrorInvalidValue);
  std::fprintf(f, "digraph graph_1 {\n");
  for (size_t i = 0; i < graph->work.size(); ++i) std::fprintf(f, "  \"node_%zu\";\n", i);
  for (size_t i = 1; i < graph->work.size(); ++i) std::fprintf(f, "  \"node_%zu\" -> \"node_%zu\";\n", i - 1, i);
  std::fprintf(f, "}\n");
  return std::fclose(f) == 0 ? cudaSuccess : done(cudaErrorInvalidValue);
}

}  // extern "C"
