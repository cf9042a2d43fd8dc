// What the core needs of a device type other than CPU and Meta: memory, and numbers out of it. Computing goes through tensor/engine.
#pragma once

#include <cstddef>

#include "tensor/core/device.h"
#include "tensor/core/generator.h"

namespace tessera {

struct DeviceHooks {
  // Memory of a device; OutOfMemoryError. `context` is handed to free.
  void* (*allocate)(Device device, size_t nbytes, void** context) = nullptr;
  void (*free)(void* data, void* context, size_t nbytes) = nullptr;
  // Copies within a device, in the order of its work.
  void (*copy)(void* dst, const void* src, Device device, size_t nbytes) = nullptr;
  // Copies to host memory, when all work that was given to the device before is done.
  void (*read)(void* host, const void* data, Device device, size_t nbytes) = nullptr;
  // How many devices there are, and the index that a device without one means.
  int (*count)() = nullptr;
  int (*current_index)() = nullptr;
  // The generator that samplers use on a device when none is given.
  const Generator& (*default_generator)(Device device) = nullptr;
};

// The hooks of a type, filled by its library when that is loaded.
DeviceHooks& device_hooks(DeviceType t);
// The device with its index. Error if no library for it is loaded, or if there is no such device.
Device complete_device(Device d);

// Called once when a type's hooks are first needed and still empty: what loads its library. The Python package sets it.
using DeviceLoader = void (*)(DeviceType t);
void set_device_loader(DeviceLoader loader);

}  // namespace tessera
