#include "tensor/cuda/library/library.h"

#include <atomic>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/allocator.h"
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
  check(cudaMemcpyAsync(dst, src, n, to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, current_stream()),
        "cudaMemcpyAsync");
  if (non_blocking && record_pinned(host, op_device(), current_stream())) return;
  if (to_host || is_pinned(host)) synchronize_stream();  // pageable memory has been read when the call returns
}

void* allocate_pinned_memory(size_t nbytes, void**) { return allocate_pinned(nbytes); }
void free_pinned_memory(void* data, void*, size_t) { free_pinned(data); }
void record_use(void* data, void* stream) { record_stream(data, static_cast<cudaStream_t>(stream)); }

}  // namespace

bool has_been_used() { return used.load(std::memory_order_relaxed); }

bool connect(DeviceTable& table, DeviceHooks& hooks, const Generator& (*default_generator)(Device device)) {
  if (device_count() == 0) return false;
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
  hooks.allocate = &allocate_memory;
  return true;
}

}  // namespace tessera::cuda
