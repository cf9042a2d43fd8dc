// The name of the device type "privateuseone", which a backend of somebody else may choose once.
#pragma once

#include <string>

namespace tessera {

// Error for a name that is no identifier or another device's, and for a second one that differs from the first.
void rename_private_device(const std::string& name);
const char* private_device_name();

}  // namespace tessera
