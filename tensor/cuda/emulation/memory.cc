#include "tensor/cuda/emulation/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "tensor/cuda/runtime/virtual_memory.h"

namespace tessera::cuda::emulation {
namespace {

constexpr size_t kPage = 4096;

struct Device {
  unsigned char* base = nullptr;
  size_t used = 0;
  struct Allocation {
    size_t pages;
    void* start;
    size_t n;
  };
  std::map<size_t, Allocation>
      allocations;  // by the offset of the first page; pages in bytes, without the one that cannot be touched
};

long environment(const char* name, long otherwise) {
  const char* s = getenv(name);
  return s && *s ? std::strtol(s, nullptr, 10) : otherwise;
}

size_t reserved_bytes() {
  return total_memory() + total_memory() / 2;
}  // room for the pages between allocations, and for holes

struct Memory {
  std::recursive_mutex mutex;
  int depth = 0;
  bool protect = environment("TESSERA_EMULATED_PROTECT", 1) != 0;
  std::vector<Device> devices{static_cast<size_t>(emulated_devices())};
  struct Range {
    unsigned char* base;
    size_t n;
    int device;
  };
  std::vector<Range> ranges;  // reserved by programs; device: whose memory is mapped there, or -1
  struct Handle {
    int device;
    size_t n;
  };
  std::map<uint64_t, Handle> handles;
  uint64_t last_handle = 0;
  struct sigaction before {};

  Memory();
};

Memory& memory() {
  static Memory& m = *new Memory;
  return m;
}

void on_fault(int signal, siginfo_t* info, void*) {
  const int device = device_of(info->si_addr);
  if (device >= 0) {
    char text[160];
    const int n =
        std::snprintf(text, sizeof text, "emulated device %d: %s at address %p\n", device,
                      memory().depth > 0 ? "a kernel or copy touches no allocation" : "host code touches device memory",
                      info->si_addr);
    if (write(2, text, n) < 0) _exit(1);
  }
  sigaction(signal, &memory().before, nullptr);  // the instruction faults again
}

Memory::Memory() {
  for (Device& d : devices) {
    void* p = mmap(nullptr, reserved_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    d.base = static_cast<unsigned char*>(p);
  }
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
}

bool peers[64][64];  // [who][whose memory]

// Of the memory that a device reaches; all of it for -1.
void set_access(int protection, int device) {
  auto& devices = memory().devices;
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    Device& d = devices[static_cast<size_t>(i)];
    if (device >= 0 && device != i && !peers[device][i]) continue;
    for (auto& [offset, a] : d.allocations) mprotect(d.base + offset, a.pages, protection);
  }
}

}  // namespace

int emulated_devices() {
  static const long n = environment("TESSERA_EMULATED_DEVICES", 1);
  return n < 0 ? 0 : n > 64 ? 64 : static_cast<int>(n);
}

size_t total_memory() {
  static const size_t n = static_cast<size_t>(environment("TESSERA_EMULATED_MEMORY", 8192)) << 20;
  return n;
}

size_t free_memory(int device) {
  std::lock_guard lock(memory().mutex);
  return total_memory() - memory().devices[device].used;
}

void* allocate_memory(int device, size_t n) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  Device& d = m.devices[device];
  if (n > total_memory()) return nullptr;
  const size_t rounded = (n + 255) / 256 * 256, pages = (rounded + kPage - 1) / kPage * kPage;
  if (d.used + pages > total_memory()) return nullptr;
  size_t offset = 0;  // the first hole that is large enough
  for (auto& [start, a] : d.allocations) {
    if (start - offset >= pages + kPage) break;
    offset = start + a.pages + kPage;
  }
  if (offset + pages + kPage > reserved_bytes()) return nullptr;
  unsigned char* first = d.base + offset;
  void* p = first + pages - rounded;
  if (mprotect(first, pages, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(first, 0xCD, pages);
  if (m.protect && m.depth == 0) mprotect(first, pages, PROT_NONE);
  d.allocations[offset] = {pages, p, n};
  d.used += pages;
  return p;
}

bool free_memory_at(void* p) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  const int device = device_of(p);
  if (device < 0) return false;
  Device& d = m.devices[device];
  auto it = d.allocations.upper_bound(static_cast<unsigned char*>(p) - d.base);
  if (it == d.allocations.begin() || (--it)->second.start != p) return false;
  madvise(d.base + it->first, it->second.pages, MADV_DONTNEED);
  mprotect(d.base + it->first, it->second.pages, PROT_NONE);
  d.used -= it->second.pages;
  d.allocations.erase(it);
  return true;
}

int device_of(const void* p) {
  const auto* b = static_cast<const unsigned char*>(p);
  const auto& devices = memory().devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (b >= devices[i].base && b < devices[i].base + reserved_bytes()) return static_cast<int>(i);
  }
  for (const Memory::Range& r : memory().ranges)
    if (b >= r.base && b < r.base + r.n) return r.device;
  return -1;
}

namespace {

Memory::Range* range_at(CUdeviceptr at) {
  for (Memory::Range& r : memory().ranges)
    if (at >= reinterpret_cast<uintptr_t>(r.base) && at < reinterpret_cast<uintptr_t>(r.base) + r.n) return &r;
  return nullptr;
}
CUresult reserve_range(CUdeviceptr* at, size_t n, size_t, CUdeviceptr, unsigned long long) {
  void* p = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(memory().mutex);
  memory().ranges.push_back({static_cast<unsigned char*>(p), n, -1});
  *at = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}
CUresult unreserve_range(CUdeviceptr at, size_t n) {
  std::lock_guard lock(memory().mutex);
  std::erase_if(memory().ranges, [at](const Memory::Range& r) { return reinterpret_cast<CUdeviceptr>(r.base) == at; });
  munmap(reinterpret_cast<void*>(at), n);
  return CUDA_SUCCESS;
}
CUresult create_memory(CUmemGenericAllocationHandle* handle, size_t n, const CUmemAllocationProp* properties,
                       unsigned long long) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  const int device = properties->location.id;
  if (device < 0 || device >= static_cast<int>(m.devices.size()) || n % (2 << 20) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (m.devices[device].used + n > total_memory()) return CUDA_ERROR_OUT_OF_MEMORY;
  m.devices[device].used += n;
  *handle = ++m.last_handle;
  m.handles[*handle] = {device, n};
  return CUDA_SUCCESS;
}
CUresult release_memory(CUmemGenericAllocationHandle handle) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  const auto it = m.handles.find(handle);
  if (it == m.handles.end()) return CUDA_ERROR_INVALID_VALUE;
  m.devices[it->second.device].used -= it->second.n;
  m.handles.erase(it);
  return CUDA_SUCCESS;
}
// What is mapped behind other memory of its range continues that allocation. It can be touched when its access is set.
CUresult map_memory(CUdeviceptr at, size_t n, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  Memory::Range* const r = range_at(at);
  const auto it = m.handles.find(handle);
  if (!r || it == m.handles.end() || it->second.n != n) return CUDA_ERROR_INVALID_VALUE;
  r->device = it->second.device;
  Device& d = m.devices[r->device];
  const size_t first = static_cast<size_t>(r->base - d.base), offset = at - reinterpret_cast<uintptr_t>(d.base);
  const auto mapped = d.allocations.find(first);
  if (offset == first ? mapped != d.allocations.end()
                      : mapped == d.allocations.end() || first + mapped->second.n != offset)
    return CUDA_ERROR_INVALID_VALUE;
  Device::Allocation& a = d.allocations[first];
  a.start = r->base;
  a.pages += n;
  a.n += n;
  return CUDA_SUCCESS;
}
CUresult set_range_access(CUdeviceptr at, size_t n, const CUmemAccessDesc*, size_t) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  unsigned char* const p = reinterpret_cast<unsigned char*>(at);
  if (mprotect(p, n, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::memset(p, 0xCD, n);
  if (m.protect && m.depth == 0) mprotect(p, n, PROT_NONE);
  return CUDA_SUCCESS;
}
CUresult unmap_memory(CUdeviceptr at, size_t n) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  Memory::Range* const r = range_at(at);
  if (!r || r->device < 0) return CUDA_ERROR_INVALID_VALUE;
  Device& d = m.devices[r->device];
  const auto it = d.allocations.find(static_cast<size_t>(r->base - d.base));
  if (it == d.allocations.end() || r->base + it->second.n != reinterpret_cast<unsigned char*>(at) + n)
    return CUDA_ERROR_INVALID_VALUE;
  madvise(reinterpret_cast<void*>(at), n, MADV_DONTNEED);
  mprotect(reinterpret_cast<void*>(at), n, PROT_NONE);
  it->second.n -= n;
  it->second.pages -= n;
  if (it->second.n == 0) {
    d.allocations.erase(it);
    r->device = -1;
  }
  return CUDA_SUCCESS;
}

}  // namespace

MemoryDriver memory_driver() {
  return {reserve_range, unreserve_range, create_memory, release_memory, map_memory, unmap_memory, set_range_access};
}

bool find_allocation(const void* p, void** start, size_t* n) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  const int device = device_of(p);
  if (device < 0) return false;
  Device& d = m.devices[device];
  auto it = d.allocations.upper_bound(static_cast<const unsigned char*>(p) - d.base);
  if (it == d.allocations.begin()) return false;
  const Device::Allocation& a = (--it)->second;
  if (p < a.start || p > static_cast<unsigned char*>(a.start) + a.n) return false;
  *start = a.start;
  *n = a.n;
  return true;
}

bool is_accessible(const void* p, size_t n) {
  if (device_of(p) < 0) return true;
  void* start;
  size_t size;
  return find_allocation(p, &start, &size) &&
         static_cast<const unsigned char*>(p) + n <= static_cast<unsigned char*>(start) + size;
}

bool set_peer_access(int device, int peer, bool on) {
  std::lock_guard lock(memory().mutex);
  return std::exchange(peers[device][peer], on);
}

void fill_freed(void* p, size_t n, int device, cudaStream_t stream) {
  static const bool wanted = environment("TESSERA_EMULATED_DEFERRED", 0) != 0;
  if (!wanted || n == 0) return;
  int before = 0;
  cudaGetDevice(&before);
  cudaSetDevice(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess && status == cudaStreamCaptureStatusNone) {
    // Of large blocks both ends: they are memory that nobody has touched yet.
    constexpr size_t kEnd = 1 << 20;
    cudaMemsetAsync(p, 0xDD, n < 2 * kEnd ? n : kEnd, stream);
    if (n >= 2 * kEnd) cudaMemsetAsync(static_cast<char*>(p) + n - kEnd, 0xDD, kEnd, stream);
  }
  cudaSetDevice(before);
}

DeviceAccess::DeviceAccess(int device) : device_(device) {
  Memory& m = memory();
  m.mutex.lock();
  if (m.depth++ == 0 && m.protect) set_access(PROT_READ | PROT_WRITE, device);
}

DeviceAccess::~DeviceAccess() {
  Memory& m = memory();
  if (--m.depth == 0 && m.protect) set_access(PROT_NONE, device_);
  m.mutex.unlock();
}

}  // namespace tessera::cuda::emulation
