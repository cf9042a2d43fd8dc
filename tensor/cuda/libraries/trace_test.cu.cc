// What a device did, and who had asked for it.
#include "tensor/cuda/libraries/trace.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using Kind = DeviceActivity::Kind;

struct Seen {
  DeviceActivity a;
  std::string name;
};
int64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
constexpr int64_t kWall = 1'700'000'000'000'000'000;

// Traces f; times are nanoseconds since just before it.
template <class F>
std::vector<Seen> traced(F f) {
  const char* const why = tracer().start();
  if (why) throw std::runtime_error(why);
  const int64_t before = monotonic_ns();
  f();
  std::vector<Seen> seen;
  tracer().stop(
      before, kWall,
      [](void* to, const DeviceActivity& a) {
        auto* all = static_cast<std::vector<Seen>*>(to);
        all->push_back({a, a.name});
        all->back().a.start_ns -= kWall;
        all->back().a.end_ns -= kWall;
      },
      &seen);
  const int64_t took = monotonic_ns() - before;
  for (const Seen& s : seen) {
    EXPECT_GE(s.a.start_ns, -20'000) << s.name;
    EXPECT_LE(s.a.end_ns, took + 20'000) << s.name;
    EXPECT_LE(s.a.start_ns, s.a.end_ns) << s.name;
  }
  return seen;
}
std::vector<Seen> of(const std::vector<Seen>& all, Kind kind) {
  std::vector<Seen> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](const Seen& s) { return s.a.kind == kind; });
  return found;
}
const Seen* call_of(const std::vector<Seen>& all, uint32_t correlation) {
  for (const Seen& s : all)
    if (s.a.kind == Kind::kCall && s.a.correlation == correlation) return &s;
  return nullptr;
}

void double_all(float* data, int64_t n) {
  for_each(n, [=] __device__(int64_t i) { data[i] *= 2; });
}

using TraceTest = testing::DeviceTest;

TEST_F(TraceTest, KernelsCopiesAndSetsWithTheirCalls) {
  Buffer b(4000);
  std::vector<float> host(1000, 1.5f);
  const std::vector<Seen> seen = traced([&] {
    tracer().push(41);
    fill_bytes(b.get(), 0, 4000);
    tracer().push(42);
    copy_to_device(b.get(), host.data(), 4000);
    tracer().pop();
    double_all(b.as<float>(), 1000);
    tracer().pop();
    copy_to_host(host.data(), b.get(), 4000);
  });
  EXPECT_EQ(host[999], 3.0f);
  const std::vector<Seen> kernels = of(seen, Kind::kKernel), copies = of(seen, Kind::kCopy),
                          sets = of(seen, Kind::kSet);
  ASSERT_EQ(kernels.size(), 1u);
  ASSERT_EQ(copies.size(), 2u);
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_NE(kernels[0].name.find("double_all"), std::string::npos) << kernels[0].name;
  EXPECT_EQ(kernels[0].a.block[0], static_cast<uint32_t>(kThreads));
  EXPECT_EQ(kernels[0].a.grid[0], blocks_for(1000).x);
  EXPECT_EQ(kernels[0].a.owner, 41u);
  EXPECT_EQ(sets[0].name, "Memset (Device)");
  EXPECT_EQ(sets[0].a.bytes, 4000);
  EXPECT_EQ(sets[0].a.owner, 41u);
  EXPECT_EQ(copies[0].name.rfind("Memcpy HtoD (", 0), 0u) << copies[0].name;
  EXPECT_EQ(copies[0].a.bytes, 4000);
  EXPECT_EQ(copies[0].a.owner, 42u);
  EXPECT_EQ(copies[1].name.rfind("Memcpy DtoH (", 0), 0u) << copies[1].name;
  EXPECT_EQ(copies[1].a.owner, 0u);
  for (const Seen& s : {kernels[0], copies[0], copies[1], sets[0]}) {
    EXPECT_EQ(s.a.device, 0);
    const Seen* call = call_of(seen, s.a.correlation);
    ASSERT_TRUE(call) << s.name;
    EXPECT_LE(call->a.start_ns, s.a.start_ns + 20'000);
    EXPECT_EQ(call->a.owner, s.a.owner);
    EXPECT_EQ(call->name.find("_v"), std::string::npos) << call->name;
  }
  EXPECT_EQ(call_of(seen, kernels[0].a.correlation)->name, "cudaLaunchKernel");
}

TEST_F(TraceTest, ThreadsAndStreams) {
  Buffer b(400);
  const Stream stream = stream_from_pool(0);
  const std::vector<Seen> seen = traced([&] {
    double_all(b.as<float>(), 100);
    std::thread([&] {
      set_current_stream(stream);
      double_all(b.as<float>(), 100);
    }).join();
  });
  const std::vector<Seen> kernels = of(seen, Kind::kKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_NE(kernels[0].a.place, kernels[1].a.place);
  const Seen *first = call_of(seen, kernels[0].a.correlation), *second = call_of(seen, kernels[1].a.correlation);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->a.place, second->a.place);
}

TEST_F(TraceTest, WorkOfGraphsBelongsToTheReplay) {
  Buffer b(400);
  Graph graph;
  {
    const StreamGuard on(stream_from_pool(0));
    graph.begin_capture();
    double_all(b.as<float>(), 100);
    double_all(b.as<float>(), 100);
    graph.end_capture();
  }
  const std::vector<Seen> seen = traced([&] {
    tracer().push(7);
    graph.replay();
    tracer().pop();
  });
  const std::vector<Seen> kernels = of(seen, Kind::kKernel);
  ASSERT_EQ(kernels.size(), 2u);
  for (const Seen& k : kernels) {
    EXPECT_EQ(k.a.owner, 7u);
    const Seen* call = call_of(seen, k.a.correlation);
    ASSERT_TRUE(call);
    EXPECT_EQ(call->name, "cudaGraphLaunch");
  }
}

TEST_F(TraceTest, ManyRecordsAndOnlyThoseOfTheTime) {
  Buffer b(400);
  double_all(b.as<float>(), 100);
  const size_t n = 20'000;  // more than a buffer holds
  EXPECT_EQ(of(traced([&] {
                 for (size_t i = 0; i < n; ++i) double_all(b.as<float>(), 1);
               }),
               Kind::kKernel)
                .size(),
            n);
  double_all(b.as<float>(), 100);
  EXPECT_EQ(of(traced([] {}), Kind::kKernel).size(), 0u);
}

#if TESSERA_CUDA_EMULATED
TEST_F(TraceTest, RefusalsSayWhy) {
  setenv("TESSERA_EMULATED_CUPTI", "refused", 1);
  const char* const why = tracer().start();
  unsetenv("TESSERA_EMULATED_CUPTI");
  ASSERT_TRUE(why);
  EXPECT_NE(std::string(why).find("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"), std::string::npos) << why;
  EXPECT_NE(std::string(why).find("NVreg_RestrictProfilingToAdminUsers"), std::string::npos) << why;
  EXPECT_EQ(tracer().start(), nullptr);  // it may be allowed later
  tracer().stop(
      0, 0, [](void*, const DeviceActivity&) {}, nullptr);
}
#endif

}  // namespace
}  // namespace tessera::cuda
