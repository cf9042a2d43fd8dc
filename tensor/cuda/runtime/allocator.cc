#include "tensor/cuda/runtime/allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/allocator_internal.h"
#include "tensor/cuda/runtime/streams.h"
#include "tensor/cuda/runtime/thread_state.h"
#include "tensor/cuda/runtime/virtual_memory.h"

#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/memory.h"
#endif

namespace tessera::cuda {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kMinBlock = 512;
constexpr size_t kMaxSmall = kMiB;  // blocks up to this size are in the small pools
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;  // of blocks below kMinOwnSegment
constexpr size_t kMinOwnSegment = 10 * kMiB;
constexpr size_t kSegmentRounding = 2 * kMiB;

struct Pool;
struct Expandable;

struct Block {
  int device;
  cudaStream_t stream;
  size_t size;
  Pool* pool;
  char* data;
  size_t requested = 0;
  bool allocated = false;
  int pending_events = 0;         // of other streams' uses, after it was freed
  std::vector<Stream> used_by{};  // streams other than its own
  Block* before = nullptr;        // its neighbours in the segment
  Block* after = nullptr;
  uint64_t freed_at = 0;             // searches in its pool until it was freed
  Expandable* expandable = nullptr;  // the segment, if it is one that grows
  bool is_free() const { return !allocated && pending_events == 0 && used_by.empty(); }
  bool is_split() const { return before || after; }
};
struct BySize {
  static auto key(const Block* b) {
    return std::tuple(reinterpret_cast<uintptr_t>(b->stream), b->size, reinterpret_cast<uintptr_t>(b->data));
  }
  bool operator()(const Block* a, const Block* b) const { return key(a) < key(b); }
};
struct PrivatePool;
struct Pool {
  bool small;
  PrivatePool* owner;
  std::set<Block*, BySize> free{};
  uint64_t searches = 0;
};
struct PrivatePool {
  PoolId id;
  int users = 0;
  int64_t segments = 0;
  PoolOptions options{};
  Pool small{true, this}, large{false, this};
  explicit PrivatePool(PoolId i) : id(i) {}
};

// A segment that grows at its end: one for each stream of a pool.
struct Expandable {
  std::unique_ptr<AddressRange> range;
  Block* last = nullptr;
};

enum : int { kAll = 0, kSmallPool, kLargePool, kPoolKinds };
struct Stats {
  Stat allocation[kPoolKinds], segment[kPoolKinds], active[kPoolKinds], inactive_split[kPoolKinds];
  Stat allocated_bytes[kPoolKinds], reserved_bytes[kPoolKinds], active_bytes[kPoolKinds],
      inactive_split_bytes[kPoolKinds], requested_bytes[kPoolKinds];
  Stat oversize_allocations, oversize_segments;
  int64_t alloc_retries = 0, ooms = 0, sync_all_streams = 0, device_allocs = 0, device_frees = 0;
};
template <class S, class F>
void for_each_stat(S& s, F&& f) {
  for (auto* array : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes, &s.reserved_bytes,
                      &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes}) {
    for (auto& stat : *array) f(stat);
  }
  f(s.oversize_allocations);
  f(s.oversize_segments);
}
void increase(Stat (&s)[kPoolKinds], const Block* b, size_t n) {
  s[kAll].increase(static_cast<int64_t>(n));
  s[b->pool->small ? kSmallPool : kLargePool].increase(static_cast<int64_t>(n));
}
void decrease(Stat (&s)[kPoolKinds], const Block* b, size_t n) {
  s[kAll].decrease(static_cast<int64_t>(n));
  s[b->pool->small ? kSmallPool : kLargePool].decrease(static_cast<int64_t>(n));
}

std::mutex settings_mutex;
std::optional<AllocatorSettings> settings_now;
AllocatorSettings settings() {
  std::lock_guard lock(settings_mutex);
  if (!settings_now) settings_now = environment_allocator_settings();
  return *settings_now;
}
std::atomic<uint64_t> settings_version{1};

std::atomic<bool>& uncached() {
  static std::atomic<bool> value = [] {
    const char* s = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
    return s && std::string(s) == "1";
  }();
  return value;
}
std::atomic<bool> allocated_ever{false};

// All allocated blocks by address.
class BlockTable {
 public:
  void add(Block* b) {
    Part& p = part(b->data);
    std::lock_guard lock(p.mutex);
    p.blocks[b->data] = b;
  }
  Block* find(void* data, bool remove) {
    Part& p = part(data);
    std::lock_guard lock(p.mutex);
    const auto it = p.blocks.find(data);
    if (it == p.blocks.end()) return nullptr;
    Block* b = it->second;
    if (remove) p.blocks.erase(it);
    return b;
  }

 private:
  struct Part {
    std::mutex mutex;
    std::unordered_map<void*, Block*> blocks;
  };
  Part parts_[61];
  Part& part(const void* p) { return parts_[reinterpret_cast<uintptr_t>(p) / kMinBlock % 61]; }
};
BlockTable& block_table() {
  static BlockTable& t = *new BlockTable;
  return t;
}

class DeviceAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device) {}

  Block* allocate(size_t requested, cudaStream_t stream) {
    std::unique_lock lock(mutex_);
    refresh_settings();
    if (captures_.empty()) {
      process_events();
      end_deferred();
    }
    const size_t size = round_block_size(requested, settings_);
    Pool& pool = pool_for(size, stream);
    Block* b = find_free(pool, size, stream);
    if (!b) b = new_segment(pool, size, stream);
    if (!b) b = find_in_reserve(size, stream);
    if (!b) out_of_memory(lock, segment_size(size));
    if (should_split(b, size))
      split(b, size);
    else if (b->is_split()) {
      decrease(stats_.inactive_split, b, 1);
      decrease(stats_.inactive_split_bytes, b, b->size);
    }
    b->allocated = true;
    b->requested = requested;
    increase(stats_.allocation, b, 1);
    increase(stats_.allocated_bytes, b, b->size);
    increase(stats_.active, b, 1);
    increase(stats_.active_bytes, b, b->size);
    increase(stats_.requested_bytes, b, requested);
    if (b->size >= settings_.max_split_size) stats_.oversize_allocations.increase(1);
    active_.insert(b);
    note(AllocatorEvent::kAlloc, device_, b->data, b->size, stream);
    return b;
  }

  void free(Block* b) {
    std::lock_guard lock(mutex_);
    b->allocated = false;
    note(AllocatorEvent::kFreeRequested, device_, b->data, b->size, b->stream);
    decrease(stats_.allocation, b, 1);
    decrease(stats_.allocated_bytes, b, b->size);
    if (b->size >= settings_.max_split_size) stats_.oversize_allocations.decrease(1);
    if (b->used_by.empty())
      free_now(b);
    else if (captures_.empty())
      insert_events(b);
    else
      deferred_.push_back(b);
  }

  void record(Block* b, Stream s) {
    std::lock_guard lock(mutex_);
    if (s != Stream{device_, b->stream} && std::ranges::find(b->used_by, s) == b->used_by.end())
      b->used_by.push_back(s);
  }

  void empty_cache() {
    std::lock_guard lock(mutex_);
    release_all_cached();
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    MemoryStats out;
    const std::pair<const char*, Stat*> arrays[] = {
        // The number of allocations is documented as "allocated" and known as "allocation".
        {"active", stats_.active},
        {"active_bytes", stats_.active_bytes},
        {"allocated", stats_.allocation},
        {"allocated_bytes", stats_.allocated_bytes},
        {"allocation", stats_.allocation},
        {"inactive_split", stats_.inactive_split},
        {"inactive_split_bytes", stats_.inactive_split_bytes},
        {"requested_bytes", stats_.requested_bytes},
        {"reserved_bytes", stats_.reserved_bytes},
        {"segment", stats_.segment}};
    constexpr const char* kKinds[] = {"all", "small_pool", "large_pool"};
    for (const auto& [name, stats] : arrays) {
      for (int k = 0; k < kPoolKinds; ++k) stats[k].list(std::string(name) + "." + kKinds[k], &out);
    }
    stats_.oversize_allocations.list("oversize_allocations", &out);
    stats_.oversize_segments.list("oversize_segments", &out);
    refresh_settings();
    out.emplace_back("max_split_size",
                     settings_.max_split_size == SIZE_MAX ? -1 : static_cast<int64_t>(settings_.max_split_size));
    out.emplace_back("num_alloc_retries", stats_.alloc_retries);
    out.emplace_back("num_device_alloc", stats_.device_allocs);
    out.emplace_back("num_device_free", stats_.device_frees);
    out.emplace_back("num_ooms", stats_.ooms);
    out.emplace_back("num_sync_all_streams", stats_.sync_all_streams);
    std::sort(out.begin(), out.end());
    return out;
  }

  void reset_peaks() {
    std::lock_guard lock(mutex_);
    for_each_stat(stats_, [](Stat& s) { s.reset_peak(); });
  }

  void reset_accumulated() {
    std::lock_guard lock(mutex_);
    for_each_stat(stats_, [](Stat& s) { s.reset_accumulated(); });
    stats_.alloc_retries = stats_.ooms = stats_.sync_all_streams = stats_.device_allocs = stats_.device_frees = 0;
  }

  void set_fraction(double fraction) {
    std::lock_guard lock(mutex_);
    fraction_ = fraction;
  }
  double fraction() {
    std::lock_guard lock(mutex_);
    return fraction_;
  }

  void begin_pool(PoolId id, std::function<bool(cudaStream_t)> filter) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<PrivatePool>& p = private_pools_[id];
    if (!p) p = std::make_unique<PrivatePool>(id);
    ++p->users;
    captures_.emplace_back(id, std::move(filter));
  }

  void end_pool(PoolId id) {
    std::lock_guard lock(mutex_);
    for (size_t i = captures_.size(); i-- > 0;) {
      if (captures_[i].first != id) continue;
      captures_.erase(captures_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    tessera::internal::raise<Error>("end_pool: nothing is allocated to this pool now");
  }

  void release_pool(PoolId id) {
    std::lock_guard lock(mutex_);
    const auto it = private_pools_.find(id);
    TESSERA_CHECK(it != private_pools_.end() && it->second->users > 0, "release_pool: the pool has no users");
    --it->second->users;
    forget_empty_pools();
  }

  void set_pool_options(PoolId id, const PoolOptions& options) {
    std::lock_guard lock(mutex_);
    const auto it = private_pools_.find(id);
    TESSERA_CHECK(it != private_pools_.end() && it->second->segments == 0,
                  "set_pool_options: the pool must exist, and have no memory yet");
    it->second->options = options;
  }

  int pool_users(PoolId id) {
    std::lock_guard lock(mutex_);
    const auto it = private_pools_.find(id);
    return it == private_pools_.end() ? 0 : it->second->users;
  }

  void snapshot(std::vector<SegmentInfo>* out) {
    std::lock_guard lock(mutex_);
    std::vector<Block*> heads;
    const auto add_heads = [&](const auto& blocks) {
      for (Block* b : blocks)
        if (!b->before) heads.push_back(b);
    };
    add_heads(active_);
    for_each_pool([&](Pool& p) { add_heads(p.free); });
    for (Block* head : heads) {
      SegmentInfo s{device_,
                    reinterpret_cast<uintptr_t>(head->data),
                    head->stream,
                    0,
                    0,
                    0,
                    0,
                    head->pool->small,
                    head->expandable != nullptr,
                    head->pool->owner ? head->pool->owner->id : PoolId{0, 0},
                    {}};
      for (const Block* b = head; b; b = b->after) {
        const bool active = b->allocated || b->pending_events > 0 || !b->used_by.empty();
        s.total += b->size;
        if (b->allocated) s.allocated += b->size;
        if (active) s.active += b->size;
        if (b->allocated) s.requested += b->requested;
        s.blocks.push_back({b->size, b->requested, reinterpret_cast<uintptr_t>(b->data),
                            b->allocated ? BlockInfo::kAllocated
                            : active     ? BlockInfo::kPendingFree
                                         : BlockInfo::kFree});
      }
      out->push_back(std::move(s));
    }
  }

 private:
  void refresh_settings() {
    if (const uint64_t now = settings_version; now != seen_settings_) {
      settings_ = settings();
      seen_settings_ = now;
    }
  }

  template <class F>
  void for_each_pool(F&& f) {
    f(small_);
    f(large_);
    for (auto& [id, p] : private_pools_) {
      f(p->small);
      f(p->large);
    }
  }

  Pool& pool_for(size_t size, cudaStream_t stream) {
    for (size_t i = captures_.size(); i-- > 0;) {
      if (!captures_[i].second(stream)) continue;
      PrivatePool& p = *private_pools_.at(captures_[i].first);
      return size <= kMaxSmall ? p.small : p.large;
    }
    return size <= kMaxSmall ? small_ : large_;
  }

  static size_t segment_size(size_t size) {
    if (size <= kMaxSmall) return kSmallSegment;
    if (size < kMinOwnSegment) return kLargeSegment;
    return (size + kSegmentRounding - 1) / kSegmentRounding * kSegmentRounding;
  }

  // The smallest free block that is large enough. Segments above max_split_size stay whole, and are for requests of
  // about their size.
  Block* find_free(Pool& pool, size_t size, cudaStream_t stream) {
    ++pool.searches;
    Block key{device_, stream, size, nullptr, nullptr};
    const auto it = pool.free.lower_bound(&key);
    if (it == pool.free.end() || (*it)->stream != stream) return nullptr;
    Block* b = *it;
    if (b->expandable) {
      pool.free.erase(it);
      return b;
    }
    if (size < settings_.max_split_size ? b->size >= settings_.max_split_size : b->size >= size + kLargeSegment)
      return nullptr;
    pool.free.erase(it);
    return b;
  }

  // What is free in pools that others may use when the device has no more.
  Block* find_in_reserve(size_t size, cudaStream_t stream) {
    for (auto& [id, p] : private_pools_) {
      if (!p->options.use_on_oom) continue;
      if (Block* b = find_free(size <= kMaxSmall ? p->small : p->large, size, stream)) return b;
    }
    return nullptr;
  }

  // Asks the device, and when it has no more gives back what is cached: first as little as does, then all.
  Block* new_segment(Pool& pool, size_t size, cudaStream_t stream) {
    if (settings_.garbage_collection_threshold > 0 && fraction_set()) collect_garbage();
    const size_t n = segment_size(size);
    if (Expandable* e = expandable_for(pool, stream)) {
      if (Block* b = grow(*e, pool, size, stream)) return b;
      ++stats_.alloc_retries;
      release_all_cached();
      if (Block* b = find_free(pool, size, stream)) return b;  // what other streams had used
      e = expandable_for(pool, stream);                        // an empty one is gone
      return e ? grow(*e, pool, size, stream) : nullptr;
    }
    Block* b = try_segment(pool, n, stream);
    if (!b && release_oversize(n, stream)) b = try_segment(pool, n, stream);
    if (!b) {
      ++stats_.alloc_retries;
      release_all_cached();
      b = try_segment(pool, n, stream);
    }
    return b;
  }

  bool fraction_set() const { return fraction_ < 1; }
  size_t allowed_bytes() const {
    return fraction_set() ? static_cast<size_t>(fraction_ * static_cast<double>(properties(device_).total_memory))
                          : SIZE_MAX;
  }
  size_t reserved() const { return static_cast<size_t>(stats_.reserved_bytes[kAll].current); }

  Block* try_segment(Pool& pool, size_t n, cudaStream_t stream) {
    if (n > allowed_bytes() || reserved() > allowed_bytes() - n) return nullptr;
    void* p = nullptr;
    {
      OpDevice on(device_);
      RelaxedCapture relaxed;
      if (pool.owner && pool.owner->options.allocate) {
        p = pool.owner->options.allocate(static_cast<ssize_t>(n), device_, stream);
        if (!p) return nullptr;
      } else {
        const cudaError_t e = cudaMalloc(&p, n);
        if (e == cudaErrorMemoryAllocation) {
          cudaGetLastError();
          return nullptr;
        }
        check(e, "cudaMalloc");
      }
    }
    ++stats_.device_allocs;
    note(AllocatorEvent::kSegmentAlloc, device_, p, n, stream);
    Block* b = new Block{device_, stream, n, &pool, static_cast<char*>(p)};
    if (pool.owner) ++pool.owner->segments;
    increase(stats_.segment, b, 1);
    increase(stats_.reserved_bytes, b, n);
    if (n >= settings_.max_split_size) stats_.oversize_segments.increase(1);
    return b;
  }

  // b is free and whole, and in no set any more.
  void release_segment(Block* b) {
    OpDevice on(device_);
    RelaxedCapture relaxed;
    if (b->pool->owner && b->pool->owner->options.free)
      b->pool->owner->options.free(b->data, static_cast<ssize_t>(b->size), device_, b->stream);
    else if (cudaFree(b->data) != cudaSuccess)
      cudaGetLastError();
    note(AllocatorEvent::kSegmentFree, device_, b->data, b->size, b->stream);
    ++stats_.device_frees;
    if (b->pool->owner) --b->pool->owner->segments;
    decrease(stats_.segment, b, 1);
    decrease(stats_.reserved_bytes, b, b->size);
    if (b->size >= settings_.max_split_size) stats_.oversize_segments.decrease(1);
    delete b;
  }

  void release_unsplit(Pool& pool) {
    for (auto it = pool.free.begin(); it != pool.free.end();) {
      Block* b = *it;
      if (b->is_split() || b->expandable) {
        ++it;
        continue;
      }
      it = pool.free.erase(it);
      release_segment(b);
    }
  }

  // The growing segment of a pool's stream; null if there are to be none.
  Expandable* expandable_for(Pool& pool, cudaStream_t stream) {
    if (!settings_.expandable_segments ||
        (pool.owner && (pool.owner->options.allocate || pool.owner->options.no_split)))
      return nullptr;
    std::unique_ptr<Expandable>& e = expandables_[{&pool, stream}];
    if (!e) {
      const size_t total = properties(device_).total_memory;
      auto range = AddressRange::reserve(device_, total + total / 8, pool.small ? kSmallSegment : kLargeSegment);
      if (!range) {
        expandables_.erase({&pool, stream});
        return nullptr;
      }
      e = std::make_unique<Expandable>();
      e->range = std::move(range);
    }
    return e.get();
  }

  // Maps as much behind the segment as makes room for a block of `size` bytes, and gives that room.
  Block* grow(Expandable& e, Pool& pool, size_t size, cudaStream_t stream) {
    Block* const last = e.last && e.last->is_free() ? e.last : nullptr;
    const size_t piece = e.range->piece(), mapped = e.range->mapped();
    const size_t n = (size - (last ? last->size : 0) + piece - 1) / piece * piece;
    if (n > allowed_bytes() || reserved() > allowed_bytes() - n) return nullptr;
    {
      RelaxedCapture relaxed;
      if (!e.range->grow(n)) return nullptr;
    }
    Block* b = last;
    if (b) {
      pool.free.erase(b);
      b->size += n;
      if (b->is_split()) increase(stats_.inactive_split_bytes, b, n);
    } else {
      b = new Block{device_, stream, n, &pool, e.range->base() + mapped};
      b->expandable = &e;
      b->before = e.last;
      if (e.last) {
        e.last->after = b;
        increase(stats_.inactive_split, b, 1);
        increase(stats_.inactive_split_bytes, b, n);
      }
      e.last = b;
    }
    ++stats_.device_allocs;
    note(AllocatorEvent::kSegmentAlloc, device_, e.range->base() + mapped, n, stream);
    if (mapped == 0) {
      if (pool.owner) ++pool.owner->segments;
      increase(stats_.segment, b, 1);
    }
    increase(stats_.reserved_bytes, b, n);
    return b;
  }

  // Gives the free pieces at the end of a growing segment back. True if nothing is left of it.
  bool shrink(Expandable& e) {
    Block* const b = e.last;
    if (!b) return true;
    if (!b->is_free()) return false;
    Pool& pool = *b->pool;
    const size_t piece = e.range->piece(),
                 kept = (static_cast<size_t>(b->data - e.range->base()) + piece - 1) / piece * piece,
                 n = e.range->mapped() - kept;
    if (n == 0) return false;
    {
      OpDevice on(device_);
      RelaxedCapture relaxed;
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // work of its stream may still use freed blocks
    }
    e.range->shrink(n);
    ++stats_.device_frees;
    note(AllocatorEvent::kSegmentFree, device_, e.range->base() + kept, n, b->stream);
    decrease(stats_.reserved_bytes, b, n);
    if (b->is_split()) decrease(stats_.inactive_split_bytes, b, n);
    pool.free.erase(b);
    b->size -= n;
    if (b->size > 0) {
      pool.free.insert(b);
      return false;
    }
    e.last = b->before;
    if (e.last) {
      decrease(stats_.inactive_split, b, 1);
      e.last->after = nullptr;
    } else {
      if (pool.owner) --pool.owner->segments;
      decrease(stats_.segment, b, 1);
    }
    delete b;
    return !e.last;
  }
  void shrink_expandables() {
    std::erase_if(expandables_, [&](auto& entry) {
      const PrivatePool* owner = entry.first.first->owner;
      return !(owner && owner->users > 0) && shrink(*entry.second);
    });
  }

  void release_all_cached() {
    if (captures_.empty()) {
      synchronize_events();
      end_deferred();
      synchronize_events();
    }
    release_unsplit(small_);
    release_unsplit(large_);
    if (captures_.empty()) shrink_expandables();  // it waits for the device
    for (auto& [id, p] : private_pools_) {
      if (p->users > 0) continue;
      release_unsplit(p->small);
      release_unsplit(p->large);
    }
    forget_empty_pools();
  }

  void forget_empty_pools() {
    const auto is_empty = [](const PrivatePool& p) { return p.users == 0 && p.segments == 0; };
    std::erase_if(expandables_,
                  [&](const auto& entry) { return entry.first.first->owner && is_empty(*entry.first.first->owner); });
    std::erase_if(private_pools_, [&](const auto& entry) { return is_empty(*entry.second); });
  }

  // For a request of n bytes above max_split_size: free blocks above it, which nobody else may split.
  bool release_oversize(size_t n, cudaStream_t stream) {
    if (settings_.max_split_size == SIZE_MAX) return false;
    Block key{device_, stream, std::max(n, settings_.max_split_size), nullptr, nullptr};
    auto it = large_.free.lower_bound(&key);
    if (it != large_.free.end() && (*it)->stream == stream) {
      Block* b = *it;
      if (b->is_split() || b->expandable) return false;
      large_.free.erase(it);
      release_segment(b);
      return true;
    }
    size_t released = 0;
    while (released < n && it != large_.free.begin()) {
      Block* b = *--it;
      if (b->stream != stream || b->size < settings_.max_split_size) break;
      if (b->is_split() || b->expandable) continue;
      released += b->size;
      it = large_.free.erase(it);
      release_segment(b);
    }
    return released >= n;
  }

  // Gives back segments that were not asked for longer than the others, until less than the threshold is reserved.
  void collect_garbage() {
    const auto threshold =
        static_cast<size_t>(settings_.garbage_collection_threshold * static_cast<double>(allowed_bytes()));
    if (reserved() <= threshold) return;
    const size_t wanted = reserved() - threshold;
    size_t released = 0;
    for (bool again = true; again && released < wanted;) {
      again = false;
      uint64_t total_age = 0, count = 0;
      for (const Block* b : large_.free) {
        if (b->is_split() || b->expandable) continue;
        total_age += large_.searches - b->freed_at;
        ++count;
      }
      if (count == 0) return;
      const double average = static_cast<double>(total_age) / static_cast<double>(count);
      for (auto it = large_.free.begin(); it != large_.free.end() && released < wanted;) {
        Block* b = *it;
        const uint64_t age = large_.searches - b->freed_at;
        if (b->is_split() || b->expandable || age == 0 || static_cast<double>(age) < average) {
          ++it;
          continue;
        }
        released += b->size;
        again = true;
        it = large_.free.erase(it);
        release_segment(b);
      }
    }
  }

  bool should_split(const Block* b, size_t size) const {
    const size_t rest = b->size - size;
    if (b->pool->owner && b->pool->owner->options.no_split) return false;
    return b->pool->small || b->expandable ? rest >= kMinBlock : size < settings_.max_split_size && rest > kMaxSmall;
  }

  // Keeps the first `size` bytes of b; the rest becomes a free block.
  void split(Block* b, size_t size) {
    const bool was_split = b->is_split();
    Block* rest = new Block{device_, b->stream, b->size - size, b->pool, b->data + size};
    rest->before = b;
    rest->after = b->after;
    rest->expandable = b->expandable;
    if (b->expandable && b->expandable->last == b) b->expandable->last = rest;
    if (rest->after) rest->after->before = rest;
    b->after = rest;
    b->size = size;
    rest->freed_at = b->pool->searches;
    b->pool->free.insert(rest);
    if (was_split) {
      decrease(stats_.inactive_split_bytes, b, size);
    } else {
      increase(stats_.inactive_split, b, 1);
      increase(stats_.inactive_split_bytes, b, rest->size);
    }
  }

  // No work of any stream uses b any more but that of its own stream.
  void free_now(Block* b) {
#if TESSERA_CUDA_EMULATED
    emulation::fill_freed(b->data, b->size, device_, b->stream);
#endif
    active_.erase(b);
    note(AllocatorEvent::kFreeCompleted, device_, b->data, b->size, b->stream);
    decrease(stats_.active, b, 1);
    decrease(stats_.active_bytes, b, b->size);
    decrease(stats_.requested_bytes, b, b->requested);
    int64_t splits = 0, split_bytes = 0;
    for (Block* neighbour : {b->before, b->after}) {
      const size_t n = merge(b, neighbour);
      if (n == 0) continue;
      --splits;
      split_bytes -= static_cast<int64_t>(n);
    }
    if (b->is_split()) {
      ++splits;
      split_bytes += static_cast<int64_t>(b->size);
    }
    count_splits(b, splits, split_bytes);
    b->requested = 0;
    b->freed_at = b->pool->searches;
    b->pool->free.insert(b);
  }

  void count_splits(const Block* b, int64_t splits, int64_t bytes) {
    if (splits > 0)
      increase(stats_.inactive_split, b, static_cast<size_t>(splits));
    else if (splits < 0)
      decrease(stats_.inactive_split, b, static_cast<size_t>(-splits));
    if (bytes > 0)
      increase(stats_.inactive_split_bytes, b, static_cast<size_t>(bytes));
    else if (bytes < 0)
      decrease(stats_.inactive_split_bytes, b, static_cast<size_t>(-bytes));
  }

  // Joins a free neighbour to b. Returns its size; 0 if it is not free.
  size_t merge(Block* b, Block* other) {
    if (!other || !other->is_free()) return 0;
    if (b->expandable && b->expandable->last == other) b->expandable->last = b;
    other->pool->free.erase(other);
    const size_t n = other->size;
    if (other == b->before) {
      b->data = other->data;
      b->before = other->before;
      if (b->before) b->before->after = b;
    } else {
      b->after = other->after;
      if (b->after) b->after->before = b;
    }
    b->size += n;
    delete other;
    return n;
  }

  Event take_event(int device) {
    auto& spare = spare_events_[device];
    if (spare.empty()) return {};
    Event e = std::move(spare.back());
    spare.pop_back();
    return e;
  }

  // One event on each stream that used b; the last one that is reached frees it. Memory is freed where nothing may be
  // thrown: if the device is not able to make events any more, the block stays in use.
  void insert_events(Block* b) noexcept {
    try {
      for (; !b->used_by.empty(); b->used_by.pop_back()) {
        const Stream s = b->used_by.back();
        Event e = take_event(s.device);
        e.record(s);
        events_[{s.device, s.handle}].emplace_back(std::move(e), b);
        ++b->pending_events;
      }
    } catch (const Error&) { ++b->pending_events; }
  }

  void end_deferred() {
    for (Block* b : std::exchange(deferred_, {})) insert_events(b);
  }

  void end_event(std::pair<Event, Block*> entry) {
    spare_events_[entry.first.device()].push_back(std::move(entry.first));
    if (--entry.second->pending_events == 0) free_now(entry.second);
  }

  void process_events() {
    for (auto it = events_.begin(); it != events_.end();) {
      auto& queue = it->second;
      while (!queue.empty() && queue.front().first.query()) {
        auto entry = std::move(queue.front());
        queue.pop_front();
        end_event(std::move(entry));
      }
      it = queue.empty() ? events_.erase(it) : std::next(it);
    }
  }

  void synchronize_events() {
    ++stats_.sync_all_streams;
    for (auto& [stream, queue] : std::exchange(events_, {})) {
      for (auto& entry : queue) {
        entry.first.synchronize();
        end_event(std::move(entry));
      }
    }
  }

  [[noreturn]] void out_of_memory(std::unique_lock<std::mutex>& lock, size_t n) {
    ++stats_.ooms;
    size_t free_bytes = 0, total = 0;
    {
      OpDevice on(device_);
      RelaxedCapture relaxed;
      check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
    }
    note(AllocatorEvent::kOom, device_, reinterpret_cast<const void*>(free_bytes), n, nullptr);
    const auto allocated = static_cast<uint64_t>(stats_.allocated_bytes[kAll].current);
    uint64_t in_private = 0;
    for (const Block* b : active_)
      if (b->allocated && b->pool->owner) in_private += b->size;
    std::string allowed = fraction_set() ? str_cat(format_size(allowed_bytes()), " allowed; ") : "";
    std::string in_pools =
        in_private ? str_cat("with ", format_size(in_private), " allocated in private pools (e.g., CUDA Graphs), ")
                   : "";
    const std::string text =
        str_cat("CUDA out of memory. Tried to allocate ", format_size(n), ". GPU ", device_,
                " has a total capacity of ", format_size(total), " of which ", format_size(free_bytes), " is free. ",
                allowed, "Of the allocated memory ", format_size(allocated - in_private), " is allocated by PyTorch, ",
                in_pools, "and ", format_size(reserved() - allocated),
                " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
                "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "
                "See documentation for Memory Management  "
                "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)");
    lock.unlock();
    throw OutOfMemoryError(text);
  }

  const int device_;
  std::mutex mutex_;
  AllocatorSettings settings_;
  uint64_t seen_settings_ = 0;
  Pool small_{true, nullptr}, large_{false, nullptr};
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_pools_;
  std::vector<std::pair<PoolId, std::function<bool(cudaStream_t)>>>
      captures_;  // who allocates to private pools now; the last one that accepts a stream gets it
  std::map<std::pair<Pool*, cudaStream_t>, std::unique_ptr<Expandable>> expandables_;
  std::set<Block*> active_;       // allocated, or waiting for events
  std::vector<Block*> deferred_;  // freed during a capture, when no event can be queried
  std::map<std::pair<int, cudaStream_t>, std::deque<std::pair<Event, Block*>>> events_;
  std::map<int, std::vector<Event>> spare_events_;
  Stats stats_;
  double fraction_ = 1;
};

DeviceAllocator& allocator_of(int device) {
  static const std::vector<DeviceAllocator*>& all = *[] {
    auto* v = new std::vector<DeviceAllocator*>;
    for (int i = 0; i < device_count(); ++i) v->push_back(new DeviceAllocator(i));
    return v;
  }();
  check_device(device);
  return *all[static_cast<size_t>(device)];
}

void* allocate_uncached(int device, size_t n) {
  OpDevice on(device);
  void* p = nullptr;
  const cudaError_t e = cudaMalloc(&p, n);
  if (e == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    tessera::internal::raise<OutOfMemoryError>("CUDA out of memory. Tried to allocate ", format_size(n), ".");
  }
  check(e, "cudaMalloc");
  return p;
}

}  // namespace

void* allocate_on(int device, cudaStream_t stream, size_t nbytes) {
  TESSERA_CHECK(!is_forked(),
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method");
  if (nbytes == 0) return nullptr;
  if (nbytes >= size_t{1} << 60)
    tessera::internal::raise<OutOfMemoryError>("CUDA out of memory. Tried to allocate more than 1EB memory.");
  if (void* p; allocate_plugged(device, stream, nbytes, &p)) return p;
  allocated_ever.store(true, std::memory_order_relaxed);
  if (uncached()) return allocate_uncached(device, nbytes);
  Block* b = allocator_of(device).allocate(nbytes, stream);
  block_table().add(b);
  return b->data;
}

void* allocate(size_t nbytes) { return allocate_on(op_device(), current_stream(), nbytes); }

void free(void* p) {
  if (!p || is_forked()) return;
  if (Block* b = block_table().find(p, true))
    allocator_of(b->device).free(b);
  else if (!free_plugged(p) && cudaFree(p) != cudaSuccess)
    cudaGetLastError();
}

bool has_allocated() { return allocated_ever.load(std::memory_order_relaxed); }
void set_caching(bool on) { uncached() = !on; }

void record_stream(void* p, int device, cudaStream_t stream) {
  if (!p) return;
  check_device(device);
  if (Block* b = block_table().find(p, false)) allocator_of(b->device).record(b, {device, stream});
}

void empty_cache() {
  for (int i = 0; i < device_count(); ++i) allocator_of(i).empty_cache();
}

MemoryStats memory_stats(int device) { return allocator_of(device).stats(); }
void reset_peak_memory_stats(int device) { allocator_of(device).reset_peaks(); }
void reset_accumulated_memory_stats(int device) { allocator_of(device).reset_accumulated(); }

std::pair<size_t, size_t> memory_info(int device) {
  check_device(device);
  OpDevice on(device);
  size_t free_bytes = 0, total = 0;
  check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
  return {free_bytes, total};
}

void set_memory_fraction(double fraction, int device) {
  TESSERA_CHECK_VALUE(fraction >= 0 && fraction <= 1, "Invalid fraction value: ", fraction, ". Allowed range: 0~1");
  allocator_of(device).set_fraction(fraction);
}
double memory_fraction(int device) { return allocator_of(device).fraction(); }

void set_allocator_settings(const std::string& text) {
  AllocatorSettings s = parse_allocator_settings(text);
  std::lock_guard lock(settings_mutex);
  settings_now = std::move(s);
  ++settings_version;
}
std::string allocator_settings() { return settings().text; }

PoolId new_pool_id(bool by_user) {
  static std::atomic<uint64_t> graphs{0}, users{0};
  return by_user ? PoolId{++users, 0} : PoolId{0, ++graphs};
}
void begin_pool(int device, PoolId id, std::function<bool(cudaStream_t)> filter) {
  allocator_of(device).begin_pool(id, std::move(filter));
}
void end_pool(int device, PoolId id) { allocator_of(device).end_pool(id); }
void release_pool(int device, PoolId id) { allocator_of(device).release_pool(id); }
void set_pool_options(int device, PoolId id, const PoolOptions& options) {
  allocator_of(device).set_pool_options(id, options);
}
int pool_use_count(int device, PoolId id) { return allocator_of(device).pool_users(id); }

std::vector<SegmentInfo> memory_snapshot() {
  std::vector<SegmentInfo> out;
  for (int i = 0; i < device_count(); ++i) allocator_of(i).snapshot(&out);
  std::sort(out.begin(), out.end(), [](const SegmentInfo& a, const SegmentInfo& b) { return a.address < b.address; });
  return out;
}

}  // namespace tessera::cuda
