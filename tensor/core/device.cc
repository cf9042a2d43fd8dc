#include "tensor/core/device.h"

#include <atomic>

#include "tensor/core/error.h"

namespace tessera {
namespace {
constexpr const char* kDeviceNames[] = {"cpu",    "cuda",   "meta", "mps",  "xpu",   "hpu",          "mtia",
                                        "xla",    "vulkan", "ipu",  "lazy", "ideep", "mkldnn",       "opengl",
                                        "opencl", "hip",    "fpga", "maia", "ve",    "privateuseone"};
constexpr const char* kLayoutNames[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                        "sparse_bsr", "sparse_bsc", "jagged",     "_mkldnn"};
constexpr const char* kFormatNames[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
constexpr int kPrivate = static_cast<int>(std::size(kDeviceNames)) - 1;
}  // namespace

constinit std::atomic<const char*> g_private_device_name{kDeviceNames[kPrivate]};  // rare/device_alias.cc changes it

const char* device_type_name(DeviceType t) {
  return static_cast<int>(t) == kPrivate ? g_private_device_name.load() : kDeviceNames[static_cast<int>(t)];
}
const char* layout_name(Layout l) { return kLayoutNames[static_cast<int>(l)]; }
const char* memory_format_name(MemoryFormat f) { return kFormatNames[static_cast<int>(f)]; }

Device::Device(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  bool known = false;
  for (int i = 0; i < static_cast<int>(std::size(kDeviceNames)); ++i) {
    if (name == kDeviceNames[i] || (i == kPrivate && name == g_private_device_name.load())) {
      type = static_cast<DeviceType>(i);
      known = true;
    }
  }
  TESSERA_CHECK(known,
                "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, "
                "vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: ",
                name);
  if (colon == std::string_view::npos) return;
  const std::string_view digits = text.substr(colon + 1);
  int value = 0;
  bool ok = !digits.empty() && digits.size() <= 3 && (digits.size() == 1 || digits[0] != '0');
  for (char c : digits) {
    ok = ok && c >= '0' && c <= '9';
    value = value * 10 + (c - '0');
  }
  TESSERA_CHECK(ok && value < 128, "Invalid device string: '", text, "'");
  index = static_cast<int8_t>(value);
}

std::string Device::str() const {
  std::string s = device_type_name(type);
  if (has_index()) s += ":" + std::to_string(index);
  return s;
}

}  // namespace tessera
