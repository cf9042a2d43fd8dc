#include "tensor/core/parallel.h"

#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"

namespace tessera {
namespace {

class ThreadCount {
 public:
  explicit ThreadCount(int n) : before_(num_threads()) { set_num_threads(n); }
  ~ThreadCount() { set_num_threads(before_); }

 private:
  int before_;
};

int64_t sum_of_squares(int64_t n, int64_t grain) {
  std::atomic<int64_t> sum{0};
  parallel_for(n, grain, [&](int64_t b, int64_t e) {
    int64_t s = 0;
    for (int64_t i = b; i < e; ++i) s += i * i;
    sum += s;
  });
  return sum;
}

TEST(Parallel, EveryIndexOnceAndPiecesByGrainOnly) {
  for (int threads : {1, 2, 5}) {
    ThreadCount scope(threads);
    for (int64_t n : {0, 1, 2, 7, 64, 1000, 1001}) {
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(n);
        std::atomic<int> wrong{0};
        parallel_for(n, grain, [&](int64_t b, int64_t e) {
          if (b % grain != 0 || (e != n && e != b + grain) || b >= e) ++wrong;
          for (int64_t i = b; i < e; ++i) ++hits[i];
        });
        EXPECT_EQ(wrong, 0);
        for (auto& h : hits) EXPECT_EQ(h, 1);
      }
    }
  }
}

TEST(Parallel, RangesAreWholePiecesAndOneThreadTakesAll) {
  for (int threads : {1, 2, 5}) {
    ThreadCount scope(threads);
    for (int64_t n : {1, 64, 1000, 1001}) {
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(n);
        std::atomic<int> wrong{0}, calls{0};
        parallel_ranges(n, grain, [&](int64_t b, int64_t e) {
          ++calls;
          if (b % grain != 0 || (e != n && e % grain != 0) || b >= e) ++wrong;
          for (int64_t i = b; i < e; ++i) ++hits[i];
        });
        EXPECT_EQ(wrong, 0);
        if (threads == 1) { EXPECT_EQ(calls, 1); }
        for (auto& h : hits) EXPECT_EQ(h, 1);
      }
    }
  }
}

TEST(Parallel, ManySmallRegions) {
  ThreadCount scope(4);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(sum_of_squares(16, 1), 1240);
}

TEST(Parallel, WorkersWakeAfterSleep) {
  ThreadCount scope(3);
  for (int i = 0; i < 20; ++i) {
    usleep(2000);  // long enough for the workers to park
    ASSERT_EQ(sum_of_squares(100, 1), 328350);
  }
}

TEST(Parallel, ChangingTheNumberOfThreads) {
  const int before = num_threads();
  for (int t : {4, 1, 2, 6, 3}) {
    set_num_threads(t);
    EXPECT_EQ(num_threads(), t);
    ASSERT_EQ(sum_of_squares(1000, 10), 332833500);
  }
  set_num_threads(before);
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(-3), Error);
  EXPECT_EQ(num_threads(), before);
}

TEST(Parallel, TheLowestFailingPieceIsReportedAfterAllHaveEnded) {
  for (int threads : {1, 4}) {
    ThreadCount scope(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> ran{0};
      try {
        parallel_for(64, 1, [&](int64_t b, int64_t) {
          ++ran;
          if (b >= 5 && b % 3 == 0) throw IndexError(std::to_string(b));
        });
        FAIL() << "no exception";
      } catch (const IndexError& e) { EXPECT_STREQ(e.what(), "6"); }
      EXPECT_EQ(ran, 64);
      EXPECT_FALSE(in_parallel_region());
    }
    EXPECT_EQ(sum_of_squares(16, 1), 1240);
  }
}

TEST(Parallel, NestedCallsRunInlineInOrder) {
  ThreadCount scope(4);
  std::atomic<int> wrong{0};
  EXPECT_FALSE(in_parallel_region());
  parallel_for(16, 1, [&](int64_t, int64_t) {
    if (!in_parallel_region()) ++wrong;
    const auto me = std::this_thread::get_id();
    int64_t expected = 0;
    parallel_for(10, 2, [&](int64_t b, int64_t) {
      if (std::this_thread::get_id() != me || b != expected) ++wrong;
      expected += 2;
    });
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(in_parallel_region());
}

TEST(Parallel, GrainIsChecked) {
  EXPECT_THROW(parallel_for_erased(
                   10, 0, false, [](void*, int64_t, int64_t) {}, nullptr),
               Error);
}

TEST(Parallel, SeveralThreadsOfTheProgram) {
  ThreadCount scope(3);
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (int u = 0; u < 4; ++u)
    users.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        if (sum_of_squares(100, 3) != 328350) ++wrong;
    });
  for (auto& t : users) t.join();
  EXPECT_EQ(wrong, 0);
}

int child_status(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

TEST(Parallel, SurvivesFork) {
  ThreadCount scope(4);
  ASSERT_EQ(sum_of_squares(100, 1), 328350);
  for (int i = 0; i < 10; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(30);  // a hang is a failure
      bool ok = true;
      for (int k = 0; k < 50; ++k) ok &= sum_of_squares(100, 1) == 328350;
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        alarm(30);
        _exit(sum_of_squares(100, 1) == 328350 ? 0 : 1);
      }
      _exit(ok && child_status(grandchild) == 0 && num_threads() == 4 ? 0 : 1);
    }
    ASSERT_GT(pid, 0);
    EXPECT_EQ(sum_of_squares(100, 1), 328350);  // the parent's pool is untouched
    EXPECT_EQ(child_status(pid), 0);
  }
}

TEST(Parallel, ForkWhileAnotherThreadIsInARegion) {
  ThreadCount scope(3);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) sum_of_squares(1000, 1);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(30);
      _exit(sum_of_squares(100, 1) == 328350 ? 0 : 1);
    }
    EXPECT_EQ(child_status(pid), 0);
  }
  stop = true;
  busy.join();
}

TEST(Parallel, AFunctionMayForkInsideARegion) {
  ThreadCount scope(3);
  std::atomic<int> bad{0};
  parallel_for(8, 1, [&](int64_t b, int64_t) {
    if (b % 4) return;
    const pid_t pid = fork();
    if (pid == 0) _exit(in_parallel_region() ? 0 : 1);
    if (child_status(pid) != 0) ++bad;
  });
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(sum_of_squares(100, 1), 328350);
}

#if defined(__x86_64__)
TEST(Parallel, WorkersComputeInTheCallersFloatModes) {
  ThreadCount scope(4);
  const uint32_t before = _mm_getcsr();
  for (uint32_t modes : {before | 0x8040u, before}) {  // flush to zero, denormals are zero
    _mm_setcsr(modes);
    std::atomic<int> wrong{0};
    parallel_for(64, 1, [&](int64_t, int64_t) {
      usleep(20);
      if ((_mm_getcsr() & 0x8040u) != (modes & 0x8040u)) ++wrong;
    });
    EXPECT_EQ(wrong, 0);
  }
  _mm_setcsr(before);
}
#endif

// The environment is read once per process, so each value needs a process of its own that has not asked yet: this
// program, run again.
TEST(Parallel, EnvironmentGivesTheNumberOfThreads) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  ASSERT_GT(length, 0);
  self[length] = '\0';
  const auto threads_with = [&](const char* value) {
    const pid_t pid = fork();
    if (pid == 0) {
      value ? setenv("OMP_NUM_THREADS", value, 1) : unsetenv("OMP_NUM_THREADS");
      setenv("TESSERA_PARALLEL_TEST_PRINT", "1", 1);
      execl(self, self, "--gtest_filter=Parallel.PrintForTheParent", static_cast<char*>(nullptr));
      _exit(255);
    }
    return child_status(pid);
  };
  EXPECT_EQ(threads_with("3"), 3);
  EXPECT_EQ(threads_with("7,2"), 7);
  const int cores = threads_with(nullptr);
  EXPECT_GE(cores, 1);
  for (const char* bad : {"", "0", "-2", "many", "4x"}) EXPECT_EQ(threads_with(bad), cores) << bad;
}
TEST(Parallel, PrintForTheParent) {
  if (std::getenv("TESSERA_PARALLEL_TEST_PRINT")) _exit(num_threads());
}

}  // namespace
}  // namespace tessera
