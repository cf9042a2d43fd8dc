// What holds for the whole process: generators, seeds, threads, devices.
#pragma once

#include <atomic>

#include "ATen/core/Tensor.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/parallel.h"
#include "tensor/ops/promotion.h"

namespace at {

class Context {
 public:
  const Generator& defaultGenerator(Device device) const {
    TORCH_CHECK(device.is_cpu(), "there is no default generator for ", device);
    return detail::getDefaultCPUGenerator();
  }
  // Operators give the same bits in every run, with it and without.
  bool deterministicAlgorithms() const { return deterministic_; }
  bool deterministicAlgorithmsWarnOnly() const { return warn_only_; }
  void setDeterministicAlgorithms(bool on, bool warn_only) { deterministic_ = on, warn_only_ = warn_only; }
  // Kept for who asks: no kernel here is cuDNN's, cuBLAS' or oneDNN's.
#define TESSERA_SETTING(get, set, value) \
  bool get() const { return get##_; }    \
  void set(bool on) { get##_ = on; }     \
                                         \
 private:                                \
  std::atomic<bool> get##_{value};       \
                                         \
 public:
  TESSERA_SETTING(userEnabledCuDNN, setUserEnabledCuDNN, true)
  TESSERA_SETTING(benchmarkCuDNN, setBenchmarkCuDNN, false)
  TESSERA_SETTING(deterministicCuDNN, setDeterministicCuDNN, false)
  TESSERA_SETTING(allowTF32CuDNN, setAllowTF32CuDNN, true)
  TESSERA_SETTING(allowTF32CuBLAS, setAllowTF32CuBLAS, false)
  TESSERA_SETTING(userEnabledMkldnn, setUserEnabledMkldnn, true)
#undef TESSERA_SETTING
  bool hasCUDA() const { return false; }
  bool hasCuDNN() const { return false; }
  bool hasMKLDNN() const { return false; }
  bool hasLAPACK() const { return true; }
  bool hasHIP() const { return false; }
  bool hasMAGMA() const { return false; }
  bool hasMKL() const { return false; }
  bool hasMPS() const { return false; }
  bool hasXPU() const { return false; }
  bool hasOpenMP() const { return false; }

 private:
  std::atomic<bool> deterministic_{false}, warn_only_{false};
};
inline Context& globalContext() {
  static Context context;
  return context;
}
inline void manual_seed(uint64_t seed) {
  detail::getDefaultCPUGenerator().get()->manual_seed(seed);  // which takes the generator's mutex
}
inline int get_num_threads() { return tessera::num_threads(); }
inline void set_num_threads(int n) { tessera::set_num_threads(n); }
inline int get_num_interop_threads() { return 1; }
inline void set_num_interop_threads(int n) { TORCH_CHECK(n > 0, "Expected positive number of threads"); }
inline ScalarType promote_types(ScalarType a, ScalarType b) { return c10::promoteTypes(a, b); }
inline bool can_cast(ScalarType from, ScalarType to) { return c10::canCast(from, to); }
inline ScalarType result_type(const Tensor& a, const Tensor& b) { return to_scalar_type(tessera::result_type(a, b)); }
inline ScalarType result_type(const Tensor& a, const Scalar& b) { return to_scalar_type(tessera::result_type(a, b)); }
inline ScalarType result_type(const Scalar& a, const Tensor& b) { return result_type(b, a); }
inline ScalarType result_type(const Scalar& a, const Scalar& b) {
  return to_scalar_type(tessera::result_type(tessera::wrapped_number(a), tessera::wrapped_number(b)));
}
inline ScalarType result_type(TensorList l) { return to_scalar_type(tessera::result_type(fe::in(l))); }
inline bool hasCUDA() { return false; }
inline bool hasMKL() { return false; }
inline bool hasMKLDNN() { return false; }
inline bool hasLAPACK() { return true; }
inline bool hasHIP() { return false; }
inline bool hasMPS() { return false; }
inline bool hasXPU() { return false; }

}  // namespace at
