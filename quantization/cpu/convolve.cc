#include "quantization/cpu/convolve.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_int8.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

void copy(uint8_t* to, const uint8_t* from, int64_t n) {
  for (; n >= 16; n -= 16, to += 16, from += 16) std::memcpy(to, from, 16);
  for (; n > 0; --n) *to++ = *from++;
}

struct Position {
  int64_t image, first[3];  // where its window begins, before padding is taken off
};
Position position_of(const ByteConv& c, int64_t i) {
  Position p;
  for (int d = 2; d >= 0; --d) {
    p.first[d] = i % c.out_size[d] * c.stride[d] - c.padding[d];
    i /= c.out_size[d];
  }
  p.image = i;
  return p;
}

// The lines of a window: taps along the last dimension.
struct Line {
  int64_t z, y, from;  // from where the window begins; in bytes of x
};
std::vector<Line> lines_of(const ByteConv& c) {
  std::vector<Line> lines;
  for (int64_t z = 0; z < c.kernel[0]; ++z)
    for (int64_t y = 0; y < c.kernel[1]; ++y) {
      const int64_t dz = z * c.dilation[0], dy = y * c.dilation[1];
      lines.push_back({dz, dy, (dz * c.in_size[1] + dy) * c.in_size[2] * c.in_channels});
    }
  return lines;
}

class Windows {
 public:
  Windows(const ByteConv& c, int64_t group)
      : c_(c), lines_(lines_of(c)), channels_(c.in_channels / c.groups), bytes_(c.kernel[2] * channels_) {
    x_ = c.x + group * channels_;
  }

  // Bytes [begin, end) of what position i reads.
  void read(int64_t i, int64_t begin, int64_t end, uint8_t* to) const {
    const Position p = position_of(c_, i);
    const int64_t width = (c_.kernel[2] - 1) * c_.dilation[2] + 1;
    const bool whole =
        p.first[2] >= 0 && p.first[2] + width <= c_.in_size[2] && channels_ * width == bytes_ && c_.groups == 1;
    const int64_t at =
        ((p.image * c_.in_size[0] + p.first[0]) * c_.in_size[1] + p.first[1]) * c_.in_size[2] * c_.in_channels;
    for (int64_t l = begin / bytes_; l * bytes_ < end; ++l) {
      const Line& line = lines_[static_cast<size_t>(l)];
      const int64_t z = p.first[0] + line.z, y = p.first[1] + line.y;
      const bool inside = z >= 0 && z < c_.in_size[0] && y >= 0 && y < c_.in_size[1];
      const int64_t b = std::max<int64_t>(0, begin - l * bytes_), n = std::min(bytes_, end - l * bytes_) - b;
      if (!inside)
        std::memset(to, c_.fill, static_cast<size_t>(n));
      else if (whole)
        copy(to, x_ + at + line.from + p.first[2] * c_.in_channels + b, n);
      else
        taps(x_ + at + line.from, p.first[2], b, b + n, to);
      to += n;
    }
  }

 private:
  // Bytes [begin, end) of the taps of a line, in a row of x.
  void taps(const uint8_t* row, int64_t first, int64_t begin, int64_t end, uint8_t* to) const {
    while (begin < end) {
      const int64_t tap = begin / channels_, at = first + tap * c_.dilation[2];
      const int64_t stop = std::min(end, (tap + 1) * channels_), n = stop - begin;
      if (at >= 0 && at < c_.in_size[2])
        copy(to, row + at * c_.in_channels + (begin - tap * channels_), n);
      else
        std::memset(to, c_.fill, static_cast<size_t>(n));
      to += n;
      begin = stop;
    }
  }

  const ByteConv& c_;
  const std::vector<Line> lines_;
  const int64_t channels_, bytes_;  // of a group; of a line
  const uint8_t* x_;
};

// A group on its way through the product.
struct Work {
  const ByteConv& c;
  const Windows& windows;
  SumsOf how;  // of the group
  DType dtype;
  char* out;
};

void pack(const void* context, int64_t i, int64_t rows, int64_t p, int64_t depth, void* panel) {
  const Work& w = *static_cast<const Work*>(context);
  const internal::ScratchArray<uint8_t> lines(rows * depth);
  for (int64_t r = 0; r < rows; ++r) w.windows.read(i + r, p, p + depth, lines.get() + r * depth);
  internal::pack_panel_a(1, lines.get(), depth, 1, rows, depth, internal::int8_flip(w.c.is_unsigned), panel);
}

void write(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums) {
  const Work& w = *static_cast<const Work*>(context);
  SumsOf s = w.how;
  s.sums = static_cast<const int32_t*>(sums);
  s.sums_row = internal::kPanelLines;
  s.rows = rows;
  s.columns = cols;
  s.from_column(j);
  requantize_block(s, w.dtype, w.out + (i * s.out_row + j) * item_size(w.dtype));
}

}  // namespace

bool convolve_bytes(const ByteConv& c, const SumsOf& how, DType dtype, void* out) {
  if (internal::int8_panel_level() == internal::PanelLevel::kNone) return false;
  const int64_t columns = c.out_channels / c.groups, k = c.depth();
  const bool matrix = c.taps() == 1 && c.positions() == c.batch * c.in_size[0] * c.in_size[1] * c.in_size[2] &&
                      std::ranges::all_of(c.padding, [](int64_t p) { return p == 0; });
  for (int64_t g = 0; g < c.groups; ++g) {
    const Windows windows(c, g);
    Work w{c, windows, how, dtype, static_cast<char*>(out) + g * columns * item_size(dtype)};
    w.how.out_row = c.out_channels;
    w.how.from_column(g * columns);
    const auto* first = c.x + g * k;
    internal::Int8Sums sums{c.positions(), columns, k, c.is_unsigned, {}, {}, write, &w, nullptr};
    if (matrix)
      sums.a = {const_cast<uint8_t*>(first), c.in_channels, 1};
    else
      sums.pack_a = pack;
    sums.b = {const_cast<int8_t*>(c.w + g * columns * k), 1, k};
    internal::int8_sums(sums);
  }
  return true;
}

void bytes_read(const ByteConv& c, int64_t group, uint8_t* rows) {
  const Windows windows(c, group);
  const int64_t k = c.depth();
  parallel_ranges(c.positions(), std::max<int64_t>(1, 65536 / std::max<int64_t>(1, k)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) windows.read(i, 0, k, rows + i * k);
                  });
}

}  // namespace tessera::cpu
