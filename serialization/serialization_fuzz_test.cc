// Damaged checkpoints: load gives an object or throws Error, whatever the bytes. FUZZ_SECONDS=600 runs for that long; the default is a few seconds, always the same cases.
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
  std::ifstream file((root ? std::string(root) + "/tessera/" : std::string()) + "serialization/testdata/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads what was loaded, so that a sanitizer sees a tensor that leaves its storage.
uint64_t touch(const Object& o) {
  uint64_t sum = static_cast<uint64_t>(o.kind());
  if (o.kind() == Kind::kTensor) {
    const Tensor t = o.as_tensor();
    int64_t last = 0;
    for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
    if (t.numel() > 0) sum += *t.data<uint8_t>() + t.data<uint8_t>()[(last + 1) * t.item_size() - 1];
  }
  return sum;
}

bool survives(const Bytes& data) {
  try {
    const Object o = load(data);
    touch(o);
    if (o.kind() == Kind::kDict) for (const auto& [key, value] : o.entries()) touch(value);
    return true;
  } catch (const Error&) {
    return false;
  }
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  Bytes apply(Bytes data, bool pickle) {
    for (int n = 1 + static_cast<int>(random_() % 4); n > 0 && !data.empty(); --n) {
      const size_t at = random_() % data.size();
      switch (random_() % 6) {
        case 0: data[at] = static_cast<uint8_t>(random_()); break;
        case 1: data[at] ^= static_cast<uint8_t>(1 << random_() % 8); break;
        case 2: for (size_t i = at; i < data.size() && i < at + 8; ++i) data[i] = random_() % 2 ? 0xff : 0x7f; break;
        case 3: data.erase(data.begin() + at, data.begin() + std::min(data.size(), at + 1 + random_() % 16)); break;
        case 4: {
          const size_t from = random_() % data.size(), length = std::min<size_t>(data.size() - from, 1 + random_() % 40);
          const Bytes piece(data.begin() + from, data.begin() + from + length);
          data.insert(data.begin() + at, piece.begin(), piece.end());
          break;
        }
        default: data.insert(data.begin() + at, pickle ? kCodes[random_() % (sizeof kCodes - 1)] : static_cast<uint8_t>(random_())); break;
      }
    }
    return data;
  }
  uint64_t next() { return random_(); }

 private:
  static constexpr char kCodes[] = "(.012N})]tRQ\x81\x85\x86\x87\x88\x89" "abesuqhrjKMJGXcC\x8a\x93\x94";
  std::mt19937_64 random_;
};

TEST(Fuzz, DamagedFilesNeverEscape) {
  const char* wanted = std::getenv("FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted ? std::atoi(wanted) : 0);
  const Bytes seeds[] = {read_file("state_dict.pt"), read_file("mixed.pt"), read_file("deflated.pt"), save(Object::list({1, "x", Object(empty_cpu(IntVector{2, 2}, DType::kFloat32))}))};
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
    for (int k = 0; zip.has("data/" + std::to_string(k)); ++k) writer.write("data/" + std::to_string(k), zip.read("data/" + std::to_string(k)));
    writer.close();
    ++(survives(sink.take()) ? loaded : refused);
  }
  printf("%lld loaded, %lld refused\n", static_cast<long long>(loaded), static_cast<long long>(refused));
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tessera::serialization
