#include "tensor/engine/engines.h"

#include "tensor/core/error.h"

namespace tessera {

Engines& engines_of(DeviceType t) {
  static Engines tables[32];
  return tables[static_cast<int>(t)];
}

namespace internal {
const Engines& select_engines(Device d, const char* name) {
  const Engines& e = engines_of(d.type);
  if (!e.select) missing_engine(d, name);
  e.select(d);
  return e;
}
void missing_engine(Device d, const char* name) {
  raise<NotImplementedError>("Could not run '", name, "' on device ", d.str(), ": ", engines_of(d.type).select ? "its library has no such function" : "no library for this device is loaded");
}
}  // namespace internal

}  // namespace tessera
