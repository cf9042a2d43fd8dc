// What the core needs of a device type other than CPU and Meta: memory, and numbers out of it. Computing goes through
// tensor/engine.
#pragma once

#include <cstddef>

#include "tensor/core/device.h"
#include "tensor/core/generator/generator.h"
#include "tensor/core/storage.h"

namespace tessera {

struct DeviceHooks {
  // Memory of a device; OutOfMemoryError. `context` is handed to free.
  void* (*allocate)(Device device, size_t nbytes, void** context) = nullptr;
  void (*free)(void* data, void* context, size_t nbytes) = nullptr;
  // Copies within a device, in the order of its work.
  void (*copy)(void* dst, const void* src, Device device, size_t nbytes) = nullptr;
  // Copies to host memory, when all work that was given to the device before is done.
  void (*read)(void* host, const void* data, Device device, size_t nbytes) = nullptr;
  // Why there is no device; what a user can do. Set where there is a library for the type, but no device.
  const char* problem = nullptr;
  // How many devices there are, and the index that a device without one means.
  int (*count)() = nullptr;
  int (*current_index)() = nullptr;
  // The generator that samplers use on a device when none is given.
  const Generator& (*default_generator)(Device device) = nullptr;
  // Pinned host memory, which the device can copy from and to while the CPU goes on. `context` is handed to
  // free_pinned.
  void* (*allocate_pinned)(size_t nbytes, void** context) = nullptr;
  void (*free_pinned)(void* data, void* context, size_t nbytes) = nullptr;
  bool (*is_pinned)(const void* data) = nullptr;
  // The device memory at `data` is used by work of `stream` (the library's handle) of `device`, too: it is not used
  // again before that is done.
  void (*record_stream)(void* data, Device device, void* stream) = nullptr;
  // Streams of a device with an index, for types that have them: the one that this thread's work goes to now (null: the
  // default one), another one in its place, and a mark in one that later work of the other waits for.
  void* (*current_stream)(Device device) = nullptr;
  void (*set_stream)(Device device, void* stream) = nullptr;
  void (*wait_stream)(Device device, void* waits, Device marked_device, void* marked) = nullptr;
};

// The hooks of a type, filled by its library when that is loaded.
DeviceHooks& device_hooks(DeviceType t);
// The same without loading anything: null while the library is not loaded.
const DeviceHooks* loaded_device_hooks(DeviceType t);
// The device with its index. Error if no library for it is loaded, or if there is no such device.
Device complete_device(Device d);
// A CPU storage in pinned memory. Error without an accelerator.
Storage allocate_pinned(size_t nbytes);
// True for CPU storages in pinned memory, also memory that others pinned.
bool is_pinned(const StorageImpl& s);

// Called once when a type's hooks are first needed and still empty: what loads its library. The Python package sets it.
using DeviceLoader = void (*)(DeviceType t);
void set_device_loader(DeviceLoader loader);

}  // namespace tessera
