// An allocator of the user in place of the caching one.
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/allocator_internal.h"

namespace tessera::cuda {
namespace {

struct Functions {
  AllocateFunction allocate;
  FreeFunction free;
};
std::atomic<const Functions*> plugged{nullptr};

struct Given {
  size_t size;
  int device;
  cudaStream_t stream;
};
std::mutex mutex;
std::unordered_map<void*, Given>& given() {
  static auto& map = *new std::unordered_map<void*, Given>;
  return map;
}

}  // namespace

void set_pluggable_allocator(AllocateFunction allocate, FreeFunction free) {
  TESSERA_CHECK(!has_allocated() && !plugged.load(), "Can't swap an already initialized allocator");
  plugged = new Functions{allocate, free};
}

bool allocate_plugged(int device, cudaStream_t stream, size_t nbytes, void** p) {
  const Functions* f = plugged.load(std::memory_order_acquire);
  if (!f) [[likely]]
    return false;
  OpDevice on(device);
  *p = f->allocate(static_cast<ssize_t>(nbytes), device, stream);
  if (!*p)
    tessera::internal::raise<OutOfMemoryError>("CUDA out of memory. Tried to allocate ", format_size(nbytes), ".");
  std::lock_guard lock(mutex);
  given()[*p] = {nbytes, device, stream};
  return true;
}

bool free_plugged(void* p) {
  const Functions* f = plugged.load(std::memory_order_acquire);
  if (!f) [[likely]]
    return false;
  Given g;
  {
    std::lock_guard lock(mutex);
    const auto it = given().find(p);
    if (it == given().end()) return false;
    g = it->second;
    given().erase(it);
  }
  OpDevice on(g.device);
  f->free(p, static_cast<ssize_t>(g.size), g.device, g.stream);
  return true;
}

}  // namespace tessera::cuda
