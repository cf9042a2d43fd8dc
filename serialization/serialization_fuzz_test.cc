// Damaged checkpoints: load gives an object or throws Error, whatever the bytes. FUZZ_SECONDS=600 runs for that long;
// the default is a few seconds, always the same cases.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "serialization/checkpoint.h"
#include "serialization/zip.h"

namespace tessera::serialization {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes read_file(const std::string& name) {
  const char* root = std::getenv("TEST_SRCDIR");
  std::ifstream file((root ? std::string(root) + "/tessera/" : std::string()) + "serialization/testdata/" + name,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads what was loaded, so that a sanitizer sees a tensor that leaves its storage.
uint64_t touch(const Object& o) {
  uint64_t sum = static_cast<uint64_t>(o.kind());
  if (o.kind() == Kind::kTensor) {
    const Tensor t = o.as_tensor();
    int64_t last = 0;
    for (int64_t d = 0; d < t.dim() && t.numel() > 0; ++d) last += (t.size(d) - 1) * t.stride(d);
    if (t.numel() > 0) sum += *t.data<uint8_t>() + t.data<uint8_t>()[(last + 1) * t.item_size() - 1];
  }
  return sum;
}

bool survives(const Bytes& data) {
  try {
    const Object o = load(data);
    touch(o);
    if (o.kind() == Kind::kDict)
      for (const auto& [key, value] : o.entries()) touch(value);
    return true;
  } catch (const Error&) { return false; }
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  Bytes apply(Bytes data, bool pickle) {
    for (int n = 1 + static_cast<int>(random_() % 4); n > 0 && !data.empty(); --n) {
      const size_t at = random_() % data.size();
      switch (random_() % 6) {
        case 0:
          data[at] = static_cast<uint8_t>(random_());
          break;
        case 1:
          data[at] ^= static_cast<uint8_t>(1 << random_() % 8);
          break;
        case 2:
          for (size_t i = at; i < data.size() && i < at + 8; ++i) data[i] = random_() % 2 ? 0xff : 0x7f;
          break;
        case 3:
          data.erase(data.begin() + at, data.begin() + std::min(data.size(), at + 1 + random_() % 16));
          break;
        case 4: {
          const size_t from = random_() % data.size(),
                       length = std::min<size_t>(data.size() - from, 1 + random_() % 40);
          const Bytes piece(data.begin() + from, data.begin() + from + length);
          data.insert(data.begin() + at, piece.begin(), piece.end());
          break;
        }
        default:
          data.insert(data.begin() + at,
                      pickle ? kCodes[random_() % (sizeof kCodes - 1)] : static_cast<uint8_t>(random_()));
          break;
      }
    }
    return data;
  }
  uint64_t next() { return random_(); }

 private:
  static constexpr char kCodes[] =
      "(.012N})]tRQ\x81\x85\x86\x87\x88\x89"
      "abesuqhrjKMJGXcC\x8a\x93\x94";
  std::mt19937_64 random_;
};

TEST(Fuzz, DamagedFilesNeverEscape) {
  const char* wanted = std::getenv("FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted ? std::atoi(wanted) : 0);
  const Bytes seeds[] = {read_file("state_dict.pt"), read_file("mixed.pt"), read_file("deflated.pt"),
                         save(Object::list({1, "x", Object(empty_kernel(IntVector{2, 2}, DType::kFloat32))}))};
  for (const Bytes& s : seeds) ASSERT_TRUE(survives(s));
  Damage damage(1);
  int64_t loaded = 0, refused = 0;
  for (int64_t i = 0; i < 20000 || std::chrono::steady_clock::now() < end; ++i) {
    const Bytes& seed = seeds[damage.next() % 4];
    if (i % 2) {
      ++(survives(damage.apply(seed, false)) ? loaded : refused);
      continue;
    }
    // A sound archive around a damaged pickle, so that damage is not always found at the door.
    MemorySource source(seed);
    ZipReader zip(source);
    MemorySink sink;
    ZipWriter writer(sink, "a");
    writer.write("data.pkl", damage.apply(zip.read("data.pkl"), true));
    for (int k = 0; zip.has("data/" + std::to_string(k)); ++k)
      writer.write("data/" + std::to_string(k), zip.read("data/" + std::to_string(k)));
    writer.close();
    ++(survives(sink.take()) ? loaded : refused);
  }
  printf("%lld loaded, %lld refused\n", static_cast<long long>(loaded), static_cast<long long>(refused));
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 100);
}

// Sound archives and pickles of tensors whose numbers are wrong: sizes, strides, offsets, dtypes, lengths of storages.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed) {}
  Bytes checkpoint() {
    std::string pickle = "\x80\2(";
    const int tensors = 1 + static_cast<int>(random_() % 3);
    for (int i = 0; i < tensors; ++i) pickle += tensor(std::to_string(random_() % 4));
    MemorySink sink;
    ZipWriter zip(sink, "a");
    zip.write("data.pkl", as_bytes(pickle + "t."));
    for (int i = 0; i < 3; ++i) zip.write("data/" + std::to_string(i), Bytes(kLengths[i]));
    zip.close();
    return sink.take();
  }

 private:
  static constexpr uint64_t kLengths[] = {8, 48, 0};
  static std::string integer(int64_t v) {
    std::string s = "\x8a\x08";
    for (int i = 0; i < 8; ++i) s += static_cast<char>(v >> (8 * i));
    return s;
  }
  int64_t number() {
    static constexpr int64_t kOdd[] = {0,
                                       1,
                                       2,
                                       3,
                                       -1,
                                       -2,
                                       6,
                                       12,
                                       INT64_MAX,
                                       INT64_MIN,
                                       int64_t{1} << 31,
                                       int64_t{1} << 32,
                                       int64_t{1} << 62,
                                       -(int64_t{1} << 62)};
    return random_() % 3 ? kOdd[random_() % 4] : kOdd[random_() % std::size(kOdd)];
  }
  std::string integers(size_t n) {
    std::string s = "(";
    for (size_t i = 0; i < n; ++i)
      s += random_() % 50 ? integer(n > 8 ? 1 : number()) : std::string(random_() % 2 ? "N" : "\x88");
    return s + "t";
  }
  std::string tensor(const std::string& key) {
    static constexpr const char* kTypes[] = {"FloatStorage", "DoubleStorage",        "ByteStorage",
                                             "BoolStorage",  "ComplexDoubleStorage", "HalfStorage"};
    static constexpr size_t kRanks[] = {0, 1, 1, 2, 2, 3, 5, 6, 63, 64, 65, 200, 255, 256, 257, 300};
    const bool v3 = random_() % 4 == 0;
    const size_t type = random_() % 3, rank = kRanks[random_() % (random_() % 4 ? 6 : std::size(kRanks))];
    static constexpr int64_t kWidths[] = {4, 8, 1};
    const uint64_t length = key < "3" ? kLengths[key[0] - '0'] : 8;
    const int64_t numel = random_() % 8 ? static_cast<int64_t>(length) / (v3 ? 1 : kWidths[type]) : number();
    std::string s = v3 ? "ctorch._utils\n_rebuild_tensor_v3\n((" : "ctorch._utils\n_rebuild_tensor_v2\n((";
    s += std::string("X\7\0\0\0storage", 12);
    s +=
        v3 ? "ctorch\nUntypedStorage\n" : std::string("ctorch\n") + kTypes[random_() % 8 ? type : random_() % 6] + "\n";
    s += std::string("X\1\0\0\0", 5) + key + std::string("X\3\0\0\0cpu", 8) + integer(numel) + "tQ";
    s += integer(random_() % 2 ? 0 : number()) + integers(rank) +
         integers(random_() % 10 ? rank : kRanks[random_() % std::size(kRanks)]);
    s += random_() % 8 ? "\x89" : "\x88";
    s += "ccollections\nOrderedDict\n)R";
    if (v3) s += std::string("ctorch\n") + (random_() % 2 ? "float8_e4m3fn" : "int64") + "\n";
    return s + "tR";
  }
  std::mt19937_64 random_;
};

TEST(Fuzz, WrongGeometriesNeverEscape) {
  const char* wanted = std::getenv("FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted ? std::atoi(wanted) : 0);
  Numbers numbers(1);
  int64_t loaded = 0, refused = 0;
  for (int64_t i = 0; i < 20000 || std::chrono::steady_clock::now() < end; ++i) {
    try {
      const Object o = load(numbers.checkpoint());
      for (const Object& item : o.items()) {
        touch(item);
        const Tensor t = item.as_tensor();
        ASSERT_LE(t.dim(), 64);
        ASSERT_GE(t.numel(), 0);
      }
      ++loaded;
    } catch (const Error&) { ++refused; }
  }
  printf("%lld loaded, %lld refused\n", static_cast<long long>(loaded), static_cast<long long>(refused));
  EXPECT_GT(loaded, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tessera::serialization
