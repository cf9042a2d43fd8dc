// What a device's library offers besides engines: the choice of a device, and the way to its memory.
#pragma once

#include <cstddef>

#include "tensor/engine/engine.h"

namespace tessera {

struct DeviceTable : EngineTable<DeviceTable> {
  // Makes `device` the one that the calling thread's engine calls work on. Null: no library is loaded.
  void (*select)(Device device) = nullptr;
  // Between host and device, or two devices: n bytes, dense. non_blocking: it may end later, in stream order, if the
  // host memory is pinned.
  void (*transfer)(void* dst, Device dst_device, const void* src, Device src_device, size_t n,
                   bool non_blocking) = nullptr;
};

}  // namespace tessera
