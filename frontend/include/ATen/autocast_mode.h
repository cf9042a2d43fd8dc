// Autocast's state, and arguments of operators as a region wants them: for kernels at the key Autocast.
#pragma once

#include "ATen/ATen.h"
#include "amp/autocast.h"

namespace at::autocast {

using DeviceType = c10::DeviceType;
namespace detail {
inline tessera::DeviceType device(DeviceType d) { return c10::detail::kDeviceTypes[static_cast<int>(d)]; }
}  // namespace detail
inline bool is_autocast_enabled(DeviceType d) { return tessera::amp::is_autocast_enabled(detail::device(d)); }
inline void set_autocast_enabled(DeviceType d, bool on) { tessera::amp::set_autocast_enabled(detail::device(d), on); }
inline ScalarType get_autocast_dtype(DeviceType d) {
  return to_scalar_type(tessera::amp::autocast_dtype(detail::device(d)));
}
inline void set_autocast_dtype(DeviceType d, ScalarType t) {
  tessera::amp::set_autocast_dtype(detail::device(d), to_dtype(t));
}
inline bool is_enabled() { return is_autocast_enabled(kCUDA); }
inline void set_enabled(bool on) { set_autocast_enabled(kCUDA, on); }
inline bool is_cpu_enabled() { return is_autocast_enabled(kCPU); }
inline void set_cpu_enabled(bool on) { set_autocast_enabled(kCPU, on); }
inline ScalarType get_autocast_gpu_dtype() { return get_autocast_dtype(kCUDA); }
inline ScalarType get_autocast_cpu_dtype() { return get_autocast_dtype(kCPU); }
inline void set_autocast_cpu_dtype(ScalarType t) { set_autocast_dtype(kCPU, t); }
inline void set_autocast_gpu_dtype(ScalarType t) { set_autocast_dtype(kCUDA, t); }
inline bool is_autocast_cache_enabled() { return tessera::amp::is_autocast_cache_enabled(); }
inline void set_autocast_cache_enabled(bool on) { tessera::amp::set_autocast_cache_enabled(on); }
inline void clear_cache() { tessera::amp::clear_autocast_cache(); }
inline int increment_nesting() { return tessera::amp::increment_autocast_nesting(); }
inline int decrement_nesting() { return tessera::amp::decrement_autocast_nesting(); }

// A floating tensor of the device in `type`, from the cache where it is a weight; all others as they are.
inline Tensor cached_cast(ScalarType type, const Tensor& t, DeviceType d = kCUDA) {
  return tessera::amp::cast_for(t, detail::device(d), to_dtype(type));
}
inline std::optional<Tensor> cached_cast(ScalarType type, const std::optional<Tensor>& t, DeviceType d = kCUDA) {
  return t ? std::optional<Tensor>(cached_cast(type, *t, d)) : std::nullopt;
}
inline std::vector<Tensor> cached_cast(ScalarType type, TensorList all, DeviceType d = kCUDA) {
  std::vector<Tensor> r;
  for (const Tensor& t : all) r.push_back(cached_cast(type, t, d));
  return r;
}
template <class T>
T cached_cast(ScalarType, T other, DeviceType = kCUDA) {
  return other;
}

}  // namespace at::autocast
