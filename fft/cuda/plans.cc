#include "fft/cuda/plans.h"

#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/cuda/libraries/fft.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {
namespace {

class Plan {
 public:
  explicit Plan(const FftPlanKey& key) {
    const cpu::FftKind kind = key.kind;
    const cudaDataType real = key.single ? CUDA_R_32F : CUDA_R_64F, complex = key.single ? CUDA_C_32F : CUDA_C_64F;
    long long n = key.n;
    check_fft(fft().create(&handle_), "cufftCreate");
    try {
      // The work area comes from the caching allocator, at each call.
      check_fft(fft().set_auto_allocation(handle_, 0), "cufftSetAutoAllocation");
      check_fft(
          fft().make_plan(handle_, 1, &n, &n, key.in_stride, key.in_distance,
                          kind == cpu::FftKind::kRealToHalf ? real : complex, &n, key.out_stride, key.out_distance,
                          kind == cpu::FftKind::kHalfToReal ? real : complex, key.count, &work_bytes_, complex),
          "cufftXtMakePlanMany");
    } catch (...) {
      fft().destroy(handle_);
      throw;
    }
  }
  Plan(const Plan&) = delete;
  ~Plan() { fft().destroy(handle_); }

  void run(bool forward, void* in, void* out) const {
    const Buffer work(work_bytes_);
    check_fft(fft().set_stream(handle_, current_stream()), "cufftSetStream");
    check_fft(fft().set_work_area(handle_, work.get()), "cufftSetWorkArea");
    check_fft(fft().exec(handle_, in, out, forward ? CUFFT_FORWARD : CUFFT_INVERSE), "cufftXtExec");
  }

 private:
  cufftHandle handle_ = 0;
  size_t work_bytes_ = 0;
};

struct Plans {
  using Kept = std::list<std::pair<FftPlanKey, Plan>>;
  int64_t limit = 4096;
  Kept by_use;  // the last one used in front
  std::map<FftPlanKey, Kept::iterator> by_key;

  void shrink_to(int64_t size) {
    while (static_cast<int64_t>(by_use.size()) > size) {
      by_key.erase(by_use.back().first);
      by_use.pop_back();
    }
  }
  const Plan& plan(const FftPlanKey& key) {
    if (const auto at = by_key.find(key); at != by_key.end()) {
      by_use.splice(by_use.begin(), by_use, at->second);
      return at->second->second;
    }
    shrink_to(limit - 1);
    by_use.emplace_front(std::piecewise_construct, std::forward_as_tuple(key), std::forward_as_tuple(key));
    by_key[key] = by_use.begin();
    return by_use.front().second;
  }
};

// A plan works for one thread at a time; starting it takes microseconds, so one lock serves all. Never destroyed: the
// driver may be gone by then.
struct Devices {
  std::mutex mutex;
  std::map<int, Plans> plans;
};
Devices& devices() {
  static auto& d = *new Devices;
  return d;
}

template <class F>
auto with_plans(int device, F f) {
  const int count = device_count();
  TESSERA_CHECK(device >= 0 && device < count, "cufft_plan_cache: expected 0 <= device index < ", count, ", but got ",
                device);
  const std::lock_guard lock(devices().mutex);
  const OpDevice on(device);
  return f(devices().plans[device]);
}

}  // namespace

void execute_fft(const FftPlanKey& key, bool forward, void* in, void* out) {
  const std::lock_guard lock(devices().mutex);
  Plans& plans = devices().plans[op_device()];
  if (plans.limit == 0) return Plan(key).run(forward, in, out);
  plans.plan(key).run(forward, in, out);
}

int64_t fft_plan_count(int device) {
  return with_plans(device, [](const Plans& p) { return static_cast<int64_t>(p.by_use.size()); });
}
int64_t fft_plan_limit(int device) {
  return with_plans(device, [](const Plans& p) { return p.limit; });
}
void set_fft_plan_limit(int device, int64_t limit) {
  TESSERA_CHECK(limit >= 0, "cufft_plan_cache: expected a max_size of at least 0, but got ", limit);
  with_plans(device, [&](Plans& p) { p.shrink_to(p.limit = limit); });
}
void clear_fft_plans(int device) {
  with_plans(device, [](Plans& p) { p.shrink_to(0); });
}

}  // namespace tessera::cuda
