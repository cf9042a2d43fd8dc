// Autocast: in a region each operator computes in the dtype that suits it. Which one is a policy of the op tables
// (`autocast:`, tools/opgen/README.md); a program that never enters a region pays nothing.
//
//   Tensor loss;
//   {
//     amp::Autocast region(DeviceType::kCPU);          // bfloat16
//     loss = nn::functional::mse_loss(model->forward(x), y);
//   }
//   loss.backward();
#pragma once

#include <optional>
#include <string>

#include "tensor/core/tensor.h"

namespace tessera::amp {

// All state is of this thread; a new thread begins outside of any region.

// Kinds of device that have autocast. The functions below throw Error for others.
bool is_autocast_available(DeviceType t);
bool is_autocast_enabled(DeviceType t);
bool is_any_autocast_enabled();
void set_autocast_enabled(DeviceType t, bool enabled);
// What lower_precision_fp operators compute in: at first bfloat16 on the CPU, float16 on CUDA devices.
DType autocast_dtype(DeviceType t);
void set_autocast_dtype(DeviceType t, DType dtype);

// In a region each leaf in float32 that requires a gradient is cast once: copies are kept until the outermost region
// ends, and made again where the leaf was written, or grad mode is another.
bool is_autocast_cache_enabled();
void set_autocast_cache_enabled(bool enabled);
void clear_autocast_cache();
// How many regions the thread is in; the new number.
int increment_autocast_nesting();
int decrement_autocast_nesting();

// What a region for these arguments does: it is off, with a warning, where the device does not compute in `dtype`.
struct RegionChoice {
  DType dtype;
  bool enabled;
  std::string warning;  // empty: none
};
RegionChoice choose_region(DeviceType t, std::optional<DType> dtype, bool enabled);

// The part of the state that a region changes.
struct RegionState {
  DType dtype;
  bool enabled, cache_enabled;
};
// Begins a region; gives what `leave_region` takes at its end.
RegionState enter_region(DeviceType t, RegionState region);
void leave_region(DeviceType t, const RegionState& previous);

// The region of a block. Error for a device without autocast.
class Autocast {
 public:
  explicit Autocast(DeviceType t, std::optional<DType> dtype = {}, bool enabled = true,
                    std::optional<bool> cache_enabled = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DeviceType device_;
  RegionState previous_;
};

// `t` in `dtype` as an operator in a region gets it: what is not floating, float64, or on another device stays as it
// is; weights come from the cache.
Tensor cast_for(const Tensor& t, DeviceType device, DType dtype);

}  // namespace tessera::amp
