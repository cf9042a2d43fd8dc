// Counters of the CPU allocator: what one thread takes and another returns, the peak, resets, and observers.
#include "tensor/core/memory/observer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/allocator.h"

namespace tessera {
namespace {

TEST(CpuMemory, CountsWhatIsTakenAndReturned) {
  const CpuMemoryStats before = cpu_memory_stats();
  void* small = cpu_allocate(10);
  void* large = cpu_allocate(1 << 20);
  const CpuMemoryStats held = cpu_memory_stats();
  EXPECT_EQ(held.blocks - before.blocks, 2);
  EXPECT_EQ(held.requested - before.requested, 10 + (1 << 20));
  EXPECT_EQ(held.bytes - before.bytes, 64 + (1 << 20));
  EXPECT_GE(held.bytes_peak, held.bytes);
  cpu_free(small, 10);
  cpu_free(large, 1 << 20);
  const CpuMemoryStats after = cpu_memory_stats();
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.blocks_allocated - before.blocks_allocated, 2);
  EXPECT_EQ(after.bytes_freed - before.bytes_freed, 64 + (1 << 20));
  EXPECT_GE(after.bytes_peak, held.bytes);
}

TEST(CpuMemory, AnotherThreadMayReturnABlock) {
  const CpuMemoryStats before = cpu_memory_stats();
  void* p = nullptr;
  std::thread([&] { p = cpu_allocate(5000); }).join();
  EXPECT_EQ(cpu_memory_stats().requested - before.requested, 5000);  // its thread has ended
  std::thread([&] { cpu_free(p, 5000); }).join();
  EXPECT_EQ(cpu_memory_stats().requested, before.requested);
}

TEST(CpuMemory, PeakFollowsAfterAReset) {
  void* p = cpu_allocate(8 << 20);
  const int64_t high = cpu_memory_stats().bytes;
  cpu_free(p, 8 << 20);
  EXPECT_GE(cpu_memory_stats().bytes_peak, high);
  reset_peak_cpu_memory();
  EXPECT_LT(cpu_memory_stats().bytes_peak, high);
  reset_accumulated_cpu_memory();
  EXPECT_EQ(cpu_memory_stats().blocks_allocated, 0);
}

TEST(CpuMemory, FailuresAreCounted) {
  const int64_t before = cpu_memory_stats().failures;
  EXPECT_ANY_THROW(cpu_allocate(size_t{1} << 60));
  EXPECT_EQ(cpu_memory_stats().failures, before + 1);
}

TEST(CpuMemory, AForkedChildCountsOn) {
  void* p = nullptr;
  std::thread waits([&] { p = cpu_allocate(3000); });
  waits.join();
  const int64_t requested = cpu_memory_stats().requested;
  const pid_t child = fork();
  if (child == 0) _exit(cpu_memory_stats().requested == requested ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  cpu_free(p, 3000);
}

int64_t g_seen = 0;
constexpr MemoryObserver kObserver = {[](void*, size_t n) { g_seen += static_cast<int64_t>(n); },
                                      [](void*, size_t n) { g_seen -= static_cast<int64_t>(n); }};

TEST(CpuMemory, AnObserverSeesEveryBlock) {
  g_memory_observer.store(&kObserver);
  void* p = cpu_allocate(100);
  EXPECT_EQ(g_seen, 100);
  cpu_free(p, 100);
  EXPECT_EQ(g_seen, 0);
  g_memory_observer.store(nullptr);
  cpu_free(cpu_allocate(100), 100);
  EXPECT_EQ(g_seen, 0);
}

}  // namespace
}  // namespace tessera
