#include "tensor/cuda/runtime/runtime.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tensor/core/accelerator_error.h"
#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/architectures.h"
#include "tensor/cuda/runtime/streams.h"
#include "tensor/cuda/runtime/thread_state.h"

namespace tessera::cuda {
namespace {

bool launch_blocking() {
  static const bool value = [] {
    const char* s = std::getenv("CUDA_LAUNCH_BLOCKING");
    return s && std::strcmp(s, "1") == 0;
  }();
  return value;
}

struct DeviceData {
  std::once_flag properties_once, report_once;
  Properties properties;
  Report* report = nullptr;
};
DeviceData& device_data(int device) {
  static DeviceData* data = new DeviceData[kMaxDevices];
  return data[device];
}

void read_properties(int device, Properties* to) {
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  *to = {p.name,           p.major,       p.minor,   p.multiProcessorCount, static_cast<int>(p.sharedMemPerBlockOptin),
         p.totalGlobalMem, p.l2CacheSize, p.warpSize};
}

[[noreturn]] void raise_report(const Report& r) {
  switch (static_cast<ReportKind>(r.kind)) {
    case ReportKind::kIndexOutOfBounds:
      tessera::internal::raise<IndexError>("index ", r.index, " is out of bounds for dimension ", r.dim, " with size ",
                                           r.size);
    case ReportKind::kGatherIndex:
    case ReportKind::kScatterIndex:
      tessera::internal::raise<Error>("index ", r.index, " is out of bounds for dimension ", r.dim, " with size ",
                                      r.size);
    case ReportKind::kTargetOutOfBounds:
      tessera::internal::raise<IndexError>("Target ", r.index, " is out of bounds.");
    case ReportKind::kIntegerDivisionByZero:
      tessera::internal::raise<Error>("ZeroDivisionError");
    case ReportKind::kBadProbability:
      tessera::internal::raise<Error>("probability tensor contains either `inf`, `nan` or element < 0");
    case ReportKind::kNotBetween0And1:
      tessera::internal::raise<Error>("all elements of input should be between 0 and 1");
    case ReportKind::kBadBags:
      tessera::internal::raise<Error>(
          r.index == 0
              ? "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position "
                "0. However, got "
              : "offsets has to be non-decreasing and its last entry can not be greater than input's length ",
          r.size);
    default:
      tessera::internal::raise<Error>("CUDA error: device-side assert triggered");
  }
}

}  // namespace

void internal::raise_error(cudaError_t e) {
  cudaGetLastError();
  const std::string problem = e == cudaErrorNoKernelImageForDevice ? architecture_problem(op_device()) : std::string();
  throw AcceleratorError(
      str_cat("CUDA error: ", cudaGetErrorString(e), "\nSearch for `", cudaGetErrorName(e),
              "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
              "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
              "might be incorrect.\n"
              "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n",
              problem),
      static_cast<int>(e));
}

void check(cudaError_t e, const char*) {
  if (e != cudaSuccess) [[unlikely]]
    internal::raise_error(e);
}

int device_count() {
  static std::atomic<int> count{0};  // what failed may go better the next time
  if (const int known = count.load(std::memory_order_relaxed); known > 0) return known;
  int n = 0;
  if (cudaGetDeviceCount(&n) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  if (n > 0) internal::watch_forks();
  n = n < kMaxDevices ? n : kMaxDevices;
  count.store(n, std::memory_order_relaxed);
  return n;
}

const Properties& properties() { return properties(op_device()); }
const Properties& properties(int device) {
  check_device(device);
  DeviceData& d = device_data(device);
  std::call_once(d.properties_once, [&] { read_properties(device, &d.properties); });
  return d.properties;
}

int op_device() {
  const ThreadState& s = thread_state();
  return s.op >= 0 ? s.op : s.selected;
}

void set_op_device(int device) {
  ThreadState& s = thread_state();
  const int next = device >= 0 ? device : s.selected;
  // Other libraries of the program select devices, too: the runtime is asked, and not remembered.
  int now = -1;
  if (cudaGetDevice(&now) != cudaSuccess || now != next) {
    // Going back to a device must not fail where an OpDevice ends; who works on the device next meets the error.
    const cudaError_t e = cudaSetDevice(next);
    if (!(s.reached >> next & 1)) check(e, "cudaSetDevice");
    s.reached |= uint64_t{1} << next;
  }
  s.op = device;
}

cudaStream_t current_stream() { return thread_state().streams[op_device()]; }

void synchronize_stream() {
  before_synchronizing();
  check(cudaStreamSynchronize(current_stream()), "cudaStreamSynchronize");
  check_reports();
}

void copy_to_host(void* host, const void* device, size_t n) {
  if (n) check(cudaMemcpyAsync(host, device, n, cudaMemcpyDeviceToHost, current_stream()), "cudaMemcpyAsync");
  synchronize_stream();
}

void copy_to_device(void* device, const void* host, size_t n) {
  if (n == 0) return;
  check(cudaMemcpyAsync(device, host, n, cudaMemcpyHostToDevice, current_stream()), "cudaMemcpyAsync");
  // The runtime has taken pageable memory when it returns, but reads pinned memory later.
  if (is_pinned(host)) check(cudaStreamSynchronize(current_stream()), "cudaStreamSynchronize");
}

void fill_bytes(void* device, int value, size_t n) {
  if (n) check(cudaMemsetAsync(device, value, n, current_stream()), "cudaMemsetAsync");
}

Report* report_slot() {
  DeviceData& d = device_data(op_device());
  std::call_once(d.report_once, [&] {
    RelaxedCapture relaxed;
    void* p = nullptr;
    check(cudaHostAlloc(&p, sizeof(Report), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
    std::memset(p, 0, sizeof(Report));
    d.report = static_cast<Report*>(p);
  });
  return d.report;
}

void check_reports() {
  Report* slot = device_data(op_device()).report;
  if (!slot || __atomic_load_n(&slot->kind, __ATOMIC_ACQUIRE) == 0) return;
  const Report r = *slot;
  __atomic_store_n(&slot->kind, 0, __ATOMIC_RELEASE);
  raise_report(r);
}

void after_launch() {
  if (!launch_blocking()) return;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(current_stream(), &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) return;
  check(cudaStreamSynchronize(current_stream()), "kernel");
  check_reports();
}

}  // namespace tessera::cuda
