// The allocators of device and pinned memory.
#include "python/bindings/cuda/calls.h"
#include "python/bindings/cuda/module.h"
#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/streams.h"

namespace tessera::python {
namespace {

using cuda::PoolId;

uint64_t allocate(int device, uint64_t stream, uint64_t nbytes) {
  cuda::check_device(device);
  return reinterpret_cast<uint64_t>(cuda::allocate_on(device, reinterpret_cast<cudaStream_t>(stream), nbytes));
}
void release(uint64_t address) { cuda::free(reinterpret_cast<void*>(address)); }

// Which thread allocates from a pool is the pool's matter: the one that began it.
void begin_pool(int device, PoolId id) {
  static thread_local char mark;
  const void* thread = &mark;
  cuda::begin_pool(device, id, [thread](cudaStream_t) { return &mark == thread; });
}

const char* text_of(cuda::BlockInfo::State s) {
  return s == cuda::BlockInfo::kAllocated     ? "active_allocated"
         : s == cuda::BlockInfo::kPendingFree ? "active_awaiting_free"
                                              : "inactive";
}
PyObject* block_to_python(const cuda::BlockInfo& b) {
  return check(Py_BuildValue("{s:K,s:K,s:K,s:s,s:[]}", "size", static_cast<unsigned long long>(b.size),
                             "requested_size", static_cast<unsigned long long>(b.requested), "address",
                             static_cast<unsigned long long>(b.address), "state", text_of(b.state), "frames"));
}
PyObject* segment_to_python(const cuda::SegmentInfo& s) {
  Ref blocks = Ref::steal(check(PyList_New(0)));
  for (const cuda::BlockInfo& b : s.blocks) check(PyList_Append(blocks.get(), Ref::steal(block_to_python(b)).get()));
  const auto number = [](auto v) { return static_cast<unsigned long long>(v); };
  return check(Py_BuildValue("{s:i,s:K,s:K,s:K,s:K,s:K,s:K,s:s,s:(KK),s:O,s:[],s:O}", "device", s.device, "address",
                             number(s.address), "total_size", number(s.total), "allocated_size", number(s.allocated),
                             "active_size", number(s.active), "requested_size", number(s.requested), "stream",
                             number(reinterpret_cast<uintptr_t>(s.stream)), "segment_type", s.small ? "small" : "large",
                             "segment_pool_id", number(s.pool.first), number(s.pool.second), "blocks", blocks.get(),
                             "frames", "is_expandable", s.expandable ? Py_True : Py_False));
}
PyObject* py_snapshot(PyObject*, PyObject*) {
  return guarded([&] {
    std::vector<cuda::SegmentInfo> segments;
    {
      GilRelease unlocked;
      segments = cuda::memory_snapshot();
    }
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const cuda::SegmentInfo& s : segments)
      check(PyList_Append(list.get(), Ref::steal(segment_to_python(s)).get()));
    return list.release();
  });
}

const char* text_of(cuda::AllocatorEvent::Action a) {
  constexpr const char* kTexts[] = {"alloc",         "free_requested", "free_completed",
                                    "segment_alloc", "segment_free",   "oom"};
  return kTexts[a];
}
PyObject* event_to_python(const cuda::AllocatorEvent& e) {
  const auto number = [](auto v) { return static_cast<unsigned long long>(v); };
  const char* about = e.action == cuda::AllocatorEvent::kOom ? "device_free" : "addr";
  return check(Py_BuildValue("{s:s,s:i,s:K,s:K,s:K,s:L,s:[]}", "action", text_of(e.action), "device", e.device, about,
                             number(e.address), "size", number(e.size), "stream",
                             number(reinterpret_cast<uintptr_t>(e.stream)), "time_us",
                             static_cast<long long>(e.time_us), "frames"));
}
PyObject* py_history(PyObject*, PyObject*) {
  return guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const cuda::AllocatorEvent& e : cuda::memory_history())
      check(PyList_Append(list.get(), Ref::steal(event_to_python(e)).get()));
    return list.release();
  });
}

void set_pool_options(int device, PoolId id, uint64_t allocate, uint64_t free, bool use_on_oom, bool no_split) {
  cuda::set_pool_options(device, id,
                         {reinterpret_cast<cuda::AllocateFunction>(allocate),
                          reinterpret_cast<cuda::FreeFunction>(free), use_on_oom, no_split});
}
void set_pluggable_allocator(uint64_t allocate, uint64_t free) {
  cuda::set_pluggable_allocator(reinterpret_cast<cuda::AllocateFunction>(allocate),
                                reinterpret_cast<cuda::FreeFunction>(free));
}

}  // namespace

void add_cuda_memory(PyObject* module) {
  add_functions(module,
                {function<allocate>("allocate"),
                 function<release>("release"),
                 function<cuda::empty_cache>("empty_cache"),
                 function<cuda::memory_stats>("memory_stats"),
                 function<cuda::reset_peak_memory_stats>("reset_peak_memory_stats"),
                 function<cuda::reset_accumulated_memory_stats>("reset_accumulated_memory_stats"),
                 function<cuda::memory_info>("memory_info"),
                 function<cuda::set_memory_fraction>("set_memory_fraction"),
                 function<cuda::memory_fraction>("memory_fraction"),
                 function<cuda::set_allocator_settings>("set_allocator_settings"),
                 function<cuda::allocator_settings>("allocator_settings"),
                 function<cuda::new_pool_id>("new_pool_id"),
                 function<begin_pool>("begin_pool"),
                 function<cuda::end_pool>("end_pool"),
                 function<cuda::release_pool>("release_pool"),
                 function<cuda::pool_use_count>("pool_use_count"),
                 function<set_pool_options>("set_pool_options"),
                 PyMethodDef{"memory_snapshot", py_snapshot, METH_NOARGS, nullptr},
                 PyMethodDef{"memory_history", py_history, METH_NOARGS, nullptr},
                 function<cuda::record_memory_history>("record_memory_history"),
                 function<cuda::set_caching>("set_caching"),
                 function<set_pluggable_allocator>("set_pluggable_allocator"),
                 function<cuda::empty_pinned_cache>("empty_pinned_cache"),
                 function<cuda::pinned_memory_stats>("pinned_memory_stats"),
                 function<cuda::reset_peak_pinned_memory_stats>("reset_peak_pinned_memory_stats"),
                 function<cuda::reset_accumulated_pinned_memory_stats>("reset_accumulated_pinned_memory_stats")});
}

}  // namespace tessera::python
