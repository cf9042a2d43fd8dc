#include "tensor/core/parallel.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "tensor/core/error.h"
#include "tensor/core/restore.h"

namespace tessera {
namespace {

// How long a thread looks before it asks the kernel to sleep: longer than the gap between two ops of a program, or than
// what one thread does alone between two steps of a factorization. (By the clock: a pause takes 10 or 50 ns.)
constexpr int64_t kLook = 200'000;  // ns
constexpr int kMaxThreads = 1024;
constexpr size_t kWorkerStack = size_t{4} << 20;

inline void cpu_pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}
// Rounding and denormal modes: workers compute in the caller's, or bits would depend on who runs a piece.
#if defined(__x86_64__)
inline uint32_t float_modes() { return _mm_getcsr() & ~0x3fu; }  // without the sticky exception flags
inline void set_float_modes(uint32_t m) {
  if (m != float_modes()) _mm_setcsr(m);
}
#else
inline uint32_t float_modes() { return 0; }
inline void set_float_modes(uint32_t) {}
#endif

int64_t nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

// Whether ready() came true while this thread looked.
template <class F>
bool look_for(F&& ready) {
  if (ready()) return true;
  const int64_t end = nanoseconds() + kLook;
  do {
    for (int i = 0; i < 32; ++i) {
      cpu_pause();
      if (ready()) return true;
    }
  } while (nanoseconds() < end);
  return false;
}

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>* word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

constexpr int kMaxShares = 64;

// A run of neighbouring pieces. Each thread starts with a share of its own, the same one in the next loop of this size,
// so that what it wrote is still in its cache; then it helps where pieces are left.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Job {
  void (*fn)(void*, int64_t, int64_t);
  void* context;
  int64_t n, grain, pieces;
  bool joined;  // one call may take neighbouring pieces
  uint32_t modes;
  int shares = 1;
  Share share[kMaxShares];
  // The error of the lowest piece that failed: which one is reported does not depend on timing.
  std::atomic_flag error_lock = ATOMIC_FLAG_INIT;
  int64_t error_piece = INT64_MAX;
  std::exception_ptr error;

  void run_pieces(int64_t i, int64_t count) noexcept {
    const int64_t begin = i * grain;
    try {
      fn(context, begin, n - begin < count * grain ? n : begin + count * grain);
    } catch (...) {
      while (error_lock.test_and_set(std::memory_order_acquire)) cpu_pause();
      if (i < error_piece) {
        error_piece = i;
        error = std::current_exception();
      }
      error_lock.clear(std::memory_order_release);
    }
  }
  void cut_shares(int threads) {
    shares = threads < kMaxShares ? threads : kMaxShares;
    for (int s = 0; s < shares; ++s) {
      share[s].next.store(pieces * s / shares, std::memory_order_relaxed);
      share[s].end = pieces * (s + 1) / shares;
    }
  }
  // The pieces of the thread's own share, then of the others.
  void run_available(int thread) {
    for (int k = 0; k < shares; ++k) {
      Share& s = share[(thread + k) % shares];
      int64_t i = s.next.load(std::memory_order_relaxed);
      while (i < s.end) {
        const int64_t count = joined ? (s.end - i + 1) / 2 : 1;  // half of what is left: who is late can be helped
        if (!s.next.compare_exchange_weak(i, i + count, std::memory_order_relaxed)) continue;
        run_pieces(i, count);
        i = s.next.load(std::memory_order_relaxed);
      }
    }
  }
  void run_alone() {
    const int64_t count = joined ? pieces : 1;
    for (int64_t i = 0; i < pieces; i += count) run_pieces(i, count);
  }
};

// One per process; never destroyed, since parked workers outlive main().
struct Pool {
  // The gate of the current job: open or not, whether the submitter sleeps on it, and how many workers are inside. A
  // worker reads `job` only inside.
  static constexpr uint32_t kOpen = 1u << 31, kWaiting = 1u << 30, kCount = kWaiting - 1;
  std::atomic<uint32_t> gate{0};
  std::atomic<uint32_t> epoch{0};  // one step per job; idle workers wait for it to move
  std::atomic<int> sleepers{0};
  std::atomic<int> worker_limit{0};    // workers with an index below it take part
  std::atomic<bool> abandoned{false};  // left behind by a fork: its workers do not exist in this process
  std::atomic_flag submitting = ATOMIC_FLAG_INIT;
  int started = 0;  // guarded by `submitting`
  Job* job = nullptr;

  bool enter() {
    uint32_t g = gate.load(std::memory_order_relaxed);
    while (g & kOpen)
      if (gate.compare_exchange_weak(g, g + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    return false;
  }
  void leave() {
    const uint32_t before = gate.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kWaiting) && (before & kCount) == 1) futex_wake(&gate, 1);
  }
  void start_workers(int wanted);
  void open(Job* j, int workers);
  void close();
};

constinit std::atomic<Pool*> g_pool{nullptr};
constinit std::atomic<int> g_num_threads{0};  // 0: not decided yet
constinit thread_local bool t_in_region = false;

struct RegionScope {
  ScopedValue<bool> in_region{t_in_region, true};
};

struct WorkerArgs {
  Pool* pool;
  int index;
};

void wait_for_epoch(Pool* pool, uint32_t seen) {
  if (look_for([&] { return pool->epoch.load(std::memory_order_acquire) != seen; })) return;
  pool->sleepers.fetch_add(1);
  while (pool->epoch.load() == seen) futex_wait(&pool->epoch, seen);
  pool->sleepers.fetch_sub(1);
}

void* worker_main(void* p) {
  const WorkerArgs args = *static_cast<WorkerArgs*>(p);
  delete static_cast<WorkerArgs*>(p);
  Pool* const pool = args.pool;
  t_in_region = true;
  for (uint32_t seen = 0;;) {
    // `seen` is read before the gate: a job that opens after a failed entry also moves the epoch, so none is slept
    // through.
    seen = pool->epoch.load(std::memory_order_acquire);
    if (args.index < pool->worker_limit.load(std::memory_order_relaxed) && pool->enter()) {
      Job* const job = pool->job;
      set_float_modes(job->modes);
      job->run_available(args.index + 1);
      pool->leave();
    }
    wait_for_epoch(pool, seen);
  }
  return nullptr;
}

// Runs in a forked child, where this thread is alone: forget the parent's workers; new ones start on demand.
void forget_pool() {
  Pool* const old = g_pool.exchange(nullptr);
  if (old) old->abandoned.store(true);
}

void register_fork_handler() {
  static constinit std::atomic_flag done = ATOMIC_FLAG_INIT;
  if (!done.test_and_set()) pthread_atfork(nullptr, nullptr, forget_pool);
}

Pool* pool_of_this_process() {
  Pool* p = g_pool.load(std::memory_order_acquire);
  if (p) return p;
  register_fork_handler();
  Pool* fresh = new Pool;
  if (g_pool.compare_exchange_strong(p, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return p;
}

// Fewer threads than wanted (limits of the system) only cost time.
void Pool::start_workers(int wanted) {
  if (started >= wanted) return;
  pthread_attr_t attr;
  if (pthread_attr_init(&attr) != 0) return;
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, kWorkerStack);
  sigset_t all, before;  // signals belong to the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (started < wanted) {
    auto* args = new (std::nothrow) WorkerArgs{this, started};
    pthread_t thread;
    if (!args || pthread_create(&thread, &attr, worker_main, args) != 0) {
      delete args;
      break;
    }
    ++started;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attr);
}

void Pool::open(Job* j, int workers) {
  job = j;
  worker_limit.store(workers, std::memory_order_relaxed);
  gate.store(kOpen, std::memory_order_release);
  epoch.fetch_add(1);
  if (sleepers.load() > 0) futex_wake(&epoch, started > workers ? INT_MAX : workers);
}

// No worker enters any more; returns when the last one has left.
void Pool::close() {
  uint32_t g = gate.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  look_for([&] {
    g = gate.load(std::memory_order_acquire);
    return !(g & kCount);
  });
  while ((g & kCount) && !abandoned.load(std::memory_order_relaxed)) {
    if ((g & kWaiting) || gate.compare_exchange_strong(g, g | kWaiting, std::memory_order_acquire))
      futex_wait(&gate, g | kWaiting);
    g = gate.load(std::memory_order_acquire);
  }
  gate.store(0, std::memory_order_relaxed);
  job = nullptr;
}

void run_shared(Pool* pool, Job& job, int threads) {
  const int workers = static_cast<int>(job.pieces - 1 < threads - 1 ? job.pieces - 1 : threads - 1);
  pool->start_workers(workers);
  job.cut_shares(workers + 1);
  pool->open(&job, workers);
  job.run_available(0);
  pool->close();
  pool->submitting.clear(std::memory_order_release);
  TESSERA_CHECK(!pool->abandoned.load(std::memory_order_relaxed),
                "a process that was forked inside a parallel region cannot finish the region");
}

// "4" or "4,2" (nested levels; ours have one).
int threads_from_environment() {
  const char* s = std::getenv("OMP_NUM_THREADS");
  if (!s) return 0;
  char* end = nullptr;
  const long v = std::strtol(s, &end, 10);
  while (*end == ' ') ++end;
  if (end == s || (*end != '\0' && *end != ',') || v < 1) return 0;
  return v > kMaxThreads ? kMaxThreads : static_cast<int>(v);
}

// The first sibling of a cpu's core, or the cpu itself where the system does not say.
int core_of_cpu(int cpu) {
  char path[96];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  char text[16] = {};
  int first = cpu;
  if (const int file = open(path, O_RDONLY | O_CLOEXEC); file >= 0) {
    if (read(file, text, sizeof text - 1) > 0 && text[0] >= '0' && text[0] <= '9') first = std::atoi(text);
    close(file);
  }
  return first;
}

// Cores on which this process may run, hardware threads counted once.
int physical_cores() {
  cpu_set_t allowed, cores;
  CPU_ZERO(&allowed);
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : static_cast<int>(n);
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) {
      const int core = core_of_cpu(cpu);
      CPU_SET(core >= 0 && core < CPU_SETSIZE ? core : cpu, &cores);
    }
  const int n = CPU_COUNT(&cores);
  return n < 1 ? 1 : n;
}

}  // namespace

void parallel_for_erased(int64_t n, int64_t grain, bool joined, void (*fn)(void*, int64_t, int64_t), void* context) {
  if (n <= 0) return;
  TESSERA_CHECK(grain >= 1, "parallel_for: grain must be at least 1, got ", grain);
  Job job;
  job.fn = fn;
  job.context = context;
  job.n = n;
  job.grain = grain;
  job.joined = joined;
  job.pieces = (n - 1) / grain + 1;
  job.modes = float_modes();
  {
    const bool nested = t_in_region;
    RegionScope scope;
    const int threads = nested || job.pieces == 1 ? 1 : num_threads();
    Pool* const pool = threads > 1 ? pool_of_this_process() : nullptr;
    // A second thread of the program that comes while the workers are busy does its own work alone.
    if (pool && !pool->submitting.test_and_set(std::memory_order_acquire)) {
      run_shared(pool, job, threads);
    } else {
      job.run_alone();
    }
  }
  if (job.error) std::rethrow_exception(job.error);
}

int num_threads() {
  int n = g_num_threads.load(std::memory_order_relaxed);
  if (n == 0) {
    n = threads_from_environment();
    if (n == 0) n = physical_cores();
    int expected = 0;
    if (!g_num_threads.compare_exchange_strong(expected, n)) n = expected;
  }
  return n;
}

void set_num_threads(int n) {
  TESSERA_CHECK(n >= 1, "set_num_threads expects a positive integer, got ", n);
  g_num_threads.store(n > kMaxThreads ? kMaxThreads : n, std::memory_order_relaxed);
}

bool in_parallel_region() { return t_in_region; }

}  // namespace tessera
