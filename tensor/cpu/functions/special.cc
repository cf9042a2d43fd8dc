#include "tensor/cpu/functions/special.h"

#include <cmath>

#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"

namespace tessera::cpu {
void run_frexp(DType dtype, int64_t n, void* mantissa, int32_t* exponent, const void* x) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Wide v = static_cast<Wide>(static_cast<const T*>(x)[i]);
          int power = 0;
          static_cast<T*>(mantissa)[i] = static_cast<T>(std::frexp(v, &power));
          exponent[i] = std::isfinite(v) ? power : 0;
        }
      });
    }
  });
}

}  // namespace tessera::cpu
