#include "tensor/engine/device.h"

#include "tensor/core/error.h"

namespace tessera {

namespace internal {
DeviceType select_device(Device d, const char* name) {
  const DeviceTable& table = DeviceTable::of(d.type);
  if (!table.select) missing_engine(d, name);
  table.select(d);
  return d.type;
}
void missing_engine(Device d, const char* name) {
  raise<NotImplementedError>(
      "Could not run '", name, "' on device ", d.str(), ": ",
      DeviceTable::of(d.type).select ? "its library has no such function" : "no library for this device is loaded");
}
}  // namespace internal

}  // namespace tessera
