// What the sources of the allocators share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/cuda/runtime/allocator.h"

namespace tessera::cuda {

struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void increase(int64_t n) {
    current += n;
    peak = std::max(peak, current);
    allocated += n;
  }
  void decrease(int64_t n) {
    current -= n;
    freed += n;
  }
  void reset_peak() { peak = current; }
  void reset_accumulated() { allocated = freed = 0; }
  void list(const std::string& name, std::vector<std::pair<std::string, int64_t>>* to) const {
    to->emplace_back(name + ".current", current);
    to->emplace_back(name + ".peak", peak);
    to->emplace_back(name + ".allocated", allocated);
    to->emplace_back(name + ".freed", freed);
  }
};

struct AllocatorSettings {
  size_t max_split_size = SIZE_MAX;
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  size_t power2_divisions[16] = {};  // by the size's power of two, from 1 MiB on
  std::string text;
};
AllocatorSettings parse_allocator_settings(const std::string& text);
AllocatorSettings environment_allocator_settings();

// Adds to the history, if one is recorded.
void note(AllocatorEvent::Action action, int device, const void* address, size_t size, cudaStream_t stream);

// The user's allocator: false if there is none (or p is not its memory).
bool allocate_plugged(int device, cudaStream_t stream, size_t nbytes, void** p);
bool free_plugged(void* p);
bool has_allocated();  // by the caching allocator, ever

// A pinned block that is held is not given to anybody else when it is freed, until it is dropped as often as it was
// held. False if `address` is in no block.
bool hold_pinned(const void* address);
void drop_pinned(const void* address);

// As blocks are rounded up.
size_t round_block_size(size_t n, const AllocatorSettings& settings);
std::string format_size(uint64_t n);  // "20.00 MiB"

}  // namespace tessera::cuda
