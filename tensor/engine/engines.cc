#include "tensor/engine/engines.h"

#include "tensor/core/error.h"

namespace tessera {

namespace internal {
DeviceType select_device(Device d, const char* name) {
  const Engines& e = Engines::of(d.type);
  if (!e.select) missing_engine(d, name);
  e.select(d);
  return d.type;
}
void missing_engine(Device d, const char* name) {
  raise<NotImplementedError>(
      "Could not run '", name, "' on device ", d.str(), ": ",
      Engines::of(d.type).select ? "its library has no such function" : "no library for this device is loaded");
}
}  // namespace internal

}  // namespace tessera
