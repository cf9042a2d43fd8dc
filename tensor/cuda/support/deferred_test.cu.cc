// What the emulated device shows when it does work as late as a program may notice (TESSERA_EMULATED_DEFERRED=1):
// memory that is read before, or given back while, other work is done on it.
#include <cstring>
#include <vector>

#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/streams.h"
#include "tensor/cuda/support/testing.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

#if TESSERA_CUDA_EMULATED
class Deferred : public testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    set_caching(true);
  }
  static void fill(int* p, int value) {
    for_each(64, [=] __device__(int64_t i) { p[i] = value; });
  }
  static int first(const void* bytes) {
    int v;
    std::memcpy(&v, bytes, sizeof v);
    return v;
  }
};

TEST_F(Deferred, NothingIsDoneBeforeItIsWaitedFor) {
  const Buffer b(256);
  fill(b.as<int>(), 5);
  std::vector<int> pinned_free(64, 1);
  copy_to_host(pinned_free.data(), b.get(), 256);  // waits
  EXPECT_EQ(pinned_free[63], 5);
}

// Without an event between two streams the second one does not see what the first one wrote: here it never does, on a
// device now and then.
TEST_F(Deferred, StreamsWaitForEventsAlone) {
  const Buffer from(256), to(256);
  fill(from.as<int>(), 1);
  synchronize_stream();
  const Stream a = stream_from_pool(0), b = stream_from_pool(0);
  const auto copied = [&](bool ordered) {
    fill(from.as<int>(), 1);
    synchronize_stream();
    {
      const StreamGuard on(a);
      fill(from.as<int>(), 2);
    }
    if (ordered) {
      Event e;
      e.record(a);
      e.wait(b);
    }
    {
      const StreamGuard on(b);
      check(cudaMemcpyAsync(to.get(), from.get(), 256, cudaMemcpyDeviceToDevice, current_stream()), "copy");
    }
    synchronize(b);
    const int seen = read(to.as<int>());
    synchronize(a);
    return seen;
  };
  EXPECT_EQ(copied(true), 2);
  if (!std::getenv("TESSERA_EMULATED_SEED")) EXPECT_EQ(copied(false), 1);  // with a seed, either
}

TEST_F(Deferred, PageableBytesAreTakenAtTheCall) {
  const Buffer b(256);
  std::vector<int> host(64, 7);
  check(cudaMemcpyAsync(b.get(), host.data(), 256, cudaMemcpyHostToDevice, current_stream()), "copy");
  host.assign(64, 8);
  EXPECT_EQ(read(b.as<int>()), 7);
  void* pinned = nullptr;
  check(cudaHostAlloc(&pinned, 256, 0), "cudaHostAlloc");
  std::memset(pinned, 1, 256);
  check(cudaMemcpyAsync(b.get(), pinned, 256, cudaMemcpyHostToDevice, current_stream()), "copy");
  std::memset(pinned, 2, 256);  // too early
  EXPECT_EQ(read(b.as<int>()), 0x02020202);
  check(cudaFreeHost(pinned), "cudaFreeHost");
}

// A block that is given back while another stream reads it, which nobody told the allocator.
TEST_F(Deferred, FreedMemoryIsFilledInStreamOrder) {
  const Stream other = stream_from_pool(0);
  const Buffer to(4096);
  for (const bool told : {true, false}) {
    {
      const Buffer b(4096);
      fill(b.as<int>(), 3);
      Event written;
      written.record(current_stream(0));
      written.wait(other);
      {
        const StreamGuard on(other);
        check(cudaMemcpyAsync(to.get(), b.get(), 256, cudaMemcpyDeviceToDevice, current_stream()), "copy");
      }
      if (told) record_stream(b.get(), 0, other.handle);
    }
    synchronize_stream();  // this stream's work is done first
    synchronize(other);
    std::vector<int> seen(64);
    copy_to_host(seen.data(), to.get(), 256);
    if (told) EXPECT_EQ(seen[0], 3);
    if (!told && !std::getenv("TESSERA_EMULATED_SEED")) EXPECT_EQ(seen[0], static_cast<int>(0xDDDDDDDD));
  }
}
#endif

}  // namespace
}  // namespace tessera::cuda
