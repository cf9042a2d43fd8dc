// The kernels for AMX, and the choice of a level.
#include "tensor/cpu/gemm/gemm_amx.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tensor/cpu/gemm/gemm_amx_beside.h"
#include "tensor/cpu/support/simd.h"

namespace tessera::cpu::internal {
namespace {

// ---- The choice ----

struct Features {
  bool tiles, tiles_bf16, tiles_int8, avx512_bf16, avx512_vnni, intel;
};

bool is_intel() {
  unsigned a, b, c, d;
  char vendor[12];
  if (!__get_cpuid(0, &a, &b, &c, &d)) return false;
  const unsigned parts[] = {b, d, c};
  std::memcpy(vendor, parts, sizeof vendor);
  return std::memcmp(vendor, "GenuineIntel", sizeof vendor) == 0;
}

// The system call by which Linux lets a process use the tile registers; it fails where the CPU or the kernel has none.
bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Features find_features() {
  Features f{};
  if (simd_level() != SimdLevel::kAvx3) return f;
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    f.avx512_vnni = c >> 11 & 1;
    const char* wanted = std::getenv("TESSERA_SIMD");
    const bool allowed = !wanted || std::strcmp(wanted, "avx3") != 0;
    f.tiles = allowed && (d >> 24 & 1) && ask_for_tiles();
    f.tiles_bf16 = f.tiles && (d >> 22 & 1);
    f.tiles_int8 = f.tiles && (d >> 25 & 1);
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avx512_bf16 = a >> 5 & 1;
  f.intel = is_intel();
  return f;
}
const Features& features() {
  static const Features f = find_features();
  return f;
}

// ---- Tiles ----
// 0 to 3: the sums of 2 x 2 tiles, 4 and 5: 2 x 16 rows of A, 6 and 7: 2 x 16 columns of B. All have 16 rows of 64
// bytes.

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTiles;

thread_local int t_scopes = 0;

__attribute__((target("amx-tile"))) void configure_tiles() { _tile_loadconfig(&kTiles); }
__attribute__((target("amx-tile"))) void release_tiles() { _tile_release(); }

enum class Kind { kBf16, kSigned, kUnsigned };  // elements of A

// Sum tile kSum plus the product of its tiles of A and B. (The compiler's intrinsics want tile numbers spelled out.)
template <Kind kKind, int kSum>
__attribute__((always_inline)) inline void multiply() {
  if constexpr (kKind == Kind::kBf16) {
    if constexpr (kSum == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (kSum == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kSum == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kSum == 3) _tile_dpbf16ps(3, 5, 7);
  } else if constexpr (kKind == Kind::kUnsigned) {
    if constexpr (kSum == 0) _tile_dpbusd(0, 4, 6);
    if constexpr (kSum == 1) _tile_dpbusd(1, 4, 7);
    if constexpr (kSum == 2) _tile_dpbusd(2, 5, 6);
    if constexpr (kSum == 3) _tile_dpbusd(3, 5, 7);
  } else {
    if constexpr (kSum == 0) _tile_dpbssd(0, 4, 6);
    if constexpr (kSum == 1) _tile_dpbssd(1, 4, 7);
    if constexpr (kSum == 2) _tile_dpbssd(2, 5, 6);
    if constexpr (kSum == 3) _tile_dpbssd(3, 5, 7);
  }
}

// Loads a tile; kPasses: with the hint that leaves L1 to what is there.
template <bool kPasses, int kTile>
__attribute__((always_inline)) inline void load(const char* from, int64_t row) {
  if constexpr (kPasses) {
    if constexpr (kTile == 0) _tile_stream_loadd(0, from, row);
    if constexpr (kTile == 1) _tile_stream_loadd(1, from, row);
    if constexpr (kTile == 2) _tile_stream_loadd(2, from, row);
    if constexpr (kTile == 3) _tile_stream_loadd(3, from, row);
    if constexpr (kTile == 6) _tile_stream_loadd(6, from, row);
    if constexpr (kTile == 7) _tile_stream_loadd(7, from, row);
  } else {
    if constexpr (kTile == 0) _tile_loadd(0, from, row);
    if constexpr (kTile == 1) _tile_loadd(1, from, row);
    if constexpr (kTile == 2) _tile_loadd(2, from, row);
    if constexpr (kTile == 3) _tile_loadd(3, from, row);
    if constexpr (kTile == 6) _tile_loadd(6, from, row);
    if constexpr (kTile == 7) _tile_loadd(7, from, row);
  }
}

// kBeside: with other work, and the sums and panels of B pass by while the panel of A stays in L1. Tile registers are
// few, so that the processor does not look far ahead: other work overlaps with the products only if it stands between
// them.
template <Kind kKind, bool kBeside, int kRowTiles, int kColTiles>
void tiles_block(int64_t steps, const char* a, const char* b, char* c, int64_t c_row, bool accumulate,
                 const Beside* beside) {
  char* const c2 = c + 16 * c_row;
  if (accumulate) {
    load<kBeside, 0>(c, c_row);
    if constexpr (kColTiles == 2) load<kBeside, 1>(c + 64, c_row);
    if constexpr (kRowTiles == 2) load<kBeside, 2>(c2, c_row);
    if constexpr (kRowTiles == 2 && kColTiles == 2) load<kBeside, 3>(c2 + 64, c_row);
  } else {
    _tile_zero(0);
    if constexpr (kColTiles == 2) _tile_zero(1);
    if constexpr (kRowTiles == 2) _tile_zero(2);
    if constexpr (kRowTiles == 2 && kColTiles == 2) _tile_zero(3);
  }
  for (int64_t p = 0; p < steps; ++p, a += kPanelStepBytes, b += kPanelStepBytes) {
    _tile_loadd(4, a, 64);
    load<kBeside, 6>(b, 64);
    multiply<kKind, 0>();
    if constexpr (kColTiles == 2) {
      load<kBeside, 7>(b + 1024, 64);
      multiply<kKind, 1>();
    }
    if constexpr (kBeside) {
      if ((p + 1) % kBesideSteps == 0) beside->run(beside->context);
    }
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, a + 1024, 64);
      multiply<kKind, 2>();
      if constexpr (kColTiles == 2) multiply<kKind, 3>();
    }
  }
  _tile_stored(0, c, c_row);
  if constexpr (kColTiles == 2) _tile_stored(1, c + 64, c_row);
  if constexpr (kRowTiles == 2) _tile_stored(2, c2, c_row);
  if constexpr (kRowTiles == 2 && kColTiles == 2) _tile_stored(3, c2 + 64, c_row);
}

// Panels of gemm_f16.cc: upper parts with upper parts, upper parts of A with rests, rests with rests, rests of A with
// upper parts.
template <int kRowTiles>
void split_tiles(int64_t steps, const char* a, const char* b, char* c, int64_t c_row, bool accumulate) {
  constexpr Kind kKind = Kind::kBf16;
  char* const c2 = c + 16 * c_row;
  if (accumulate) {
    load<false, 0>(c, c_row);
    load<false, 1>(c + 64, c_row);
    if constexpr (kRowTiles == 2) load<false, 2>(c2, c_row);
    if constexpr (kRowTiles == 2) load<false, 3>(c2 + 64, c_row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kRowTiles == 2) _tile_zero(2);
    if constexpr (kRowTiles == 2) _tile_zero(3);
  }
  const auto rows_times =
      [](const char* part) __attribute__((always_inline)) {  // tiles of A with those of B that are there
    _tile_loadd(4, part, 64);
    multiply<kKind, 0>();
    multiply<kKind, 1>();
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, part + 1024, 64);
      multiply<kKind, 2>();
      multiply<kKind, 3>();
    }
  };
  const auto times_cols = [](const char* part) __attribute__((always_inline)) {
    load<false, 6>(part, 64);
    multiply<kKind, 0>();
    if constexpr (kRowTiles == 2) multiply<kKind, 2>();
    load<false, 7>(part + 1024, 64);
    multiply<kKind, 1>();
    if constexpr (kRowTiles == 2) multiply<kKind, 3>();
  };
  for (int64_t p = 0; p < steps; ++p, a += 2 * kPanelStepBytes, b += 2 * kPanelStepBytes) {
    load<false, 6>(b, 64);
    load<false, 7>(b + 1024, 64);
    rows_times(a);
    times_cols(b + kPanelStepBytes);
    rows_times(a + kPanelStepBytes);
    times_cols(b);
  }
  _tile_stored(0, c, c_row);
  _tile_stored(1, c + 64, c_row);
  if constexpr (kRowTiles == 2) _tile_stored(2, c2, c_row);
  if constexpr (kRowTiles == 2) _tile_stored(3, c2 + 64, c_row);
}

template <Kind kKind, bool kBeside>
void any_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c, int64_t c_row,
               bool accumulate, const Beside* beside) {
  const auto run = rows > 16 ? (cols > 16 ? tiles_block<kKind, kBeside, 2, 2> : tiles_block<kKind, kBeside, 2, 1>)
                             : (cols > 16 ? tiles_block<kKind, kBeside, 1, 2> : tiles_block<kKind, kBeside, 1, 1>);
  run(steps, static_cast<const char*>(a), static_cast<const char*>(b), static_cast<char*>(c), 4 * c_row, accumulate,
      beside);
}
template <Kind kKind>
void amx_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c, int64_t c_row,
               bool accumulate) {
  any_block<kKind, false>(steps, a, b, rows, cols, c, c_row, accumulate, nullptr);
}

}  // namespace

void split_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t, void* c, int64_t c_row,
                 bool accumulate) {
  const auto run = rows > 16 ? split_tiles<2> : split_tiles<1>;
  run(steps, static_cast<const char*>(a), static_cast<const char*>(b), static_cast<char*>(c), 4 * c_row, accumulate);
}

// gemm_amx_dot.cc
void bf16_dot_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c, int64_t c_row,
                    bool accumulate);
void int8_dot_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c, int64_t c_row,
                    bool accumulate);
void uint8_dot_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c, int64_t c_row,
                     bool accumulate);

namespace {

// Which instruction multiplies bfloat16, for matrix products, convolutions and attention alike: the first line that
// fits. Rates are products of two numbers in a cycle of a core.
struct Bf16Choice {
  PanelLevel level;
  bool (*fits)(const Features&);
};
constexpr Bf16Choice kBf16Choices[] = {
    // 1024. (Sums are rounded to bfloat16 by AVX512_BF16, which all processors with AMX have.)
    {PanelLevel::kAmx, [](const Features& f) { return f.tiles_bf16 && f.avx512_bf16; }},
    // 32 on AMD's, whose vectors of float32 do 16.
    {PanelLevel::kAvx512, [](const Features& f) { return f.avx512_bf16 && !f.intel; }},
    // Intel's do 16, and 32 in float32 (AMX is for bfloat16 there, but a virtual machine may hide it). AVX2 has no such
    // instruction. So numbers are widened as operands are packed, and multiplied as float32.
    {PanelLevel::kNone, [](const Features&) { return true; }},
};

}  // namespace

PanelLevel bf16_panel_level() {
  for (const Bf16Choice& choice : kBf16Choices)
    if (choice.fits(features())) return choice.level;
  return PanelLevel::kNone;
}
PanelLevel int8_panel_level() {
  const Features& f = features();
  return f.tiles_int8 ? PanelLevel::kAmx : f.avx512_vnni ? PanelLevel::kAvx512 : PanelLevel::kNone;
}
PanelBlock bf16_panel_block(PanelLevel level) {
  return level == PanelLevel::kAmx ? amx_block<Kind::kBf16> : bf16_dot_block;
}
PanelBlock int8_panel_block(PanelLevel level, bool unsigned_a) {
  if (level == PanelLevel::kAmx) return unsigned_a ? amx_block<Kind::kUnsigned> : amx_block<Kind::kSigned>;
  return unsigned_a ? uint8_dot_block : int8_dot_block;
}

BlockBeside block_beside(PanelBlock block) {
  if (block == amx_block<Kind::kBf16>) return any_block<Kind::kBf16, true>;
  if (block == amx_block<Kind::kSigned>) return any_block<Kind::kSigned, true>;
  return block == amx_block<Kind::kUnsigned> ? any_block<Kind::kUnsigned, true> : nullptr;
}

TileScope::TileScope(PanelLevel level) : active_(level == PanelLevel::kAmx) {
  if (active_ && t_scopes++ == 0) configure_tiles();
}
TileScope::~TileScope() {
  if (active_ && --t_scopes == 0) release_tiles();
}

}  // namespace tessera::cpu::internal
