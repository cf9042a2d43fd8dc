#include "tensor/cuda/library/library.h"

#include <atomic>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/architectures.h"
#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/runtime/runtime.h"
#include "tensor/cuda/runtime/streams.h"

namespace tessera::cuda {
namespace {

std::atomic<bool> used{false};

void* allocate_memory(Device device, size_t nbytes, void**) {
  used.store(true, std::memory_order_relaxed);
  OpDevice on(device.index);
  return allocate(nbytes);
}
void free_memory(void* data, void*, size_t) { free(data); }

void copy_within(void* dst, const void* src, Device device, size_t nbytes) {
  OpDevice on(device.index);
  check(cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyDeviceToDevice, current_stream()), "cudaMemcpyAsync");
}

void read_memory(void* host, const void* data, Device device, size_t nbytes) {
  OpDevice on(device.index);
  copy_to_host(host, data, nbytes);
}

// Between two devices: the source's stream does the copy, after the work that the target's stream holds, which then
// waits for it.
void transfer_between(void* dst, int dst_device, const void* src, int src_device, size_t n) {
  const OpDevice on(src_device);  // a default stream is that of the device at work
  const Stream from = current_stream(src_device), to = current_stream(dst_device);
  Event target_ready, done;
  target_ready.record(to);
  target_ready.wait(from);
  enable_peer_access(src_device, dst_device);
  check(cudaMemcpyPeerAsync(dst, dst_device, src, src_device, n, from.handle), "cudaMemcpyPeerAsync");
  done.record(from);
  done.wait(to);
}

void transfer(void* dst, Device dst_device, const void* src, Device src_device, size_t n, bool non_blocking) {
  if (n == 0) return;
  if (dst_device.is_cuda() && src_device.is_cuda())
    return transfer_between(dst, dst_device.index, src, src_device.index, n);
  const bool to_host = dst_device.is_cpu();
  OpDevice on((to_host ? src_device : dst_device).index);
  void* host = to_host ? dst : const_cast<void*>(src);
  const bool captured = is_capturing({op_device(), current_stream()});
  if (captured) {
    TESSERA_CHECK(is_pinned(host),
                  "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned: "
                  "the graph would read or write memory that is not there any more when it is replayed. Please use "
                  "tensor.pin_memory() or allocate the tensor with pin_memory=True.");
    TESSERA_CHECK(non_blocking,
                  "Cannot wait for a copy between CPU and CUDA tensors during CUDA graph capture: nothing runs before "
                  "the graph is replayed. Please copy with non_blocking=True.");
    hold_for_replays(host);
  }
  check(cudaMemcpyAsync(dst, src, n, to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, current_stream()),
        "cudaMemcpyAsync");
  if (captured || (non_blocking && record_pinned(host, op_device(), current_stream()))) return;
  // Pageable memory has been read when the call returns.
  if (!non_blocking || to_host || is_pinned(host)) synchronize_stream();
}

void* allocate_pinned_memory(size_t nbytes, void**) { return allocate_pinned(nbytes); }
void free_pinned_memory(void* data, void*, size_t) { free_pinned(data); }
void record_use(void* data, Device device, void* stream) {
  record_stream(data, device.index, static_cast<cudaStream_t>(stream));
}
void* stream_of(Device device) { return current_stream(device.index).handle; }
void put_stream(Device device, void* stream) { set_current_stream({device.index, static_cast<cudaStream_t>(stream)}); }
void wait_for_stream(Device device, void* waits, Device marked_device, void* marked) {
  Event e;
  e.record({marked_device.index, static_cast<cudaStream_t>(marked)});
  e.wait({device.index, static_cast<cudaStream_t>(waits)});
}

// What keeps a machine with a driver from using its devices; empty where there is none.
std::string connection_problem() {
  int n = 0, driver = 0, runtime = 0;
  const cudaError_t e = cudaGetDeviceCount(&n);
  cudaGetLastError();
  if (e == cudaSuccess || e == cudaErrorNoDevice) return {};
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (e == cudaErrorInsufficientDriver && driver == 0) return {};  // there is no driver at all
  const auto version = [](int v) { return str_cat(v / 1000, ".", v % 1000 / 10); };
  std::string advice;
  if (e == cudaErrorInsufficientDriver)
    advice = str_cat("The NVIDIA driver on your system is too old: it supports CUDA ", version(driver),
                     ", but this library needs CUDA ", version(runtime), ". Please install a newer driver.");
  else if (e == cudaErrorSystemNotReady)
    advice = "Systems with NVSwitch need NVIDIA's fabric manager: please start it, in the driver's version.";
  else if (e == cudaErrorSystemDriverMismatch)
    advice = "The loaded kernel module and the driver's libraries have different versions: please restart the system.";
  else
    advice = "Please look whether nvidia-smi shows the devices, and at CUDA_VISIBLE_DEVICES.";
  return str_cat("CUDA initialization: error ", static_cast<int>(e), ", ", cudaGetErrorName(e), ": ",
                 cudaGetErrorString(e), ". ", advice);
}

// Of devices none of which runs our kernels, what is wrong with the first; empty where one does.
std::string kernel_problem() {
  for (int device = 0; device < device_count(); ++device) {
    if (architecture_problem(device).empty()) return {};
  }
  return architecture_problem(0);
}

}  // namespace

bool has_been_used() { return used.load(std::memory_order_relaxed); }

bool connect(DeviceTable& table, DeviceHooks& hooks, const Generator& (*default_generator)(Device device)) {
  static const std::string problem = device_count() == 0 ? connection_problem() : kernel_problem();
  hooks.problem = problem.empty() ? nullptr : problem.c_str();
  if (device_count() == 0 || hooks.problem) return false;
  table.select = [](Device d) { set_op_device(d.index); };
  table.transfer = &transfer;
  hooks.free = &free_memory;
  hooks.copy = &copy_within;
  hooks.read = &read_memory;
  hooks.count = &device_count;
  hooks.current_index = &selected_device;
  hooks.default_generator = default_generator;
  hooks.allocate_pinned = &allocate_pinned_memory;
  hooks.free_pinned = &free_pinned_memory;
  hooks.is_pinned = &is_pinned;
  hooks.record_stream = &record_use;
  hooks.current_stream = &stream_of;
  hooks.set_stream = &put_stream;
  hooks.wait_stream = &wait_for_stream;
  hooks.allocate = &allocate_memory;
  return true;
}

}  // namespace tessera::cuda
