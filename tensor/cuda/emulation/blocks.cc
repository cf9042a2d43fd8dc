#include "tensor/cuda/emulation/blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/orders.h"

// Saves the registers that a function must keep on the running stack, whose top goes to *from, and goes on with the
// stack `to`.
extern "C" void tessera_emulation_switch(void** from, void* to);
// The first thing that runs on a fresh stack.
extern "C" void tessera_emulation_start();
extern "C" [[noreturn]] void tessera_emulation_thread();
asm(R"(
.text
.globl tessera_emulation_switch
.hidden tessera_emulation_switch
.type tessera_emulation_switch, @function
tessera_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tessera_emulation_switch, .-tessera_emulation_switch
.globl tessera_emulation_start
.hidden tessera_emulation_start
.type tessera_emulation_start, @function
tessera_emulation_start:
  andq $-16, %rsp
  call tessera_emulation_thread
.size tessera_emulation_start, .-tessera_emulation_start
)");

namespace tessera::cuda::emulation {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kPage = 4096;

enum class State : uint8_t { kRunnable, kBarrier, kWarp, kEnded };

struct Thread {
  State state;
  WarpOp op;
  int source;
  unsigned mask;
  uint64_t value, result;
  void* stack_top;
};

// The cooperating block that runs. Only one does at a time.
struct Block {
  std::vector<Thread> threads;
  unsigned char* stacks = nullptr;
  int running = 0, ended = 0, at_barrier = 0, barrier_true = 0, barrier_result = 0;
  Barrier barrier = Barrier::kPlain;
  dim3 shape;
  void* scheduler_top = nullptr;
  const std::function<void()>* body = nullptr;
};
Block block;
bool cooperating = false;
uint32_t warp_epochs[kMaxThreadsPerBlock];
unsigned char* shared_memory = nullptr;  // the end of a mapping; a page that cannot be touched follows

void* map(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return p;
}

// Stacks for 1024 threads, each above a page that cannot be touched.
unsigned char* stacks() {
  static unsigned char* const p = [] {
    auto* q = static_cast<unsigned char*>(map(kStackBytes * kMaxThreadsPerBlock));
    for (int i = 0; i < kMaxThreadsPerBlock; ++i) mprotect(q + i * kStackBytes, kPage, PROT_NONE);
    return q;
  }();
  return p;
}

void set_shared_memory(size_t bytes) {
  static unsigned char* const end = [] {
    const size_t size = (capability().max_shared_bytes + kPage - 1) / kPage * kPage;
    auto* p = static_cast<unsigned char*>(map(size + kPage));
    mprotect(p + size, kPage, PROT_NONE);
    return p + size;
  }();
  shared_memory = end - (bytes + 15) / 16 * 16;
}

uint3 index_of(int number, dim3 shape) {
  const unsigned n = static_cast<unsigned>(number);
  return {n % shape.x, n / shape.x % shape.y, n / shape.x / shape.y};
}

void prepare_stack(int number) {
  auto* top = reinterpret_cast<void**>(block.stacks + (number + 1) * kStackBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&tessera_emulation_start);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  block.threads[number].stack_top = top;
}

void resume(int number) {
  block.running = position.thread = number;
  threadIdx = index_of(number, block.shape);
  tessera_emulation_switch(&block.scheduler_top, block.threads[number].stack_top);
}

// Called by a thread that waits or has ended: back to the scheduler.
void suspend() { tessera_emulation_switch(&block.threads[block.running].stack_top, block.scheduler_top); }

// Lets the threads at the barrier go on when all are there.
void finish_barrier() {
  const int n = static_cast<int>(block.threads.size());
  if (block.at_barrier == 0 || block.at_barrier + block.ended < n) return;
  if (block.ended > 0) fail("a thread of the block ended before a __syncthreads() that the others reached");
  block.barrier_result = block.barrier == Barrier::kCount ? block.barrier_true
                         : block.barrier == Barrier::kAnd ? block.barrier_true == n
                                                          : block.barrier_true > 0;
  block.at_barrier = block.barrier_true = 0;
  ++position.block_epoch;
  for (Thread& t : block.threads) t.state = State::kRunnable;
}

uint64_t combine(WarpOp op, uint64_t a, uint64_t b) {
  switch (op) {
    case WarpOp::kAdd:
      return a + b;
    case WarpOp::kAnd:
      return a & b;
    case WarpOp::kOr:
      return a | b;
    case WarpOp::kXor:
      return a ^ b;
    case WarpOp::kMinSigned:
      return static_cast<int64_t>(a) < static_cast<int64_t>(b) ? a : b;
    case WarpOp::kMaxSigned:
      return static_cast<int64_t>(a) > static_cast<int64_t>(b) ? a : b;
    case WarpOp::kMinUnsigned:
      return a < b ? a : b;
    default:
      return a > b ? a : b;
  }
}

// The lanes `there` of a warp have all called the same function.
void compute_results(Thread* warp, unsigned there, WarpOp op) {
  uint32_t* const epochs = warp_epochs + (warp - block.threads.data());
  uint32_t latest = 0;
  for (int i = 0; i < 32; ++i)
    if (there >> i & 1) latest = std::max(latest, epochs[i]);
  for (int i = 0; i < 32; ++i)
    if (there >> i & 1) epochs[i] = latest + 1;
  uint64_t common = 0;
  bool first = true;
  for (int i = 0; i < 32; ++i) {
    if (!(there >> i & 1)) continue;
    if (op == WarpOp::kBallot)
      common |= static_cast<uint64_t>(warp[i].value != 0) << i;
    else if (op != WarpOp::kShuffle && op != WarpOp::kMatch)
      common = std::exchange(first, false) ? warp[i].value : combine(op, common, warp[i].value);
  }
  for (int i = 0; i < 32; ++i) {
    if (!(there >> i & 1)) continue;
    if (op == WarpOp::kShuffle) {
      const int s = warp[i].source;
      warp[i].result = s >= 0 && s < 32 && (there >> s & 1) ? warp[s].value : 0xA5A5A5A5A5A5A5A5u;
    } else if (op == WarpOp::kMatch) {
      uint64_t equal = 0;
      for (int j = 0; j < 32; ++j)
        equal |= static_cast<uint64_t>((there >> j & 1) && warp[j].value == warp[i].value) << j;
      warp[i].result = equal;
    } else {
      warp[i].result = common;
    }
  }
  for (int i = 0; i < 32; ++i)
    if (there >> i & 1) warp[i].state = State::kRunnable;
}

unsigned live_lanes_of(int first) {
  unsigned live = 0;
  for (int i = 0; i < 32 && first + i < static_cast<int>(block.threads.size()); ++i)
    live |= static_cast<unsigned>(block.threads[first + i].state != State::kEnded) << i;
  return live;
}

// Lets the lanes of `mask` go on when all that have not ended wait for each other.
void finish_warp(int first, unsigned mask) {
  Thread* warp = &block.threads[first];
  const unsigned there = mask & live_lanes_of(first);
  const Thread* any = nullptr;
  for (int i = 0; i < 32; ++i) {
    if (!(there >> i & 1)) continue;
    if (warp[i].state != State::kWarp || warp[i].mask != mask) return;
    if (any && any->op != warp[i].op) fail("lanes of a warp wait for each other in different warp functions");
    any = &warp[i];
  }
  if (any) compute_results(warp, there, any->op);
}

void end_thread() {
  Thread& t = block.threads[block.running];
  t.state = State::kEnded;
  ++block.ended;
  const int first = block.running / 32 * 32;
  for (int i = 0; i < 32 && first + i < static_cast<int>(block.threads.size()); ++i) {
    const Thread& other = block.threads[first + i];
    if (other.state == State::kWarp) finish_warp(first, other.mask);
  }
  finish_barrier();
}

void run_cooperating_block() {
  const int n = static_cast<int>(block.threads.size());
  for (int i = 0; i < n; ++i) {
    block.threads[i].state = State::kRunnable;
    prepare_stack(i);
  }
  block.ended = block.at_barrier = block.barrier_true = 0;
  while (block.ended < n) {
    bool progress = false;
    const Order order(static_cast<uint64_t>(n));
    for (int i = 0; i < n; ++i) {
      const int k = static_cast<int>(order[static_cast<uint64_t>(i)]);
      if (block.threads[k].state != State::kRunnable) continue;
      progress = true;
      resume(k);
    }
    if (!progress)
      fail(block.at_barrier > 0 ? "some threads of a block wait at __syncthreads(), others in a warp function whose "
                                  "other lanes do not come"
                                : "lanes of a warp wait in a warp function whose other lanes do not come");
  }
}

void check_cooperating(const char* message) {
  if (!cooperating) fail(message);
}

}  // namespace

Position position;
uint32_t warp_epoch(int thread) { return warp_epochs[thread]; }

void fail(const char* message) {
  std::fprintf(stderr, "emulated device: block (%u, %u, %u), thread (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y,
               blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, message);
  std::fflush(stderr);
  std::abort();
}

namespace {
int number_of(const char* name, int otherwise) {
  const char* s = getenv(name);
  const int n = s && *s ? std::atoi(s) : otherwise;
  if (n < 1) {
    std::fprintf(stderr, "%s=%s is no number of at least 1\n", name, s);
    std::abort();
  }
  return n;
}
}  // namespace

const Capability& capability() {
  static const Capability value = [] {
    int major = 9, minor = 0;
    const char* s = getenv("TESSERA_EMULATED_CAPABILITY");
    if (s && *s && (std::sscanf(s, "%d.%d", &major, &minor) != 2 || major < 1 || minor < 0 || minor > 9)) {
      std::fprintf(stderr, "TESSERA_EMULATED_CAPABILITY=%s is no compute capability such as 8.6\n", s);
      std::abort();
    }
    // Of a block, with the opt-in: CUDA Programming Guide, table of technical specifications by compute capability.
    const auto limit = [&] {
      if (major < 7) return 48;
      if (major == 7) return minor == 5 ? 64 : 96;
      if (major == 8) return minor == 0 || minor == 7 ? 163 : 99;
      return major == 12 ? 99 : 227;
    };
    const int shared = number_of("TESSERA_EMULATED_SHARED", limit()),
              multiprocessors = number_of("TESSERA_EMULATED_MULTIPROCESSORS", 4);
    return Capability{major, minor, static_cast<size_t>(shared) * 1024, multiprocessors};
  }();
  return value;
}

cudaError_t check_launch(dim3 blocks, dim3 threads, size_t shared_bytes) {
  const auto total = uint64_t{threads.x} * threads.y * threads.z;
  const bool good = total > 0 && total <= kMaxThreadsPerBlock && threads.z <= 64 && blocks.x > 0 &&
                    blocks.x <= 0x7fffffff && blocks.y > 0 && blocks.y <= 65535 && blocks.z > 0 && blocks.z <= 65535;
  if (!good) return cudaErrorInvalidConfiguration;
  return shared_bytes > capability().max_shared_bytes ? cudaErrorInvalidValue : cudaSuccess;
}

void run_blocks(dim3 blocks, dim3 threads, size_t shared_bytes, bool cooperate, const std::function<void()>& body,
                const char* name) {
  const int n = static_cast<int>(threads.x * threads.y * threads.z);
  blockDim = threads;
  gridDim = blocks;
  cooperating = cooperate;
  set_shared_memory(shared_bytes);
  if (cooperate) {
    block.threads.assign(n, Thread{});
    block.stacks = stacks();
    block.shape = threads;
    block.body = &body;
  }
  position = {name, position.launch + 1, 0, 0, n, 0, shared_memory, shared_bytes};
  const uint64_t total = uint64_t{blocks.x} * blocks.y * blocks.z;
  const Order order(total);
  for (uint64_t b = 0; b < total; ++b) {
    const uint64_t k = order[b];
    blockIdx = {static_cast<unsigned>(k % blocks.x), static_cast<unsigned>(k / blocks.x % blocks.y),
                static_cast<unsigned>(k / blocks.x / blocks.y)};
    if (shared_bytes) std::memset(shared_memory, 0xA5, shared_bytes);
    position.block = static_cast<uint32_t>(k);
    position.block_epoch = 0;
    std::fill_n(warp_epochs, n, 0u);
    if (cooperate) {
      run_cooperating_block();
      continue;
    }
    const Order of_threads(static_cast<uint64_t>(n));
    for (int t = 0; t < n; ++t) {
      const int thread = static_cast<int>(of_threads[static_cast<uint64_t>(t)]);
      threadIdx = index_of(thread, threads);
      position.thread = thread;
      body();
    }
  }
  position.kernel = nullptr;
  cooperating = false;
}

void* dynamic_shared() {
  check_cooperating("dynamic_shared() in a kernel that was started by launch(), not launch_blocks()");
  return shared_memory;
}

int block_barrier(Barrier kind, bool predicate) {
  check_cooperating("__syncthreads() in a kernel that was started by launch(), not launch_blocks()");
  if (block.at_barrier > 0 && block.barrier != kind)
    fail("threads of a block wait for each other in different forms of __syncthreads()");
  block.barrier = kind;
  block.threads[block.running].state = State::kBarrier;
  ++block.at_barrier;
  block.barrier_true += predicate;
  finish_barrier();
  suspend();
  return block.barrier_result;
}

uint64_t warp_exchange(WarpOp op, unsigned mask, uint64_t value, int source) {
  check_cooperating("a warp function in a kernel that was started by launch(), not launch_blocks()");
  const int first = block.running / 32 * 32;
  if (!(mask >> (block.running - first) & 1)) fail("a lane calls a warp function with a mask that does not name it");
  Thread& t = block.threads[block.running];
  t.state = State::kWarp;
  t.op = op;
  t.mask = mask;
  t.value = value;
  t.source = source;
  finish_warp(first, mask);
  suspend();
  return t.result;
}

unsigned live_lanes() {
  check_cooperating("__activemask() in a kernel that was started by launch(), not launch_blocks()");
  return live_lanes_of(block.running / 32 * 32);
}

int lane() {
  check_cooperating("a warp function in a kernel that was started by launch(), not launch_blocks()");
  return block.running % 32;
}

}  // namespace tessera::cuda::emulation

void tessera_emulation_thread() {
  using namespace tessera::cuda::emulation;
  (*block.body)();
  end_thread();
  suspend();
  __builtin_unreachable();
}
