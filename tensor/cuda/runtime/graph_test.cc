#include "tensor/cuda/runtime/graph.h"

#include <cstdio>
#include <map>
#include <thread>

#include "tensor/core/error.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

class GraphTest : public testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped()) set_current_stream(stream_from_pool(0));
  }
};

int64_t stat(const std::string& key) {
  for (const auto& [k, value] : memory_stats(0))
    if (k == key) return value;
  return -1;
}

TEST_F(GraphTest, ReplaysOnItsOwnMemory) {
  Buffer in(sizeof(int)), out(sizeof(int));
  const int one = 1, two = 2;
  copy_to_device(in.get(), &one, sizeof one);
  fill_bytes(out.get(), 0, sizeof(int));
  Graph graph;
  graph.begin_capture();
  EXPECT_TRUE(is_capturing(current_stream(0)));
  void* temporary = allocate(sizeof(int));
  check(cudaMemcpyAsync(temporary, in.get(), sizeof(int), cudaMemcpyDeviceToDevice, current_stream()), "copy");
  check(cudaMemcpyAsync(out.get(), temporary, sizeof(int), cudaMemcpyDeviceToDevice, current_stream()), "copy");
  free(temporary);
  EXPECT_EQ(graph.end_capture(), 2u);
  EXPECT_EQ(read(out.as<int>()), 0);
  Buffer other(sizeof(int));
  EXPECT_NE(other.get(), temporary);
  graph.replay();
  EXPECT_EQ(read(out.as<int>()), 1);
  copy_to_device(in.get(), &two, sizeof two);
  graph.replay();
  EXPECT_EQ(read(out.as<int>()), 2);
  const PoolId pool = graph.pool();
  EXPECT_EQ(pool_use_count(0, pool), 1);
  const int64_t segments = stat("segment.all.current");
  graph.reset();
  EXPECT_EQ(pool_use_count(0, pool), 0);
  empty_cache();
  EXPECT_LT(stat("segment.all.current"), segments);
  EXPECT_THROW(graph.replay(), Error);
}

TEST_F(GraphTest, OtherStreamsJoin) {
  Buffer b(8);
  fill_bytes(b.get(), 0, 8);
  const Stream main = current_stream(0), side = stream_from_pool(0);
  Graph graph;
  graph.begin_capture();
  Event fork, join;
  fork.record(main);
  fork.wait(side);
  set_current_stream(side);
  EXPECT_TRUE(is_capturing(side));
  fill_bytes(b.as<char>() + 4, 1, 4);
  join.record(side);
  set_current_stream(main);
  join.wait(main);
  fill_bytes(b.get(), 2, 4);
  graph.end_capture();
  EXPECT_FALSE(is_capturing(side));
  EXPECT_EQ(read(b.as<int64_t>()), 0);
  graph.replay();
  EXPECT_EQ(read(b.as<int64_t>()), 0x0101010102020202);
}

TEST_F(GraphTest, StreamsHaveToJoinAgain) {
  Buffer b(8);
  const Stream main = current_stream(0), side = stream_from_pool(0);
  Graph graph;
  graph.begin_capture();
  Event fork;
  fork.record(main);
  fork.wait(side);
  set_current_stream(side);
  fill_bytes(b.get(), 1, 8);
  set_current_stream(main);
  EXPECT_THROW(graph.end_capture(), Error);
  graph.reset();
}

TEST_F(GraphTest, QueriesOfOthersDoNotEndACapture) {
  Event e;
  e.record(current_stream(0));
  Buffer b(4);
  Graph graph;
  graph.begin_capture();
  fill_bytes(b.get(), 0, 4);
  std::thread([&] { EXPECT_TRUE(e.query()); }).join();
  EXPECT_EQ(graph.end_capture(), 1u);
}

TEST_F(GraphTest, PinnedMemoryOfAGraphIsNotUsedAgain) {
  void* host = allocate_pinned(4096);
  Graph graph;
  graph.begin_capture();
  hold_for_replays(static_cast<char*>(host) + 100);
  graph.end_capture();
  free_pinned(host);
  void* other = allocate_pinned(4096);
  EXPECT_NE(other, host);
  graph.reset();
  EXPECT_EQ(allocate_pinned(4096), host);
  free_pinned(host);
  free_pinned(other);
}

TEST_F(GraphTest, WaitingEndsACapture) {
  Buffer b(4);
  fill_bytes(b.get(), 0, 4);
  synchronize_stream();
  Graph graph;
  graph.begin_capture();
  EXPECT_THROW(read(b.as<int>()), Error);
  EXPECT_THROW(graph.end_capture(), Error);
  graph.reset();
  EXPECT_EQ(read(b.as<int>()), 0);
}

TEST_F(GraphTest, Errors) {
  Graph graph;
  EXPECT_THROW(graph.replay(), Error);
  EXPECT_THROW(graph.end_capture(), Error);
  EXPECT_THROW(graph.pool(), Error);
  EXPECT_THROW(graph.debug_dump("x"), Error);
  const Stream s = current_stream(0);
  set_current_stream({0, nullptr});
  EXPECT_THROW(graph.begin_capture(), Error);
  set_current_stream(s);
  graph.begin_capture();
  set_current_stream(stream_from_pool(0));
  EXPECT_THROW(graph.end_capture(), Error);
  set_current_stream(s);
  graph.end_capture();
  EXPECT_THROW(graph.begin_capture(), Error);
}

TEST_F(GraphTest, DebugDump) {
  Buffer b(4);
  Graph graph(true);
  graph.begin_capture();
  fill_bytes(b.get(), 0, 4);
  graph.end_capture();
  EXPECT_NE(graph.raw_graph(), nullptr);
  const std::string path = ::testing::TempDir() + "/graph.dot";
  graph.debug_dump(path);
  FILE* f = std::fopen(path.c_str(), "r");
  ASSERT_NE(f, nullptr);
  char start[8] = {};
  EXPECT_EQ(std::fread(start, 1, 7, f), 7u);
  EXPECT_STREQ(start, "digraph");
  std::fclose(f);
  graph.replay();
  synchronize_stream();
}

}  // namespace
}  // namespace tessera::cuda
