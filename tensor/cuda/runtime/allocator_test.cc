#include "tensor/cuda/runtime/allocator.h"

#include <cstring>
#include <map>
#include <thread>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/streams.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

constexpr size_t kMiB = 1 << 20;

std::map<std::string, int64_t> stats() {
  std::map<std::string, int64_t> m;
  for (const auto& [key, value] : memory_stats(0)) m[key] = value;
  return m;
}

// Each test begins with an empty cache and what was allocated before it as the zero point.
class AllocatorTest : public testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    set_allocator_settings("");
    set_memory_fraction(1, 0);
    empty_cache();
    reset_peak_memory_stats(0);
    reset_accumulated_memory_stats(0);
    ASSERT_EQ(stats()["allocated_bytes.all.current"], 0);
    ASSERT_EQ(stats()["reserved_bytes.all.current"], 0);
  }
};

TEST_F(AllocatorTest, SmallBlocksShareASegment) {
  void* a = allocate(1);
  void* b = allocate(513);
  EXPECT_EQ(static_cast<char*>(b) - static_cast<char*>(a), 512);
  auto s = stats();
  EXPECT_EQ(s["allocation.all.current"], 2);
  EXPECT_EQ(s["allocated_bytes.all.current"], 512 + 1024);
  EXPECT_EQ(s["allocated_bytes.small_pool.current"], 512 + 1024);
  EXPECT_EQ(s["requested_bytes.all.current"], 514);
  EXPECT_EQ(s["reserved_bytes.all.current"], 2 * kMiB);
  EXPECT_EQ(s["segment.small_pool.current"], 1);
  EXPECT_EQ(s["inactive_split.all.current"], 1);
  EXPECT_EQ(s["inactive_split_bytes.all.current"], 2 * kMiB - 1536);
  free(a);
  s = stats();
  EXPECT_EQ(s["inactive_split.all.current"], 2);
  EXPECT_EQ(s["inactive_split_bytes.all.current"], 2 * kMiB - 1024);
  EXPECT_EQ(allocate(512), a);  // best fit
  free(a);
  free(b);
  s = stats();
  EXPECT_EQ(s["inactive_split.all.current"], 0);
  EXPECT_EQ(s["inactive_split_bytes.all.current"], 0);
  EXPECT_EQ(s["allocated_bytes.all.peak"], 1536);
  EXPECT_EQ(s["allocated_bytes.all.allocated"], 1536 + 512);
  EXPECT_EQ(s["allocated_bytes.all.freed"], 1536 + 512);
  EXPECT_EQ(s["reserved_bytes.all.current"], 2 * kMiB);
  empty_cache();
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 0);
  EXPECT_EQ(stats()["num_device_free"], 1);
}

TEST_F(AllocatorTest, LargeBlocks) {
  void* a = allocate(3 * kMiB);
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 20 * kMiB);
  void* b = allocate(11 * kMiB);  // fits into the rest
  EXPECT_EQ(stats()["reserved_bytes.large_pool.current"], 20 * kMiB);
  void* c = allocate(11 * kMiB);
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 32 * kMiB);
  free(b);
  EXPECT_EQ(allocate(10 * kMiB), b);
  free(b);
  free(a);
  free(c);
  EXPECT_EQ(stats()["active_bytes.all.current"], 0);
  EXPECT_EQ(allocate(11 * kMiB), c);  // 12 MiB fit better than 20
  free(c);
}

TEST_F(AllocatorTest, ZeroBytes) {
  EXPECT_EQ(allocate(0), nullptr);
  free(nullptr);
  EXPECT_EQ(stats()["allocation.all.allocated"], 0);
}

TEST_F(AllocatorTest, StreamsHaveTheirOwnBlocks) {
  void* a = allocate(1000);
  free(a);
  const Stream s = stream_from_pool(0);
  void* b = allocate_on(0, s.handle, 1000);
  EXPECT_NE(a, b);
  EXPECT_EQ(stats()["segment.all.current"], 2);
  free(b);
  EXPECT_EQ(allocate(1000), a);
  free(a);
}

TEST_F(AllocatorTest, BlocksWaitForStreamsThatUseThem) {
  const Stream s = stream_from_pool(0);
  void* a = allocate(1000);
  record_stream(a, s.device, s.handle);
  free(a);
  auto now = stats();
  EXPECT_EQ(now["allocated_bytes.all.current"], 0);
  EXPECT_EQ(now["active_bytes.all.current"], 1024);
  synchronize(s);
  void* b = allocate(1000);
  EXPECT_EQ(b, a);
  free(b);
  EXPECT_EQ(stats()["active_bytes.all.current"], 0);
}

TEST_F(AllocatorTest, OutOfMemory) {
  const size_t total = memory_info(0).second;
  void* cached = allocate(30 * kMiB);
  free(cached);
  try {
    allocate(total + 1);
    FAIL();
  } catch (const OutOfMemoryError& e) {
    const std::string text = e.what();
    EXPECT_EQ(text.rfind("CUDA out of memory. Tried to allocate ", 0), 0u) << text;
    EXPECT_NE(text.find(" GPU 0 has a total capacity of "), std::string::npos) << text;
    EXPECT_NE(text.find("Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
                        "but unallocated."),
              std::string::npos)
        << text;
  }
  auto s = stats();
  EXPECT_EQ(s["num_ooms"], 1);
  EXPECT_EQ(s["num_alloc_retries"], 1);
  EXPECT_EQ(s["reserved_bytes.all.current"], 0);  // what was cached has been given back
  EXPECT_THROW(allocate(size_t{1} << 61), OutOfMemoryError);
}

TEST_F(AllocatorTest, MemoryFraction) {
  const size_t total = properties(0).total_memory;
  set_memory_fraction(64.0 * kMiB / static_cast<double>(total), 0);
  void* a = allocate(40 * kMiB);
  EXPECT_THROW(allocate(40 * kMiB), OutOfMemoryError);
  free(a);
  void* b = allocate(50 * kMiB);  // the cached 40 MiB go
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 50 * kMiB);
  free(b);
  EXPECT_THROW(set_memory_fraction(1.5, 0), ValueError);
}

TEST_F(AllocatorTest, Settings) {
  set_allocator_settings("max_split_size_mb:32, garbage_collection_threshold:0.8,expandable_segments:False");
  EXPECT_EQ(stats()["max_split_size"], 32 * kMiB);
  void* a = allocate(40 * kMiB);
  free(a);
  void* b = allocate(11 * kMiB);  // blocks above the limit are not split
  EXPECT_NE(a, b);
  EXPECT_EQ(stats()["oversize_segments.current"], 1);
  free(b);
  set_allocator_settings("roundup_power2_divisions:4");
  void* c = allocate(1100 * 1024);
  EXPECT_EQ(stats()["allocated_bytes.all.current"], 1280 * 1024);
  free(c);
  set_allocator_settings("roundup_power2_divisions:[1:1,2:8,>:2]");
  c = allocate(2100 * 1024);
  EXPECT_EQ(stats()["allocated_bytes.all.current"], 2304 * 1024);
  free(c);
  EXPECT_THROW(set_allocator_settings("no_such_option:1"), ValueError);
  EXPECT_THROW(set_allocator_settings("max_split_size_mb:8"), ValueError);
  EXPECT_THROW(set_allocator_settings("max_split_size_mb:x"), ValueError);
}

TEST_F(AllocatorTest, GarbageCollection) {
  const size_t total = properties(0).total_memory;
  set_allocator_settings("garbage_collection_threshold:0.5");
  set_memory_fraction(128.0 * kMiB / static_cast<double>(total), 0);
  void* a = allocate(40 * kMiB);
  void* b = allocate(40 * kMiB);
  free(a);
  free(b);
  void* c = allocate(48 * kMiB);
  EXPECT_LE(stats()["reserved_bytes.all.current"], 88 * kMiB);
  EXPECT_EQ(stats()["num_alloc_retries"], 0);
  free(c);
}

TEST_F(AllocatorTest, PrivatePools) {
  void* outside = allocate(1000);
  free(outside);
  const PoolId id = new_pool_id(false);
  const Stream s{0, nullptr};
  begin_pool(0, id, [s](cudaStream_t stream) { return stream == s.handle; });
  void* inside = allocate(1000);
  EXPECT_NE(inside, outside);
  EXPECT_EQ(allocate_on(0, stream_from_pool(0).handle, 1) == inside, false);
  end_pool(0, id);
  EXPECT_EQ(pool_use_count(0, id), 1);
  free(inside);
  EXPECT_EQ(allocate(1000), outside);  // the pool's memory is not for others
  free(outside);
  bool found = false;
  for (const SegmentInfo& segment : memory_snapshot()) found = found || segment.pool == id;
  EXPECT_TRUE(found);
  const int64_t before = stats()["segment.all.current"];
  empty_cache();
  EXPECT_EQ(stats()["segment.all.current"], before - 1);
  release_pool(0, id);
  empty_cache();
  EXPECT_EQ(stats()["segment.all.current"], before - 2);
  EXPECT_EQ(pool_use_count(0, id), 0);
  for (const SegmentInfo& segment : memory_snapshot()) {
    for (const BlockInfo& b : segment.blocks)
      if (b.state == BlockInfo::kAllocated) free(reinterpret_cast<void*>(b.address));
  }
}

TEST_F(AllocatorTest, Snapshot) {
  void* a = allocate(600);
  const auto segments = memory_snapshot();
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].address, reinterpret_cast<uintptr_t>(a));
  EXPECT_EQ(segments[0].total, 2 * kMiB);
  EXPECT_EQ(segments[0].allocated, 1024u);
  EXPECT_EQ(segments[0].requested, 600u);
  EXPECT_TRUE(segments[0].small);
  ASSERT_EQ(segments[0].blocks.size(), 2u);
  EXPECT_EQ(segments[0].blocks[0].state, BlockInfo::kAllocated);
  EXPECT_EQ(segments[0].blocks[1].state, BlockInfo::kFree);
  free(a);
}

TEST_F(AllocatorTest, ManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<void*> blocks;
      for (int i = 0; i < 2000; ++i) {
        if (blocks.size() > 20 || (!blocks.empty() && random() % 2)) {
          std::swap(blocks[random() % blocks.size()], blocks.back());
          free(blocks.back());
          blocks.pop_back();
        } else {
          blocks.push_back(allocate(1 + random() % 3000000));
        }
      }
      for (void* p : blocks) free(p);
    });
  }
  for (std::thread& t : threads) t.join();
  auto s = stats();
  for (const char* key :
       {"allocated_bytes.all.current", "active_bytes.all.current", "allocation.all.current",
        "inactive_split.all.current", "inactive_split_bytes.all.current", "requested_bytes.all.current"}) {
    EXPECT_EQ(s[key], 0) << key;
  }
}

TEST_F(AllocatorTest, Pinned) {
  empty_pinned_cache();
  void* a = allocate_pinned(5000);
  std::memset(a, 1, 5000);
  EXPECT_TRUE(is_pinned(a));
  EXPECT_TRUE(is_pinned(static_cast<char*>(a) + 4999));
  int local = 0;
  EXPECT_FALSE(is_pinned(&local));
  EXPECT_FALSE(record_pinned(&local, 0, nullptr));
  EXPECT_TRUE(record_pinned(static_cast<char*>(a) + 100, 0, nullptr));
  free_pinned(a);
  synchronize_device(0);
  void* b = allocate_pinned(8192);
  EXPECT_EQ(a, b);
  free_pinned(b);
  std::map<std::string, int64_t> s;
  for (const auto& [key, value] : pinned_memory_stats()) s[key] = value;
  EXPECT_EQ(s["allocated_bytes.current"], 0);
  EXPECT_EQ(s["reserved_bytes.current"], 8192);
  empty_pinned_cache();
}

TEST_F(AllocatorTest, CopiesOfPinnedMemory) {
  auto* p = static_cast<int*>(allocate_pinned(sizeof(int)));
  Buffer b(sizeof(int));
  *p = 7;
  copy_to_device(b.get(), p, sizeof(int));
  *p = 8;
  EXPECT_EQ(read(b.as<int>()), 7);
  free_pinned(p);
}

TEST_F(AllocatorTest, SegmentsThatGrow) {
  set_allocator_settings("expandable_segments:True");
  char* const a = static_cast<char*>(allocate(30 * kMiB));
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 40 * kMiB);
  char* const b = static_cast<char*>(allocate(30 * kMiB));
  EXPECT_EQ(b, a + 30 * kMiB) << "one block follows the other";
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 60 * kMiB);
  EXPECT_EQ(stats()["segment.all.current"], 1);
  fill_bytes(a, 1, 60 * kMiB);  // over the border of pieces
  synchronize_stream();
  free(a);
  free(b);
  EXPECT_EQ(stats()["inactive_split.all.current"], 0);
  char* const c = static_cast<char*>(allocate(60 * kMiB));  // two freed blocks are one
  EXPECT_EQ(c, a);
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 60 * kMiB);
  char* const d = static_cast<char*>(allocate(100));
  EXPECT_TRUE(d < a || d >= a + 60 * kMiB) << "small blocks have a segment of their own";
  const auto segments = memory_snapshot();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_TRUE(segments[0].expandable && segments[1].expandable);
  free(c);
  free(d);
  empty_cache();
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 0);
  EXPECT_EQ(stats()["segment.all.current"], 0);
}

TEST_F(AllocatorTest, TheEndOfAGrowingSegmentGoesBack) {
  set_allocator_settings("expandable_segments:True");
  char* const a = static_cast<char*>(allocate(20 * kMiB));
  char* const b = static_cast<char*>(allocate(50 * kMiB));
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 80 * kMiB);
  free(b);
  empty_cache();
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 20 * kMiB);
  EXPECT_EQ(stats()["inactive_split.all.current"], 0);
  EXPECT_EQ(stats()["inactive_split_bytes.all.current"], 0);
  char* const c = static_cast<char*>(allocate(25 * kMiB));
  EXPECT_EQ(c, a + 20 * kMiB);
  free(a);
  empty_cache();  // its beginning stays, as the end is in use
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 60 * kMiB);
  EXPECT_EQ(allocate(20 * kMiB), a);
  free(a);
  free(c);
  empty_cache();
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 0);
  EXPECT_EQ(stats()["inactive_split_bytes.all.current"], 0);
}

TEST_F(AllocatorTest, GrowingSegmentsRunOut) {
  set_allocator_settings("expandable_segments:True");
  const size_t total = memory_info(0).second;
  set_memory_fraction(100.0 * kMiB / static_cast<double>(total), 0);
  void* const a = allocate(30 * kMiB);
  EXPECT_THROW(allocate(90 * kMiB), OutOfMemoryError);
  free(a);
  void* const b = allocate(90 * kMiB);  // grows by what is missing
  EXPECT_EQ(a, b);
  free(b);
  empty_cache();
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 0);
}

TEST_F(AllocatorTest, GrowingSegmentsOfPrivatePools) {
  set_allocator_settings("expandable_segments:True");
  const PoolId id = new_pool_id(true);
  begin_pool(0, id, [](cudaStream_t) { return true; });
  void* const a = allocate(4 * kMiB);
  end_pool(0, id);
  void* const b = allocate(4 * kMiB);
  for (const SegmentInfo& s : memory_snapshot())
    EXPECT_EQ(s.pool, s.address == reinterpret_cast<uintptr_t>(a) ? id : PoolId(0, 0));
  free(a);
  free(b);
  empty_cache();
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 20 * kMiB) << "the pool has a user";
  release_pool(0, id);
  empty_cache();
  EXPECT_EQ(stats()["reserved_bytes.all.current"], 0);
}

int64_t given = 0;
void* give(ssize_t n, int, cudaStream_t) {
  void* p = nullptr;
  ++given;
  return cudaMalloc(&p, static_cast<size_t>(n)) == cudaSuccess ? p : nullptr;
}
void take_back(void* p, ssize_t, int, cudaStream_t) {
  --given;
  cudaFree(p);
}
TEST_F(AllocatorTest, PoolsOfOtherAllocators) {
  const PoolId id = new_pool_id(true);
  begin_pool(0, id, [](cudaStream_t) { return true; });
  set_pool_options(0, id, {.allocate = give, .free = take_back, .no_split = true});
  void* const a = allocate(100);
  void* const b = allocate(100);
  EXPECT_EQ(given, 2) << "blocks are not cut";
  end_pool(0, id);
  void* const c = allocate(100);
  EXPECT_EQ(given, 2);
  for (void* p : {a, b, c}) free(p);
  release_pool(0, id);
  empty_cache();
  EXPECT_EQ(given, 0);
}

TEST_F(AllocatorTest, PoolsInReserve) {
  const size_t total = memory_info(0).second;
  const PoolId id = new_pool_id(true);
  begin_pool(0, id, [](cudaStream_t) { return true; });
  set_pool_options(0, id, {.use_on_oom = true});
  void* const a = allocate(64 * kMiB);
  end_pool(0, id);
  free(a);
  set_memory_fraction(70.0 * kMiB / static_cast<double>(total), 0);
  void* const b = allocate(64 * kMiB);
  EXPECT_EQ(a, b);
  EXPECT_THROW(allocate(64 * kMiB), OutOfMemoryError);
  free(b);
  release_pool(0, id);
  empty_cache();
}

}  // namespace
}  // namespace tessera::cuda
