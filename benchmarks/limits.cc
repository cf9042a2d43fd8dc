// What this machine can do at most: limits [THREADS ...] prints a JSON object {"1": {"f32": FLOP/s, "f64": ..., "bf16":
// ..., "int8": ..., "copy": bytes/s}, "2": ...}. Arithmetic: independent multiply-adds in registers (two operations
// each), with the widest instructions that there are, of operands with changing bits as real ones have, over a quarter
// of a second: wide arithmetic on such operands lowers the clock, so what a burst on zeros reaches is no limit that a
// product could hold. copy: bytes read plus bytes written, blocks far larger than caches, by the fastest of memcpy and
// loops that store past the caches and request their input ahead. `benchmarks/compare --limits FILE` reads it and
// prints the share of the limit that each workload reaches.
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

constexpr int kChains = 12;  // enough to hide the latency of two units
constexpr int64_t kSteps = 400000;
constexpr double kRoundSeconds = 0.25;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

volatile double g_sink;  // results go here, so that nothing is optimised away

// Numbers without pattern: the operands, floats and doubles in (-1, 1) or whatever the bytes mean.
template <class T>
const T* operands() {
  alignas(64) static T numbers[2048 / sizeof(T)];
  uint64_t state = 88172645463325252;
  for (T& x : numbers) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if constexpr (std::is_floating_point_v<T>)
      x = static_cast<T>(static_cast<double>(static_cast<int64_t>(state)) * 0x1p-63);
    else
      x = static_cast<T>(state >> 32);
  }
  return numbers;
}
// As bfloat16, two in a word.
const uint32_t* bfloat16_operands() {
  static uint32_t words[512];
  const float* x = operands<float>();
  for (int i = 0; i < 512; ++i) {
    uint32_t high, low;
    std::memcpy(&high, x + i, 4);
    std::memcpy(&low, x + (i + 1) % 512, 4);
    words[i] = (high & 0xffff0000) | low >> 16;
  }
  return words;
}

#define LIMITS_FMA(NAME, TARGET, T, VECTOR, LOAD, FMA, WIDTH)                                                  \
  __attribute__((target(TARGET))) int64_t NAME() {                                                             \
    const T* x = operands<T>();                                                                                \
    VECTOR acc[kChains], a[2] = {LOAD(x), LOAD(x + WIDTH)}, b[2] = {LOAD(x + 2 * WIDTH), LOAD(x + 3 * WIDTH)}; \
    for (int i = 0; i < kChains; ++i) acc[i] = LOAD(x + i * WIDTH);                                            \
    for (int64_t k = 0; k < kSteps / 2; ++k) {                                                                 \
      _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) acc[i] = FMA(acc[i], a[0], b[0]);             \
      _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) acc[i] = FMA(acc[i], a[1], b[1]);             \
      __asm__ volatile("" : "+x"(a[0]), "+x"(a[1]), "+x"(b[0]), "+x"(b[1]));                                   \
    }                                                                                                          \
    double sum = 0;                                                                                            \
    for (int i = 0; i < kChains; ++i) sum += static_cast<double>(acc[i][0]);                                   \
    g_sink = sum;                                                                                              \
    return 2 * kSteps * kChains * WIDTH;                                                                       \
  }
LIMITS_FMA(f32_avx512, "avx512f", float, __m512, _mm512_load_ps, _mm512_fmadd_ps, 16)
LIMITS_FMA(f64_avx512, "avx512f", double, __m512d, _mm512_load_pd, _mm512_fmadd_pd, 8)
LIMITS_FMA(f32_avx2, "avx2,fma", float, __m256, _mm256_load_ps, _mm256_fmadd_ps, 8)
LIMITS_FMA(f64_avx2, "avx2,fma", double, __m256d, _mm256_load_pd, _mm256_fmadd_pd, 4)
#undef LIMITS_FMA

__attribute__((target("avx512f,avx512bf16"))) int64_t bf16_avx512() {
  __m512 acc[kChains];
  for (auto& v : acc) v = _mm512_setzero_ps();
  const uint32_t* x = bfloat16_operands();
  __m512bh a = (__m512bh)_mm512_loadu_si512(x), b = (__m512bh)_mm512_loadu_si512(x + 16);
  for (int64_t k = 0; k < kSteps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
    __asm__ volatile("" : "+x"(a), "+x"(b));
  }
  float sum = 0;
  for (auto& v : acc) sum += v[0];
  g_sink = sum;
  return 2 * kSteps * kChains * 32;
}

__attribute__((target("avx512f,avx512vnni"))) int64_t int8_avx512() {
  __m512i acc[kChains];
  for (auto& v : acc) v = _mm512_setzero_si512();
  const uint8_t* x = operands<uint8_t>();
  __m512i a = _mm512_load_si512(x), b = _mm512_load_si512(x + 64);
  for (int64_t k = 0; k < kSteps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
    __asm__ volatile("" : "+x"(a), "+x"(b));
  }
  int64_t sum = 0;
  for (auto& v : acc) sum += v[0];
  g_sink = static_cast<double>(sum);
  return 2 * kSteps * kChains * 64;
}

// Four accumulators, two tiles of each operand: the usual block of a matrix product.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t columns[16] = {};
  uint8_t rows[16] = {};
};
template <bool kInt8>
__attribute__((target("amx-tile,amx-bf16,amx-int8"))) int64_t tiles() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.columns[i] = 64, config.rows[i] = 16;
  __asm__ volatile("" : : "r"(&config) : "memory");  // the intrinsic does not tell the compiler that it reads all of it
  _tile_loadconfig(&config);
  const uint8_t* x = kInt8 ? operands<uint8_t>() : reinterpret_cast<const uint8_t*>(bfloat16_operands());
  _tile_loadd(4, x, 64);
  _tile_loadd(5, x + 256, 64);
  _tile_loadd(6, x + 512, 64);
  _tile_loadd(7, x + 768, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t k = 0; k < kSteps / 8; ++k) {
    if constexpr (kInt8) {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    } else {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_release();
  return kSteps / 8 * 4 * 2 * 16 * 16 * (kInt8 ? 64 : 32);
}

bool tiles_allowed() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool has_flag(const char* flag) {  // as the kernel lists them
  static const std::vector<char> text = [] {
    std::vector<char> all;
    if (FILE* f = std::fopen("/proc/cpuinfo", "r")) {
      char line[8192];
      while (std::fgets(line, sizeof line, f)) {
        if (std::strncmp(line, "flags", 5) != 0) continue;
        all.assign(line, line + std::strlen(line));
        break;
      }
      std::fclose(f);
    }
    for (char& c : all)
      if (c == '\n') c = ' ';
    all.push_back('\0');
    return all;
  }();
  char word[64];
  std::snprintf(word, sizeof word, " %s ", flag);
  return std::strstr(text.data(), word) != nullptr;
}

// Calls `work` for kRoundSeconds: operations per second.
double rate_of(int64_t (*work)()) {
  const double start = seconds();
  int64_t done = 0;
  double now = start;
  for (; now < start + kRoundSeconds; now = seconds()) done += work();
  return static_cast<double>(done) / (now - start);
}

// The best rate of a few rounds of all threads together.
double best_rate(int threads, int64_t (*work)()) {
  double best = 0;
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> others;
    std::vector<double> rates(static_cast<size_t>(threads));
    for (int i = 1; i < threads; ++i)
      others.emplace_back([work, &rates, i] { rates[static_cast<size_t>(i)] = rate_of(work); });
    rates[0] = rate_of(work);
    for (auto& t : others) t.join();
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  return best;
}

// Lines of 64 bytes past the caches; lines of the source are requested `kAhead` bytes before they are read.
#define LIMITS_COPY(NAME, TARGET, VECTOR, LOAD, STREAM)                                                     \
  template <int kAhead>                                                                                     \
  __attribute__((target(TARGET))) void NAME(char* to, const char* from, size_t bytes) {                     \
    for (size_t i = 0; i < bytes; i += 64) {                                                                \
      if (kAhead) _mm_prefetch(from + i + kAhead, _MM_HINT_T0);                                             \
      for (size_t k = 0; k < 64; k += sizeof(VECTOR))                                                       \
        STREAM(reinterpret_cast<VECTOR*>(to + i + k), LOAD(reinterpret_cast<const VECTOR*>(from + i + k))); \
    }                                                                                                       \
    _mm_sfence();                                                                                           \
  }
LIMITS_COPY(copy_sse2, "sse2", __m128i, _mm_load_si128, _mm_stream_si128)
LIMITS_COPY(copy_avx512, "avx512f", __m512i, _mm512_load_si512, _mm512_stream_si512)
#undef LIMITS_COPY
void copy_plainly(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }

double copy_rate(int threads) {
  constexpr size_t kBytes = 256 << 20;
  auto block = [] {
    void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, kBytes, MADV_HUGEPAGE);
    std::memset(p, 1, kBytes);
    return static_cast<char*>(p);
  };
  char *from = block(), *to = block();
  double best = 0;
  std::vector<void (*)(char*, const char*, size_t)> copies = {copy_plainly, copy_sse2<0>, copy_sse2<2048>};
  if (has_flag("avx512f")) copies.insert(copies.end(), {copy_avx512<0>, copy_avx512<2048>, copy_avx512<4096>});
  for (auto* copy : copies) {
    for (int round = 0; round < 5; ++round) {
      std::vector<std::thread> others;
      const size_t part = kBytes / static_cast<size_t>(threads) / 4096 * 4096;
      const double start = seconds();
      for (int i = 1; i < threads; ++i)
        others.emplace_back(
            [=] { copy(to + static_cast<size_t>(i) * part, from + static_cast<size_t>(i) * part, part); });
      copy(to, from, part);
      for (auto& t : others) t.join();
      best = std::max(best, 2.0 * static_cast<double>(part) * threads / (seconds() - start));
    }
  }
  munmap(from, kBytes);
  munmap(to, kBytes);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::max(1, std::atoi(argv[i])));
  if (counts.empty()) counts = {1, 2};
  const bool wide = has_flag("avx512f"), amx = has_flag("amx_bf16") && has_flag("amx_int8") && tiles_allowed();
  std::printf("{");
  for (size_t i = 0; i < counts.size(); ++i) {
    const int n = counts[i];
    std::printf("%s\"%d\": {\"f32\": %.4g, \"f64\": %.4g", i ? ", " : "", n, best_rate(n, wide ? f32_avx512 : f32_avx2),
                best_rate(n, wide ? f64_avx512 : f64_avx2));
    if (amx || has_flag("avx512_bf16")) std::printf(", \"bf16\": %.4g", best_rate(n, amx ? tiles<false> : bf16_avx512));
    if (amx || has_flag("avx512_vnni")) std::printf(", \"int8\": %.4g", best_rate(n, amx ? tiles<true> : int8_avx512));
    std::printf(", \"copy\": %.4g}", copy_rate(n));
  }
  std::printf("}\n");
}
