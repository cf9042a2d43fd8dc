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
#include <vector>

namespace tessera::cuda::emulation {
namespace {

constexpr size_t kPage = 4096;

struct Device {
  unsigned char* base = nullptr;
  size_t used = 0;
  struct Allocation { size_t pages; void* start; size_t n; };
  std::map<size_t, Allocation> allocations;  // by the offset of the first page; pages in bytes, without the one that cannot be touched
};

long environment(const char* name, long otherwise) {
  const char* s = getenv(name);
  return s && *s ? std::strtol(s, nullptr, 10) : otherwise;
}

size_t reserved_bytes() { return total_memory() + total_memory() / 2; }  // room for the pages between allocations, and for holes

struct Memory {
  std::recursive_mutex mutex;
  int depth = 0;
  bool protect = environment("TESSERA_EMULATED_PROTECT", 1) != 0;
  std::vector<Device> devices{static_cast<size_t>(emulated_devices())};
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
    const int n = std::snprintf(text, sizeof text, "emulated device %d: %s at address %p\n", device,
                                memory().depth > 0 ? "a kernel or copy touches no allocation" : "host code touches device memory", info->si_addr);
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

void set_access(int protection) {
  for (Device& d : memory().devices) {
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
  return -1;
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
  return find_allocation(p, &start, &size) && static_cast<const unsigned char*>(p) + n <= static_cast<unsigned char*>(start) + size;
}

DeviceAccess::DeviceAccess() {
  Memory& m = memory();
  m.mutex.lock();
  if (m.depth++ == 0 && m.protect) set_access(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  Memory& m = memory();
  if (--m.depth == 0 && m.protect) set_access(PROT_NONE);
  m.mutex.unlock();
}

}  // namespace tessera::cuda::emulation
