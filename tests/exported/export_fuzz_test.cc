// Damaged programs: load gives a program or throws Error, whatever the bytes. FUZZ_SECONDS=600 runs for that long; the
// default is a few seconds, always the same cases.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "export/json.h"
#include "export/numbers.h"
#include "export/program.h"
#include "nn/nn_ops_registry.h"
#include "serialization/zip.h"
#include "tensor/ops/ops_registry.h"

namespace tessera::exported {
namespace {

using Bytes = std::vector<uint8_t>;
using serialization::MemorySink;
using serialization::MemorySource;
using serialization::ZipReader;
using serialization::ZipWriter;

constexpr const char* kNames[] = {"mixed", "loops", "net", "makers"};

Bytes read_file(const std::string& name) {
  const char* root = std::getenv("TEST_SRCDIR");
  std::ifstream file((root ? std::string(root) + "/tessera/" : std::string()) + "export/testdata/" + name,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
OpInfoList all_operators() {
  static const std::vector<const OpInfo*> all = [] {
    std::vector<const OpInfo*> v(registry_ops().begin(), registry_ops().end());
    v.insert(v.end(), registry_nn_ops().begin(), registry_nn_ops().end());
    return v;
  }();
  return all;
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  size_t next(size_t n) { return static_cast<size_t>(random_() % n); }

  Bytes bytes(Bytes data) {
    for (size_t n = 1 + next(3); n > 0 && !data.empty(); --n) {
      const size_t at = next(data.size());
      switch (next(4)) {
        case 0:
          data[at] = static_cast<uint8_t>(random_());
          break;
        case 1:
          data[at] ^= static_cast<uint8_t>(1 << next(8));
          break;
        case 2:
          data.erase(data.begin() + static_cast<ptrdiff_t>(at),
                     data.begin() + static_cast<ptrdiff_t>(std::min(data.size(), at + 1 + next(16))));
          break;
        default:
          for (size_t i = at; i < data.size() && i < at + 4; ++i) data[i] = 0xff;
          break;
      }
    }
    return data;
  }

  // Sound JSON that says something else: values in other places' stead, other numbers, names and words.
  std::string text(std::string t) {
    for (size_t n = 1 + next(3); n > 0; --n) {
      const auto [begin, end] = value_in(t);
      switch (next(5)) {
        case 0: {
          const auto [other, other_end] = value_in(t);
          t.replace(begin, end - begin, t.substr(other, other_end - other));
          break;
        }
        case 1:
          t.replace(begin, end - begin, kWords[next(std::size(kWords))]);
          break;
        case 2:
          t.replace(begin, end - begin, std::to_string(kNumbers[next(std::size(kNumbers))]));
          break;
        case 3: {
          const size_t from = t.find("\"as_", next(t.size()));
          if (from == std::string::npos) break;
          t.replace(from, t.find('"', from + 1) + 1 - from, kKinds[next(std::size(kKinds))]);
          break;
        }
        default: {
          const size_t from = t.find("torch.ops.", next(t.size())), other = t.find("torch.ops.", next(t.size()));
          if (from == std::string::npos || other == std::string::npos) break;
          const std::string name = t.substr(other, t.find('"', other) - other);
          t.replace(from, t.find('"', from) - from, name);
          break;
        }
      }
    }
    return t;
  }

 private:
  static constexpr const char* kWords[] = {"null",
                                           "true",
                                           "[]",
                                           "{}",
                                           "\"x\"",
                                           "\"\"",
                                           "[[]]",
                                           "{\"as_int\": 3}",
                                           "1.5",
                                           "{\"as_tensor\": {\"name\": \"x\"}}",
                                           "{\"as_none\": true}",
                                           "\"s0 * 2 + s1\"",
                                           "{\"as_sym_int\": {\"as_name\": \"sym_size\"}}",
                                           "\"torch.ops.aten.add.Tensor\"",
                                           "{\"as_ints\": [1, -1]}",
                                           "{\"as_expr\": {\"expr_str\": \"s0//0\"}}"};
  static constexpr const char* kKinds[] = {
      "\"as_tensor\"",           "\"as_int\"",         "\"as_ints\"",   "\"as_sym_int\"", "\"as_none\"",
      "\"as_tensors\"",          "\"as_bool\"",        "\"as_bools\"",  "\"as_float\"",   "\"as_list\"",
      "\"as_floats\"",           "\"as_scalar_type\"", "\"as_device\"", "\"as_graph\"",   "\"as_string\"",
      "\"as_optional_tensors\"", "\"as_sym_ints\""};
  static constexpr int64_t kNumbers[] = {
      0, 1, 2, 3, -1, 7, 64, 65, INT64_MAX, INT64_MIN, int64_t{1} << 32, int64_t{1} << 61};

  // A value that is somewhere in the text: its begin and end.
  std::pair<size_t, size_t> value_in(const std::string& t) {
    size_t begin = t.find_first_of(":[,", next(t.size()));
    if (begin == std::string::npos || begin + 2 >= t.size()) return {0, t.size()};
    begin = t.find_first_not_of(" ", begin + 1);
    if (begin == std::string::npos) return {0, t.size()};
    if (t[begin] == '"') {
      const size_t end = t.find('"', begin + 1);
      return {begin, end == std::string::npos ? t.size() : end + 1};
    }
    if (t[begin] != '{' && t[begin] != '[') return {begin, std::min(t.size(), t.find_first_of(",]}", begin))};
    size_t end = begin, depth = 0;
    do depth += (t[end] == '{' || t[end] == '[') ? 1 : (t[end] == '}' || t[end] == ']') ? SIZE_MAX : 0;
    while (++end < t.size() && depth > 0);
    return {begin, end};
  }

  std::mt19937_64 random_;
};

// The same archive with one entry changed.
Bytes with_entry(const Bytes& data, const std::string& name, const Bytes& content) {
  MemorySource source(data);
  ZipReader zip(source);
  MemorySink sink;
  ZipWriter writer(sink, "archive");
  for (const std::string& entry : zip.names()) writer.write(entry, entry == name ? content : zip.read(entry));
  writer.close();
  return sink.take();
}

// Also looks at what was loaded, so that a sanitizer sees a tensor that leaves its storage.
bool survives(const Bytes& data) {
  try {
    MemorySource source(data);
    const Program program = load(source, all_operators());
    uint64_t sum = 0;
    for (const auto& [name, t] : program.state()) {
      if (t.numel() == 0 || !t.is_cpu()) continue;
      int64_t last = 0;
      for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
      sum += *t.data<uint8_t>() + t.data<uint8_t>()[(last + 1) * t.item_size() - 1];
    }
    return sum < UINT64_MAX;
  } catch (const Error&) { return false; }
}

TEST(Fuzz, DamagedProgramsNeverEscape) {
  const char* wanted = std::getenv("FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted ? std::atoi(wanted) : 0);
  std::vector<Bytes> seeds;
  for (const char* name : kNames) seeds.push_back(read_file(std::string(name) + ".pt2"));
  for (const Bytes& s : seeds) ASSERT_TRUE(survives(s));
  Damage damage(1);
  int64_t loaded = 0, refused = 0;
  for (int64_t i = 0; i < 8000 || std::chrono::steady_clock::now() < end; ++i) {
    const Bytes& seed = seeds[damage.next(seeds.size())];
    if (i % 8 == 0) {
      ++(survives(damage.bytes(seed)) ? loaded : refused);
      continue;
    }
    // A sound archive around a damaged description, so that damage is not always found at the door.
    MemorySource source(seed);
    ZipReader zip(source);
    const char* entries[] = {"models/model.json", "models/model.json", "models/model.json",
                             "data/weights/model_weights_config.json", "data/sample_inputs/model.json"};
    const std::string entry = entries[damage.next(std::size(entries))];
    const Bytes was = zip.read(entry);
    Bytes now = was;
    if (i % 8 == 1) {
      now = damage.bytes(was);
    } else {
      const std::string text = damage.text(std::string(was.begin(), was.end()));
      now.assign(text.begin(), text.end());
    }
    ++(survives(with_entry(seed, entry, now)) ? loaded : refused);
  }
  printf("%lld loaded, %lld refused\n", static_cast<long long>(loaded), static_cast<long long>(refused));
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 1000);
}

TEST(Fuzz, ExpressionsAndJson) {
  std::mt19937_64 random(1);
  constexpr const char* kTokens[] = {"s0",   "s1",  "(",  ")",   "+",  "-",     "*",    "//",    "%",
                                     "**",   "/",   ",",  " ",   "1",  "2.5",   "max(", "Eq(",   "if",
                                     "else", "and", "or", "not", "==", "<",     ">=",   "math.", "trunc(",
                                     "{",    "[",   "]",  "\"",  ":",  "\\u12", "1e",   "true",  "9223372036854775807"};
  int64_t sound = 0;
  for (int i = 0; i < 100000; ++i) {
    std::string text;
    for (size_t n = 1 + random() % 12; n > 0; --n) text += kTokens[random() % std::size(kTokens)];
    try {
      Symbols symbols;
      const Expression e(text, symbols);
      SymbolValues v(symbols.size());
      for (Number& n : v.values) n = Number::of(static_cast<int64_t>(random() % 7));
      e.evaluate(v);
      ++sound;
    } catch (const Error&) {}
    try {
      JsonDocument document(text);
    } catch (const Error&) {}
  }
  EXPECT_GT(sound, 1000);
}

}  // namespace
}  // namespace tessera::exported
