// While they live, a device is the current one. A build without devices has the CPU alone.
#pragma once

#include <optional>

#include "c10/core/Device.h"

namespace c10 {

class DeviceGuard {
 public:
  explicit DeviceGuard(Device d) : device_(d) {}
  void reset_device(Device d) { device_ = d; }
  void set_index(DeviceIndex i) { device_.set_index(i); }
  Device original_device() const { return Device(device_.type()); }
  Device current_device() const { return device_; }

 private:
  Device device_;
};
class OptionalDeviceGuard {
 public:
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(std::optional<Device> d) : device_(d) {}
  void reset_device(Device d) { device_ = d; }
  std::optional<Device> original_device() const {
    return device_ ? std::optional<Device>(device_->type()) : std::nullopt;
  }
  std::optional<Device> current_device() const { return device_; }

 private:
  std::optional<Device> device_;
};

}  // namespace c10
namespace at {
using c10::DeviceGuard;
using c10::OptionalDeviceGuard;
}  // namespace at
