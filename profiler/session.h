// One recording while it runs, and after it until somebody asks for it.
#pragma once

#include <memory>
#include <vector>

#include "profiler/profiler.h"

namespace tessera::profiler {

class Session {
 public:
  Options options;
  uint64_t number = 0;
  Moment start{}, stop{};
  int64_t memory_at_start = 0;
  std::vector<std::shared_ptr<Log>> logs;
};

}  // namespace tessera::profiler
