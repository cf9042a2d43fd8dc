// One recording while it runs, and after it until somebody asks for it.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
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
  const DeviceTracer* tracer = nullptr;  // of devices, if they are recorded
  std::vector<DeviceActivity> device;
  std::unordered_set<std::string> device_names;  // which `device` points to
};

}  // namespace tessera::profiler
