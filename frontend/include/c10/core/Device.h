// Devices, layouts and memory formats by their documented names.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "c10/util/Exception.h"
#include "tensor/core/device.h"

namespace c10 {

using DeviceIndex = int8_t;
enum class DeviceType : int8_t {
  CPU = 0,
  CUDA = 1,
  MKLDNN = 2,
  OPENGL = 3,
  OPENCL = 4,
  IDEEP = 5,
  HIP = 6,
  FPGA = 7,
  MAIA = 8,
  XLA = 9,
  Vulkan = 10,
  Metal = 11,
  XPU = 12,
  MPS = 13,
  Meta = 14,
  HPU = 15,
  VE = 16,
  Lazy = 17,
  IPU = 18,
  MTIA = 19,
  PrivateUse1 = 20,
  COMPILE_TIME_MAX_DEVICE_TYPES = 21
};
namespace detail {
using T = tessera::DeviceType;
inline constexpr T kDeviceTypes[] = {T::kCPU, T::kCUDA, T::kMKLDNN,     T::kOpenGL, T::kOpenCL, T::kIDEEP,
                                     T::kHIP, T::kFPGA, T::kMAIA,       T::kXLA,    T::kVulkan, T::kVulkan,
                                     T::kXPU, T::kMPS,  T::kMeta,       T::kHPU,    T::kVE,     T::kLazy,
                                     T::kIPU, T::kMTIA, T::kPrivateUse1};
inline DeviceType device_type(tessera::DeviceType t) {
  for (int i = 0; i < static_cast<int>(std::size(kDeviceTypes)); ++i)
    if (kDeviceTypes[i] == t) return static_cast<DeviceType>(i);
  return DeviceType::CPU;
}
}  // namespace detail
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta,
                            kMPS = DeviceType::MPS, kXPU = DeviceType::XPU, kXLA = DeviceType::XLA,
                            kHIP = DeviceType::HIP, kHPU = DeviceType::HPU, kLazy = DeviceType::Lazy,
                            kVulkan = DeviceType::Vulkan, kMTIA = DeviceType::MTIA, kMKLDNN = DeviceType::MKLDNN,
                            kPrivateUse1 = DeviceType::PrivateUse1;
inline std::string DeviceTypeName(DeviceType t, bool lower_case = false) {
  std::string name = tessera::device_type_name(detail::kDeviceTypes[static_cast<int>(t)]);
  if (!lower_case)
    for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return name;
}
inline std::ostream& operator<<(std::ostream& out, DeviceType t) { return out << DeviceTypeName(t, true); }

class Device : public tessera::Device {
 public:
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1)
      : tessera::Device(detail::kDeviceTypes[static_cast<int>(type)], index) {
    TORCH_CHECK(index >= -1, "Device index must be -1 or non-negative, got ", static_cast<int>(index));
    TORCH_CHECK(!is_cpu() || index <= 0, "CPU device index must be -1 or zero, got ", static_cast<int>(index));
  }
  Device(const std::string& text) : tessera::Device(std::string_view(text)) {}
  Device(const char* text) : tessera::Device(std::string_view(text)) {}
  Device(tessera::Device d) : tessera::Device(d) {}

  DeviceType type() const { return detail::device_type(tessera::Device::type); }
  DeviceIndex index() const { return tessera::Device::index; }
  bool has_index() const { return index() != -1; }
  void set_index(DeviceIndex i) { tessera::Device::index = i; }
  bool is_mps() const { return type() == DeviceType::MPS; }
  bool is_xpu() const { return type() == DeviceType::XPU; }
  bool is_hip() const { return type() == DeviceType::HIP; }
  bool is_xla() const { return type() == DeviceType::XLA; }
  bool is_privateuseone() const { return type() == DeviceType::PrivateUse1; }
  friend bool operator==(const Device& a, const Device& b) { return a.type() == b.type() && a.index() == b.index(); }
  friend std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.str(); }
};

enum class Layout : int8_t { Strided, Sparse, SparseCsr, Mkldnn, SparseCsc, SparseBsr, SparseBsc, Jagged, NumOptions };
inline constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse, kSparseCsr = Layout::SparseCsr,
                        kMkldnn = Layout::Mkldnn, kSparseCsc = Layout::SparseCsc, kSparseBsr = Layout::SparseBsr,
                        kSparseBsc = Layout::SparseBsc, kJagged = Layout::Jagged;
inline tessera::Layout to_layout(Layout l) {
  using L = tessera::Layout;
  constexpr L all[] = {L::kStrided,   L::kSparseCoo, L::kSparseCsr, L::kMkldnn,
                       L::kSparseCsc, L::kSparseBsr, L::kSparseBsc, L::kJagged};
  return all[static_cast<int>(l)];
}
inline Layout from_layout(tessera::Layout l) {
  for (int i = 0; i < static_cast<int>(Layout::NumOptions); ++i)
    if (to_layout(static_cast<Layout>(i)) == l) return static_cast<Layout>(i);
  return Layout::Strided;
}
inline std::ostream& operator<<(std::ostream& out, Layout l) {
  constexpr const char* names[] = {"Strided",   "Sparse",    "SparseCsr", "Mkldnn",
                                   "SparseCsc", "SparseBsr", "SparseBsc", "Jagged"};
  return out << names[static_cast<int>(l)];
}

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d, NumOptions };
inline std::ostream& operator<<(std::ostream& out, MemoryFormat f) {
  constexpr const char* names[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  return out << names[static_cast<int>(f)];
}

}  // namespace c10

namespace std {
template <>
struct hash<c10::Device> {
  size_t operator()(c10::Device d) const noexcept {
    return static_cast<size_t>(d.type()) << 8 | static_cast<uint8_t>(d.index());
  }
};
}  // namespace std
