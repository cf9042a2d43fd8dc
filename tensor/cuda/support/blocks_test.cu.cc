// What kernels rely on, on a real and on the emulated device: how blocks run, and what is refused.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/launch.h"
#include "tensor/cuda/support/report.h"
#include "tensor/cuda/runtime/streams.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using BlocksTest = testing::DeviceTest;

template <class T>
std::vector<T> read_all(const T* p, size_t n) {
  std::vector<T> v(n);
  copy_to_host(v.data(), p, n * sizeof(T));
  return v;
}

void fill_multiples(int64_t* p, int64_t n) {
  for_each(n, [p] __device__(int64_t i) { p[i] = 3 * i; });
}

TEST_F(BlocksTest, IndependentThreads) {
  const int64_t n = 10007;
  Buffer b(n * sizeof(int64_t));
  fill_multiples(b.as<int64_t>(), n);
  const int64_t* p = b.as<int64_t>();
  const auto v = read_all(p, n);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(v[i], 3 * i);
}

__global__ void coordinates_kernel(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], thread + 1);
}

TEST_F(BlocksTest, Coordinates) {
  const dim3 blocks(3, 2, 2), threads(5, 3, 2);
  const size_t per_block = 30, n = per_block * 12;
  Buffer b(n * sizeof(unsigned));
  for (bool cooperate : {false, true}) {
    fill_bytes(b.get(), 0, n * sizeof(unsigned));
    if (cooperate)
      launch_blocks(coordinates_kernel, blocks, threads, 0, b.as<unsigned>());
    else
      launch(coordinates_kernel, blocks, threads, b.as<unsigned>());
    const auto v = read_all(b.as<unsigned>(), n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(v[i], i % per_block + 1);
  }
}

__global__ void block_sum_kernel(const float* x, int64_t n, float* out) {
  __shared__ float part[8];
  float* dynamic = static_cast<float*>(dynamic_shared());
  float sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  dynamic[threadIdx.x] = sum;
  __syncthreads();
  float total = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) total += part[w];
  __syncthreads();
  if (dynamic[(threadIdx.x + 32) % blockDim.x] > total) total = -1;
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

TEST_F(BlocksTest, SumsInSharedMemory) {
  std::vector<float> x(5 * 1000);
  std::iota(x.begin(), x.end(), 0.f);
  Buffer in(x.size() * sizeof(float)), out(5 * sizeof(float));
  copy_to_device(in.get(), x.data(), x.size() * sizeof(float));
  launch_blocks(block_sum_kernel, dim3(5), dim3(256), 256 * sizeof(float), in.as<float>(), int64_t{1000},
                out.as<float>());
  const auto v = read_all(out.as<float>(), 5);
  for (int b = 0; b < 5; ++b) EXPECT_FLOAT_EQ(v[b], 1000.f * (1000.f * static_cast<float>(b)) + 499500.f);
}

__global__ void shuffles_kernel(int* out) {
  const int t = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x), v = 100 + t;
  const unsigned all = 0xffffffffu;
  out += 11 * n * static_cast<int>(blockIdx.x);
  out[0 * n + t] = __shfl_sync(all, v, 3);
  out[1 * n + t] = __shfl_sync(all, v, 9, 8);
  out[2 * n + t] = __shfl_up_sync(all, v, 2);
  out[3 * n + t] = __shfl_down_sync(all, v, 2, 16);
  out[4 * n + t] = __shfl_xor_sync(all, v, 1);
  out[5 * n + t] = static_cast<int>(__ballot_sync(all, t % 3 == 0));
  out[6 * n + t] = __any_sync(all, t == 40) + 2 * __all_sync(all, t < 32);
  out[7 * n + t] = __reduce_max_sync(all, -v);
  out[8 * n + t] = static_cast<int>(__match_any_sync(all, t / 4));
  out[9 * n + t] = __syncthreads_count(t % 2) + 1000 * __syncthreads_or(t == 5) + 10000 * __syncthreads_and(t != 5);
  // Halves of a warp that go their own ways.
  if (t % 32 < 16)
    out[10 * n + t] = __shfl_sync(0x0000ffffu, v, 1);
  else
    out[10 * n + t] = __shfl_sync(0xffff0000u, v, 17) + static_cast<int>(__reduce_add_sync(0xffff0000u, 1u));
}

TEST_F(BlocksTest, WarpFunctions) {
  constexpr int n = 64;
  Buffer b(2 * 11 * n * sizeof(int));
  launch_blocks(shuffles_kernel, dim3(2), dim3(n), 0, b.as<int>());
  const auto v = read_all(b.as<int>(), 11 * n);
  for (int t = 0; t < n; ++t) {
    const int warp = t / 32 * 32, lane = t % 32;
    EXPECT_EQ(v[0 * n + t], 100 + warp + 3);
    EXPECT_EQ(v[1 * n + t], 100 + t / 8 * 8 + 1);
    EXPECT_EQ(v[2 * n + t], 100 + (lane < 2 ? t : t - 2));
    EXPECT_EQ(v[3 * n + t], 100 + (t % 16 >= 14 ? t : t + 2));
    EXPECT_EQ(v[4 * n + t], 100 + (t ^ 1));
    unsigned ballot = 0;
    for (int i = 0; i < 32; ++i) ballot |= static_cast<unsigned>((warp + i) % 3 == 0) << i;
    EXPECT_EQ(static_cast<unsigned>(v[5 * n + t]), ballot);
    EXPECT_EQ(v[6 * n + t], warp == 0 ? 2 : 1);
    EXPECT_EQ(v[7 * n + t], -(100 + warp));
    EXPECT_EQ(static_cast<unsigned>(v[8 * n + t]), 0xfu << lane / 4 * 4);
    EXPECT_EQ(v[9 * n + t], 32 + 1000);
    EXPECT_EQ(v[10 * n + t], lane < 16 ? 100 + warp + 1 : 100 + warp + 17 + 16);
  }
}

TEST_F(BlocksTest, LaunchLimits) {
  Buffer b(64);
  EXPECT_THROW(launch(coordinates_kernel, dim3(0), dim3(32), b.as<unsigned>()), Error);
  EXPECT_THROW(launch(coordinates_kernel, dim3(1), dim3(1025), b.as<unsigned>()), Error);
  EXPECT_THROW(launch(coordinates_kernel, dim3(1, 65536), dim3(1), b.as<unsigned>()), Error);
  EXPECT_THROW(launch_blocks(coordinates_kernel, dim3(1), dim3(1), 228 * 1024, b.as<unsigned>()), Error);
}

__global__ void report_kernel(Report* slot, int64_t n) {
  const int64_t i = threadIdx.x;
  if (i >= n) report(slot, ReportKind::kIndexOutOfBounds, i, 1, n);
}

TEST_F(BlocksTest, Reports) {
  launch(report_kernel, dim3(1), dim3(32), report_slot(), int64_t{32});
  synchronize_stream();
  launch(report_kernel, dim3(1), dim3(8), report_slot(), int64_t{7});
  try {
    synchronize_stream();
    FAIL();
  } catch (const IndexError& e) { EXPECT_STREQ(e.what(), "index 7 is out of bounds for dimension 1 with size 7"); }
  synchronize_stream();
}

TEST_F(BlocksTest, CopiesAreChecked) {
  Buffer b(64);
  char host[64] = {};
  EXPECT_EQ(cudaMemcpy(b.get(), host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(b.get(), host, size_t{1} << 40, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  cudaGetLastError();
}

void add_numbers(int* p) {
  for_each(5, [p] __device__(int64_t i) { atomicAdd(p, static_cast<int>(i)); });
}

TEST_F(BlocksTest, GraphsRunAgain) {
  const Stream s = stream_from_pool(0);
  Buffer b(sizeof(int));
  fill_bytes(b.get(), 0, sizeof(int));
  synchronize_stream();
  set_current_stream(s);
  int* p = b.as<int>();
  ASSERT_EQ(cudaStreamBeginCapture(s.handle, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_TRUE(is_capturing(s));
  add_numbers(p);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(s.handle, &graph), cudaSuccess);
  EXPECT_EQ(read(p), 0);
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, s.handle), cudaSuccess);
  EXPECT_EQ(read(p), 30);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

#if TESSERA_CUDA_EMULATED
using BlocksDeathTest = BlocksTest;

TEST_F(BlocksDeathTest, HostCodeCannotTouchDeviceMemory) {
  Buffer b(64);
  EXPECT_DEATH(*b.as<volatile int>() = 1, "host code touches device memory");
}

__global__ void write_kernel(char* p, int64_t i) { p[i] = 1; }

TEST_F(BlocksDeathTest, KernelsStayInAllocations) {
  void* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 256), cudaSuccess);
  launch(write_kernel, dim3(1), dim3(1), static_cast<char*>(p), int64_t{255});
  EXPECT_DEATH(
      {
        launch(write_kernel, dim3(1), dim3(1), static_cast<char*>(p), int64_t{256});
        synchronize_stream();
      },
      "touches no allocation");
  cudaFree(p);
}

__global__ void uneven_barrier_kernel() {
  if (threadIdx.x < 7) __syncthreads();
}
__global__ void missing_lane_kernel() {
  if (threadIdx.x % 2)
    __syncwarp();
  else
    __syncthreads();
}
__global__ void barrier_kernel() { __syncthreads(); }

TEST_F(BlocksDeathTest, BarriersThatNotAllReach) {
  const auto run = [](void (*kernel)()) {
    launch_blocks(kernel, dim3(1), dim3(8), 0);
    synchronize_stream();
  };
  EXPECT_DEATH(run(uneven_barrier_kernel), "ended before a __syncthreads");
  EXPECT_DEATH(run(missing_lane_kernel), "whose other lanes do not come");
  EXPECT_DEATH(
      {
        launch(barrier_kernel, dim3(1), dim3(8));
        synchronize_stream();
      },
      "not launch_blocks");
}

#if TESSERA_EMULATED_RACES
// Each of them gives the right result in the order in which threads are run by default.
__global__ void unordered_kernel(int* out, bool with_barrier) {
  __shared__ int shared[64];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x / 2];
}
__global__ void warp_kernel(int* out, bool with_barrier) {
  int* const shared = static_cast<int*>(dynamic_shared());
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}
__global__ void blocks_kernel(int* out, bool atomic) {
  if (atomic)
    atomicAdd(out, 1);
  else
    *out += 1;
}
__global__ void unwritten_kernel(int* out) {
  int* const shared = static_cast<int*>(dynamic_shared());
  if (threadIdx.x < 32) shared[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}
__global__ void misaligned_kernel(char* p) { *reinterpret_cast<int*>(p + 1) = 1; }

TEST_F(BlocksDeathTest, RacesWhateverTheOrder) {
  const Buffer b(256);
  int* const out = b.as<int>();
  const auto unordered = [&](bool barrier) {
    launch_blocks(unordered_kernel, dim3(1), dim3(64), 0, out, barrier);
    synchronize_stream();
  };
  const auto lanes = [&](bool barrier) {
    launch_blocks(warp_kernel, dim3(1), dim3(32), 128, out, barrier);
    synchronize_stream();
  };
  const auto blocks = [&](bool atomic) {
    launch(blocks_kernel, dim3(3), dim3(1), out, atomic);
    synchronize_stream();
  };
  unordered(true);
  lanes(true);
  blocks(true);
  EXPECT_DEATH(unordered(false), "a (read beside a write|write beside a read).*shared memory");
  EXPECT_DEATH(lanes(false), "a (read beside a write|write beside a read|read of what no thread).*shared memory");
  EXPECT_DEATH(blocks(false), "device memory; the other one: block");
  EXPECT_DEATH(
      {
        launch_blocks(unwritten_kernel, dim3(1), dim3(64), 256, out);
        synchronize_stream();
      },
      "a read of what no thread of the block has written");
  EXPECT_DEATH(
      {
        launch(misaligned_kernel, dim3(1), dim3(1), b.as<char>());
        synchronize_stream();
      },
      "not aligned for its type");
}
#endif
#endif

}  // namespace
}  // namespace tessera::cuda
