// Named ranges on the timeline of NVIDIA's profilers. Without a profiler they cost next to nothing.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::cuda {

int range_push(const std::string& text);  // the depth of the new range, from 0
int range_pop();                          // the depth of the range that ends
uint64_t range_start(const std::string& text);
void range_end(uint64_t id);  // maybe on another thread
void mark(const std::string& text);

}  // namespace tessera::cuda
