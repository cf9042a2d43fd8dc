#include "tensor/cuda/runtime/streams.h"

#include <set>
#include <thread>

#include "tensor/core/error.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using StreamsTest = testing::DeviceTest;

int warnings = 0;

TEST_F(StreamsTest, Devices) {
  EXPECT_EQ(selected_device(), 0);
  EXPECT_EQ(op_device(), 0);
  EXPECT_THROW(select_device(device_count()), Error);
  EXPECT_THROW(select_device(-1), Error);
  try {
    select_device(99);
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).rfind("CUDA error: invalid device ordinal\n", 0), 0u) << e.what();
  }
  EXPECT_GT(properties().multi_processor_count, 0);
  EXPECT_EQ(properties(0).warp_size, 32);
  EXPECT_FALSE(can_access_peer(0, 0));
  synchronize_device(0);
}

TEST_F(StreamsTest, TwoDevices) {
  if (device_count() < 2) GTEST_SKIP() << "one CUDA device";
  select_device(1);
  EXPECT_EQ(op_device(), 1);
  {
    OpDevice on(0);
    EXPECT_EQ(op_device(), 0);
    EXPECT_EQ(selected_device(), 1);
  }
  EXPECT_EQ(op_device(), 1);
  Buffer b(64);
  cudaPointerAttributes a;
  ASSERT_EQ(cudaPointerGetAttributes(&a, b.get()), cudaSuccess);
  EXPECT_EQ(a.device, 1);
  enable_peer_access(0, 1);
  enable_peer_access(0, 1);
  std::thread([] { EXPECT_EQ(selected_device(), 0); }).join();
  select_device(0);
}

TEST_F(StreamsTest, OthersMaySelectDevices) {
  if (device_count() < 2) GTEST_SKIP() << "one CUDA device";
  select_device(0);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);  // as another library of the program would
  OpDevice on(0);
  Buffer b(64);
  cudaPointerAttributes a;
  ASSERT_EQ(cudaPointerGetAttributes(&a, b.get()), cudaSuccess);
  EXPECT_EQ(a.device, 0);
}

TEST_F(StreamsTest, CurrentStreamIsAThreadsOwn) {
  EXPECT_EQ(current_stream(), nullptr);
  const Stream s = stream_from_pool(0);
  {
    StreamGuard guard(s);
    EXPECT_EQ(current_stream(), s.handle);
    EXPECT_EQ(current_stream(0), s);
    std::thread([] { EXPECT_EQ(current_stream(0).handle, nullptr); }).join();
  }
  EXPECT_EQ(current_stream(), nullptr);
}

TEST_F(StreamsTest, Pool) {
  std::set<cudaStream_t> seen;
  const Stream first = stream_from_pool(0);
  for (int i = 1; i < 32; ++i) seen.insert(stream_from_pool(0).handle);
  EXPECT_EQ(seen.size(), 31u);
  EXPECT_EQ(seen.count(first.handle), 0u);
  EXPECT_EQ(stream_from_pool(0), first);
  const auto [least, greatest] = stream_priority_range();
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);
  EXPECT_EQ(stream_priority(stream_from_pool(0, -1)), -1);
  EXPECT_EQ(stream_priority(stream_from_pool(0, -100)), greatest);
  EXPECT_EQ(stream_priority(stream_from_pool(0, 100)), 0);
}

TEST_F(StreamsTest, Events) {
  const Stream a = stream_from_pool(0), b = stream_from_pool(0);
  Event start({.timing = true}), end({.timing = true}), plain;
  EXPECT_TRUE(plain.query());
  plain.wait(a);
  start.record(a);
  end.record(a);
  end.wait(b);
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GE(start.elapsed_ms(end), 0);
  synchronize(b);
  EXPECT_TRUE(query(b));
  plain.record(a);
  EXPECT_THROW(start.elapsed_ms(plain), ValueError);
  EXPECT_THROW(Event({.timing = true}).elapsed_ms(end), ValueError);
}

TEST_F(StreamsTest, SyncDebugMode) {
  Buffer b(4);
  fill_bytes(b.get(), 0, 4);
  set_sync_debug_mode(SyncDebugMode::kError);
  try {
    read(b.as<int>());
    ADD_FAILURE();
  } catch (const Error& e) { EXPECT_STREQ(e.what(), "called a synchronizing CUDA operation"); }
  set_sync_warning([](const std::string&) { ++warnings; });
  set_sync_debug_mode(SyncDebugMode::kWarn);
  EXPECT_EQ(read(b.as<int>()), 0);
  EXPECT_EQ(warnings, 1);
  set_sync_debug_mode(SyncDebugMode::kDefault);
  read(b.as<int>());
  EXPECT_EQ(warnings, 1);
  set_sync_warning(nullptr);
}

}  // namespace
}  // namespace tessera::cuda
