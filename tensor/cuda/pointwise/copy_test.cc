// Copies, conversions and fills of a device against the CPU's.
#include <algorithm>
#include <memory>

#include "tensor/core/error.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {
using namespace testing;

class Copy : public DeviceTest {};

// The same call on both devices; all of the destination's memory is compared.
void compare(const std::vector<int64_t>& shape, DType to, const std::vector<int64_t>& to_strides, int64_t to_elements,
             DType from, const std::vector<int64_t>& from_strides, std::vector<uint8_t> source, bool conj = false,
             bool neg = false, int64_t from_offset = 0) {
  Mirror src(std::move(source)), dst(std::vector<uint8_t>(static_cast<size_t>(to_elements * item_size(to)), 0));
  cpu::copy_strided(shape, {dst.host(), to, to_strides.data()},
                    {src.host_as<char>() + from_offset, from, from_strides.data()}, conj, neg);
  cuda::copy_strided(shape, {dst.device(), to, to_strides.data()},
                     {src.device_as<char>() + from_offset, from, from_strides.data()}, conj, neg);
  std::string what =
      std::string(name_of(from)) + " -> " + name_of(to) + (conj ? ", conj" : "") + (neg ? ", neg" : "") + ", shape";
  for (int64_t s : shape) what += " " + std::to_string(s);
  expect_same(to, dst.host_bytes(), dst.device_bytes(), what);
}

// Parts of any length and alignment, more of them than a launch takes.
TEST_F(Copy, JoinedRows) {
  for (const int64_t rows : {1, 3, 40})
    for (const int64_t unit : {1, 2, 4, 8, 16})
      for (const int count : {1, 5, 130, 300}) {
        int64_t row_bytes = 0;
        std::vector<std::unique_ptr<Mirror>> sources;
        std::vector<JoinedPart> parts;
        for (int i = 0; i < count; ++i) {
          const int64_t bytes = unit * (i % 7);
          sources.push_back(std::make_unique<Mirror>(random_elements(DType::kUInt8, rows * bytes, 3 + i, 0, 255)));
          parts.push_back({sources.back()->device(), bytes});
          row_bytes += bytes;
        }
        std::vector<uint8_t> expected;
        for (int64_t r = 0; r < rows; ++r)
          for (int i = 0; i < count; ++i) {
            const uint8_t* const from = sources[static_cast<size_t>(i)]->host_bytes().data() + r * parts[i].bytes;
            expected.insert(expected.end(), from, from + parts[i].bytes);
          }
        const DeviceBytes out(static_cast<size_t>(rows * row_bytes));
        cuda::join_rows(rows, parts, out.get());
        ASSERT_EQ(out.read(), expected) << rows << " rows, unit " << unit << ", " << count << " parts";
      }
}
TEST_F(Copy, ElementsThatAreNoProbabilities) {
  for (const double wrong : {-0.1, 1.5, static_cast<double>(NAN)})
    for (const DType t : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
      std::vector<uint8_t> x = random_elements(t, 300, 1, 0, 1);
      const DeviceBytes good(x), bad(with_value(x, t, 299, wrong));
      cuda::check_elements(t, 300, good.get(), ElementCheck::kProbabilities);
      synchronize_stream();
      cuda::check_elements(t, 300, bad.get(), ElementCheck::kProbabilities);
      EXPECT_THROW(synchronize_stream(), Error);
    }
}

constexpr int kLastFloat8 = static_cast<int>(DType::kFloat8_e8m0fnu);

TEST_F(Copy, EveryPairOfDtypes) {
  for (int f = 0; f <= kLastFloat8; ++f) {
    const DType from = static_cast<DType>(f);
    std::vector<uint8_t> data = random_elements(from, 300, 5, 0, 100);
    if (is_signed(from) || is_complex(from)) {
      const std::vector<uint8_t> signs = random_elements(from, 100, 6, -100, 100);
      std::ranges::copy(signs, data.begin());
    }
    for (int t = 0; t <= kLastFloat8; ++t) {
      const DType to = static_cast<DType>(t);
      for (const int64_t n : {1, 300}) compare({n}, to, {item_size(to)}, 300, from, {item_size(from)}, data);
      compare({100}, to, {2 * item_size(to)}, 300, from, {3 * item_size(from)}, data);
    }
  }
}

// Integers to floats side by side: lengths and addresses with and without whole vectors; bytes of bool that are neither
// 0 nor 1.
TEST_F(Copy, DenseIntegersToFloats) {
  for (const DType from : {DType::kBool, DType::kUInt8, DType::kInt32, DType::kInt64}) {
    std::vector<uint8_t> data = random_elements(from == DType::kBool ? DType::kUInt8 : from, 3001, 7, 0, 250);
    for (const DType to : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16})
      for (const int64_t n : {1, 5, 2999})
        for (const int64_t offset : {0, 1})
          compare({n}, to, {item_size(to)}, n, from, {item_size(from)}, data, false, false, offset * item_size(from));
  }
}

// Infinities, nan, zeros, numbers that round, overflow and underflow.
TEST_F(Copy, EdgesOfFloats) {
  std::vector<double> numbers = {0.0,   -0.0,  INFINITY, -INFINITY, NAN,   1e300,  -1e300, 65504,
                                 65519, 65520, 3.4e38,   3.5e38,    1e-40, 1e-45,  448,    464,
                                 480,   57344, 61440,    240,       6e-8,  2.9e-8, 1e-8};
  for (int i = 0; i < 400; ++i) numbers.push_back(std::ldexp(1.0 + i / 400.0, i % 60 - 30));
  const int64_t n = static_cast<int64_t>(numbers.size());
  for (int f = static_cast<int>(DType::kFloat16); f <= kLastFloat8; ++f) {
    const DType from = static_cast<DType>(f);
    std::vector<uint8_t> data(numbers.size() * static_cast<size_t>(item_size(from)));
    for (int64_t i = 0; i < n; ++i) data = with_value(std::move(data), from, i, numbers[static_cast<size_t>(i)]);
    for (int t = static_cast<int>(DType::kFloat16); t <= kLastFloat8; ++t) {
      const DType to = static_cast<DType>(t);
      compare({n}, to, {item_size(to)}, n, from, {item_size(from)}, data);
    }
    compare({n}, DType::kBool, {1}, n, from, {item_size(from)}, data);
  }
}

TEST_F(Copy, EveryFloat8) {
  std::vector<uint8_t> codes(256);
  for (int i = 0; i < 256; ++i) codes[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  for (int f = static_cast<int>(DType::kFloat8_e4m3fn); f <= kLastFloat8; ++f) {
    for (const DType to : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kComplex64, DType::kFloat8_e5m2})
      compare({256}, to, {item_size(to)}, 256, static_cast<DType>(f), {1}, codes);
  }
}

TEST_F(Copy, LargeIntegers) {
  const std::vector<uint64_t> numbers = {0,
                                         1,
                                         ~uint64_t{0},
                                         uint64_t{1} << 63,
                                         (uint64_t{1} << 63) - 1,
                                         (uint64_t{1} << 53) + 1,
                                         0x80000000u,
                                         0xffffffffu,
                                         0x7fffffffu,
                                         16777217,
                                         255,
                                         256,
                                         32768};
  const int64_t n = static_cast<int64_t>(numbers.size());
  std::vector<uint8_t> data(numbers.size() * 8);
  std::memcpy(data.data(), numbers.data(), data.size());
  for (const DType from : {DType::kInt64, DType::kUInt64}) {
    for (int t = 0; t < kNumComputeDTypes; ++t)
      compare({n}, static_cast<DType>(t), {item_size(static_cast<DType>(t))}, n, from, {8}, data);
  }
}

TEST_F(Copy, SignsAndConjugates) {
  for (int f = 0; f <= kLastFloat8; ++f) {
    const DType from = static_cast<DType>(f);
    if (from == DType::kBool) continue;
    const std::vector<uint8_t> data = random_elements(from, 77, 5);
    for (const bool conj : {false, true}) {
      for (const bool neg : {false, true}) {
        compare({77}, from, {item_size(from)}, 77, from, {item_size(from)}, data, conj, neg);
        compare({7, 11}, from, {item_size(from), 7 * item_size(from)}, 77, from,
                {11 * item_size(from), item_size(from)}, data, conj, neg);
        const DType other = is_complex(from) ? DType::kComplex128 : DType::kFloat64;
        compare({77}, other, {item_size(other)}, 77, from, {item_size(from)}, data, conj, neg);
      }
    }
  }
}

TEST_F(Copy, Transposes) {
  for (const DType t : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    const int64_t s = item_size(t);
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{32, 32}, {33, 65}, {8, 200}, {100, 9}, {1, 50}, {50, 1}}) {
      const std::vector<uint8_t> data = random_elements(t, 3 * rows * columns, 9);
      compare({rows, columns}, t, {columns * s, s}, rows * columns, t, {s, rows * s}, data);
      compare({3, rows, columns}, t, {rows * columns * s, columns * s, s}, 3 * rows * columns, t,
              {rows * columns * s, s, rows * s}, data);
      compare({rows, 3, columns}, t, {3 * columns * s, columns * s, s}, 3 * rows * columns, t,
              {s, rows * s, 3 * rows * s}, data);
    }
  }
}

TEST_F(Copy, SlicesRepetitionsAndNothing) {
  for (const DType t : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    const int64_t s = item_size(t);
    const std::vector<uint8_t> data = random_elements(t, 2000, 4);
    compare({10, 16}, t, {16 * s, s}, 160, t, {40 * s, s}, data);                   // rows of a wider matrix
    compare({10, 15}, t, {15 * s, s}, 160, t, {40 * s, s}, data, false, false, s);  // not aligned
    compare({10, 16}, t, {32 * s, 2 * s}, 330, t, {16 * s, s}, data);               // with gaps
    compare({10, 16}, t, {16 * s, s}, 160, t, {0, s}, data);                        // one row for all
    compare({10, 16}, t, {16 * s, s}, 160, t, {s, 0}, data);                        // one element per row
    compare({3, 0, 4}, t, {4 * s, 4 * s, s}, 5, t, {4 * s, 4 * s, s}, data);
    compare({}, t, {}, 1, t, {}, data);
    compare({1999}, t, {s}, 2000, t, {s}, data, false, false, s);
  }
}

TEST_F(Copy, FromAHostNumber) {
  const std::vector<int64_t> shape = {3, 7}, strides = {28, 4}, zeros = {0, 0};
  const double number = 2.75;
  const std::complex<double> z(1, 2);
  Mirror dst(std::vector<uint8_t>(84, 0));
  cpu::copy_strided(shape, {dst.host(), DType::kFloat32, strides.data()},
                    {const_cast<double*>(&number), DType::kFloat64, zeros.data()});
  cuda::copy_strided(shape, {dst.device(), DType::kFloat32, strides.data()},
                     {const_cast<double*>(&number), DType::kFloat64, zeros.data(), true});
  expect_same(DType::kFloat32, dst.host_bytes(), dst.device_bytes());
  Mirror complex(std::vector<uint8_t>(32, 0));
  const int64_t n = 2, stride = 16, zero = 0;
  cpu::copy_strided({&n, 1}, {complex.host(), DType::kComplex128, &stride},
                    {const_cast<std::complex<double>*>(&z), DType::kComplex128, &zero}, true, true);
  cuda::copy_strided({&n, 1}, {complex.device(), DType::kComplex128, &stride},
                     {const_cast<std::complex<double>*>(&z), DType::kComplex128, &zero, true}, true, true);
  expect_same(DType::kComplex128, complex.host_bytes(), complex.device_bytes());
}

TEST_F(Copy, Fills) {
  for (const DType t : {DType::kInt8, DType::kBFloat16, DType::kFloat32, DType::kInt64, DType::kComplex128}) {
    const int64_t s = item_size(t);
    for (const double value : {0.0, 1.0, -1.0, 3.5}) {
      const std::vector<uint8_t> bytes = with_value(std::vector<uint8_t>(16), t, 0, value);
      for (const std::vector<int64_t>& strides : {std::vector<int64_t>{13 * s, s}, {2 * s, 14 * s}}) {
        Mirror dst(std::vector<uint8_t>(static_cast<size_t>(300 * s), 7));
        const std::vector<int64_t> shape = {7, 13};
        cpu::fill_strided(shape, {dst.host(), t, strides.data()}, bytes.data());
        cuda::fill_strided(shape, {dst.device(), t, strides.data()}, bytes.data());
        expect_same(t, dst.host_bytes(), dst.device_bytes());
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cuda
