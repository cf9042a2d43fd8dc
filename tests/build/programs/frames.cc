// Exceptions through frames of all kinds: prints how many of them were caught with the values that they should find.
#include <alloca.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

namespace {

#define KEPT __attribute__((noinline, noipa))

KEPT int64_t thrown(int64_t x) {
  if (x % 2) throw std::string(64, static_cast<char>('a' + x % 26));
  return x;
}
// Registers that a caller wants back.
KEPT int64_t registers(const int64_t* x) {
  int64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[i] * thrown(x[(i * 5 + 3) % 8]) + x[7 - i];
  return sum;
}
// A stack of its own alignment, and one of a size that is not known before.
KEPT int64_t aligned(const int64_t* x) {
  alignas(64) int64_t copy[8];
  std::memcpy(copy, x, sizeof copy);
  return registers(copy) + reinterpret_cast<uintptr_t>(copy) % 64;
}
KEPT int64_t sized(const int64_t* x, int64_t n) {
  auto* copy = static_cast<int64_t*>(alloca(n * sizeof *x));
  std::memcpy(copy, x, n * sizeof *x);
  return aligned(copy) + copy[n - 1];
}
// Arguments on the stack, and what must be destroyed.
KEPT int64_t crowded(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g, int64_t h,
                     int* ended) {
  struct End {
    int* count;
    ~End() { ++*count; }
  } end{ended};
  const int64_t x[] = {a, b, c, d, e, f, g, h};
  return sized(x, 8) * (a + h);
}

int caught() {
  int right = 0, ended = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t odd = i % 4 == 0 ? 1 : 2;
    try {
      right += crowded(2, 4, 6, 8, odd * 3, 12, 14, 16, &ended) > 0;
    } catch (const std::string& what) { right += i % 4 == 0 && what == std::string(64, 'd'); }
  }
  return ended == 100 ? right : -1;
}

}  // namespace

int main() {
  int there = 0;
  std::thread([&] { there = caught(); }).join();
  std::printf("%d %d\n", caught(), there);
}
