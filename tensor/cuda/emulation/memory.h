// The memory of the emulated devices: a range of addresses for each, which can be touched only while a kernel or a copy
// runs.
//
// Environment: TESSERA_EMULATED_DEVICES (1), their number; TESSERA_EMULATED_MEMORY (8192), MiB each;
// TESSERA_EMULATED_PROTECT=0 lets host code touch device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tessera::cuda {
struct MemoryDriver;
}

namespace tessera::cuda::emulation {

int emulated_devices();
size_t total_memory();
size_t free_memory(int device);

// 256-byte aligned, filled with 0xCD, a page that cannot be touched right behind it (behind up to 255 bytes of
// padding). Null when the device is full.
void* allocate_memory(int device, size_t n);
bool free_memory_at(void* p);  // false if p is not the start of an allocation
// Reserved ranges of addresses, and memory mapped into them from their beginning on.
MemoryDriver memory_driver();
// The device on whose address range p lies, or -1.
int device_of(const void* p);
// True if [p, p + n) is host memory or lies in one allocation of a device.
bool is_accessible(const void* p, size_t n);
bool find_allocation(const void* p, void** start, size_t* n);

// Whether `device` reaches the memory of `peer`; returns what was so before.
bool set_peer_access(int device, int peer, bool on);
// What an allocator does with memory that it has been given back, in the order of its stream: where work is deferred
// (work.h), it is filled with 0xDD.
void fill_freed(void* p, size_t n, int device, cudaStream_t stream);

// While one lives, its thread can touch the memory that a device reaches (-1: all); other threads that want to wait.
class DeviceAccess {
 public:
  explicit DeviceAccess(int device = -1);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  int device_;
};

}  // namespace tessera::cuda::emulation
