// The older name of device and layout together.
#pragma once

#include "c10/core/Device.h"
#include "c10/core/Layout.h"

namespace c10 {

// Those of one layout in the order of `detail::kBackendDevices`.
enum class Backend {
  CPU,
  CUDA,
  XPU,
  Meta,
  SparseCPU,
  SparseCUDA,
  SparseXPU,
  SparseMeta,
  SparseCsrCPU,
  SparseCsrCUDA,
  SparseCsrXPU,
  SparseCsrMeta,
  Undefined
};
namespace detail {
inline constexpr DeviceType kBackendDevices[] = {kCPU, kCUDA, kXPU, kMeta};
inline constexpr Layout kBackendLayouts[] = {kStrided, kSparse, kSparseCsr};
}  // namespace detail
inline DeviceType backendToDeviceType(Backend b) {
  TORCH_CHECK(b != Backend::Undefined, "Undefined backend is not a valid device type");
  return detail::kBackendDevices[static_cast<size_t>(b) % std::size(detail::kBackendDevices)];
}
inline Layout layout_from_backend(Backend b) {
  TORCH_CHECK(b != Backend::Undefined, "Undefined backend has no layout");
  return detail::kBackendLayouts[static_cast<size_t>(b) / std::size(detail::kBackendDevices)];
}
inline Backend backend_of(DeviceType device, Layout layout) {
  size_t b = 0;
  for (const Layout l : detail::kBackendLayouts)
    for (const DeviceType d : detail::kBackendDevices) {
      if (l == layout && d == device) return static_cast<Backend>(b);
      ++b;
    }
  return Backend::Undefined;
}

}  // namespace c10
