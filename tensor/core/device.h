// Where a tensor lives, and how its elements lie there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tessera {

enum class DeviceType : uint8_t {
  kCPU = 0,
  kCUDA,
  kMeta,
  kMPS,
  kXPU,
  kHPU,
  kMTIA,
  kXLA,
  kVulkan,
  kIPU,
  kLazy,
  kIDEEP,
  kMKLDNN,
  kOpenGL,
  kOpenCL,
  kHIP,
  kFPGA,
  kMAIA,
  kVE,
  kPrivateUse1
};
inline constexpr int kNumDeviceTypes = static_cast<int>(DeviceType::kPrivateUse1) + 1;

struct Device {
  DeviceType type = DeviceType::kCPU;
  int8_t index = -1;  // -1: the current one

  constexpr Device() = default;
  constexpr Device(DeviceType t, int i = -1) : type(t), index(static_cast<int8_t>(i)) {}
  // "cpu", "cuda:1"; throws Error (RuntimeError) with the documented list of types.
  explicit Device(std::string_view text);
  bool is_cpu() const { return type == DeviceType::kCPU; }
  bool is_cuda() const { return type == DeviceType::kCUDA; }
  bool is_meta() const { return type == DeviceType::kMeta; }
  bool has_index() const { return index >= 0; }
  std::string str() const;  // "cuda:1"
  friend constexpr bool operator==(Device a, Device b) = default;
};
const char* device_type_name(DeviceType t);

enum class Layout : uint8_t {
  kStrided = 0,
  kSparseCoo,
  kSparseCsr,
  kSparseCsc,
  kSparseBsr,
  kSparseBsc,
  kJagged,
  kMkldnn
};
const char* layout_name(Layout l);  // "torch.strided" without the prefix

enum class MemoryFormat : uint8_t { kContiguous = 0, kPreserve, kChannelsLast, kChannelsLast3d };
const char* memory_format_name(MemoryFormat f);

}  // namespace tessera
