#include "amp/autocast.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "amp/cast_kernels.h"
#include "tensor/core/transforms.h"
#include "tensor/core/warning.h"
#include "tensor/ops/api.h"

namespace tessera::amp {
namespace {

// Copies of weights, by the weight. It is held, so that no other tensor gets its address.
struct CachedCast {
  Tensor weight, copy;
  uint32_t version;
};
struct WeightKey {
  const TensorImpl* weight;
  DType dtype;
  bool operator==(const WeightKey&) const = default;
};
struct WeightKeyHash {
  size_t operator()(const WeightKey& k) const {
    return std::hash<const TensorImpl*>()(k.weight) * 31 + static_cast<size_t>(k.dtype);
  }
};
using WeightCache = std::unordered_map<WeightKey, CachedCast, WeightKeyHash>;

struct Support {
  DeviceType device;
  DType dtype;                       // at first
  std::optional<DispatchKey> key{};  // its region's; without one operators are not cast
};
constexpr Support kSupported[] = {
    {DeviceType::kCPU, DType::kBFloat16, DispatchKey::kAutocastCPU},
    {DeviceType::kCUDA, DType::kFloat16, DispatchKey::kAutocastCUDA},
    {DeviceType::kXPU, DType::kFloat16, DispatchKey::kAutocastXPU},
    {DeviceType::kPrivateUse1, DType::kFloat16, DispatchKey::kAutocastPrivateUse1},
    {DeviceType::kMPS, DType::kFloat16},
    {DeviceType::kMTIA, DType::kFloat16},
    {DeviceType::kIPU, DType::kFloat16},
    {DeviceType::kHPU, DType::kBFloat16},
    {DeviceType::kMAIA, DType::kBFloat16},
    {DeviceType::kXLA, DType::kBFloat16},
};
constexpr const Support* find_support(DeviceType t) {
  for (const Support& s : kSupported)
    if (s.device == t) return &s;
  return nullptr;
}
const Support& support_of(DeviceType t) {
  const Support* s = find_support(t);
  TESSERA_CHECK(s, "autocast: devices of type '", device_type_name(t), "' have no autocast");
  return *s;
}

struct State {
  std::array<DType, kNumDeviceTypes> dtypes{};
  uint32_t enabled = 0;  // bit k: devices of type k
  bool cache_enabled = true;
  int nesting = 0;
  WeightCache* cache = nullptr;  // while a region is open; a thread that ends in one leaves it behind
};
constexpr State first_state() {
  State s;
  for (const Support& x : kSupported) s.dtypes[static_cast<size_t>(x.device)] = x.dtype;
  return s;
}
thread_local constinit State t_state = first_state();

uint32_t bit(DeviceType t) { return uint32_t{1} << static_cast<int>(t); }

bool is_weight(const Tensor& t) {
  return t.dtype() == DType::kFloat32 && t.is_leaf() && t.requires_grad() && !t.is_view() && !inside_transform();
}

Tensor converted(const Tensor& t, DType dtype) { return op::_to_copy.call(t, dtype, {}, {}, {}, false, {}); }

}  // namespace

bool is_autocast_available(DeviceType t) { return find_support(t); }
bool is_autocast_enabled(DeviceType t) {
  support_of(t);
  return t_state.enabled & bit(t);
}
bool is_any_autocast_enabled() { return t_state.enabled; }

void set_autocast_enabled(DeviceType t, bool enabled) {
  const Support& s = support_of(t);
  if (enabled) {
    static const bool installed = (install_cast_kernels(), true);
    static_cast<void>(installed);
  }
  t_state.enabled = enabled ? t_state.enabled | bit(t) : t_state.enabled & ~bit(t);
  if (!s.key) return;
  const uint64_t key = DispatchKeySet(*s.key).bits();
  thread_state.included = enabled ? thread_state.included | key : thread_state.included & ~key;
}

DType autocast_dtype(DeviceType t) {
  support_of(t);
  return t_state.dtypes[static_cast<size_t>(t)];
}
void set_autocast_dtype(DeviceType t, DType dtype) {
  support_of(t);
  t_state.dtypes[static_cast<size_t>(t)] = dtype;
}

bool is_autocast_cache_enabled() { return t_state.cache_enabled; }
void set_autocast_cache_enabled(bool enabled) { t_state.cache_enabled = enabled; }
void clear_autocast_cache() { delete std::exchange(t_state.cache, nullptr); }
int increment_autocast_nesting() { return ++t_state.nesting; }
int decrement_autocast_nesting() { return --t_state.nesting; }

RegionChoice choose_region(DeviceType t, std::optional<DType> dtype, bool enabled) {
  support_of(t);
  RegionChoice c{dtype.value_or(autocast_dtype(t)), enabled, ""};
  const bool computes = c.dtype == DType::kBFloat16 || c.dtype == DType::kFloat16;
  if (!enabled || computes || t == DeviceType::kPrivateUse1) return c;
  c.enabled = false;
  c.warning = str_cat("autocast is off in this region: devices of type '", device_type_name(t),
                      "' have it in bfloat16 and float16, but the dtype asked for is ", name_of(c.dtype));
  return c;
}

RegionState enter_region(DeviceType t, RegionState region) {
  const RegionState previous{autocast_dtype(t), is_autocast_enabled(t), is_autocast_cache_enabled()};
  set_autocast_enabled(t, region.enabled);
  set_autocast_dtype(t, region.dtype);
  set_autocast_cache_enabled(region.cache_enabled);
  increment_autocast_nesting();
  return previous;
}
void leave_region(DeviceType t, const RegionState& previous) {
  if (decrement_autocast_nesting() == 0) clear_autocast_cache();
  set_autocast_enabled(t, previous.enabled);
  set_autocast_dtype(t, previous.dtype);
  set_autocast_cache_enabled(previous.cache_enabled);
}

Autocast::Autocast(DeviceType t, std::optional<DType> dtype, bool enabled, std::optional<bool> cache_enabled)
    : device_(t) {
  const RegionChoice c = choose_region(t, dtype, enabled);
  if (!c.warning.empty()) warn(c.warning);
  previous_ = enter_region(t, {c.dtype, c.enabled, cache_enabled.value_or(is_autocast_cache_enabled())});
}
Autocast::~Autocast() { leave_region(device_, previous_); }

Tensor cast_for(const Tensor& t, DeviceType device, DType dtype) {
  if (!internal::is_castable(t, device) || t.dtype() == dtype) return t;
  if (!t_state.cache_enabled || !is_weight(t)) return converted(t, dtype);
  if (!t_state.cache) t_state.cache = new WeightCache;
  CachedCast& c = (*t_state.cache)[{t.impl(), dtype}];
  // A copy made without gradients has no history, and would end the graph of one who wants them.
  if (c.copy.defined() && c.version == t.version() && c.copy.requires_grad() == grad_mode_enabled()) return c.copy;
  Tensor copy = converted(t, dtype);
  // The conversion may have been seen by somebody who changed the cache.
  if (!t_state.cache) return copy;
  (*t_state.cache)[{t.impl(), dtype}] = {t, copy, t.version()};
  return copy;
}

}  // namespace tessera::amp
