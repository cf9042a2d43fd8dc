// Contents, sharing, files that PyTorch wrote (testdata/, made by torch.save of version 2.15), hostile files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "serialization/checkpoint.h"
#include "serialization/pickle.h"
#include "serialization/zip.h"

namespace tessera::serialization {
namespace {

using std::string_literals::operator""s;

std::string testdata(const std::string& name) {
  const char* root = std::getenv("TEST_SRCDIR");
  return (root ? std::string(root) + "/tessera/" : std::string()) + "serialization/testdata/" + name;
}

template <class T>
Tensor tensor_of(std::vector<T> values, IntVector sizes) {
  Tensor t = empty_cpu(sizes, DTypeOf<T>::value);
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}
template <class T>
std::vector<T> values_of(const Tensor& t) {
  EXPECT_EQ(t.dtype(), DTypeOf<T>::value);
  EXPECT_TRUE(t.is_contiguous());
  return {t.data<T>(), t.data<T>() + t.numel()};
}
Object round_trip(const Object& o) { return load(save(o)); }

// An archive around a pickle; storage "0" has eight zero bytes.
std::vector<uint8_t> archive(std::string_view pickle) {
  MemorySink sink;
  ZipWriter zip(sink, "archive");
  zip.write("data.pkl", as_bytes(pickle));
  zip.write("data/0", std::vector<uint8_t>(8));
  zip.close();
  return sink.take();
}

struct Parts { std::string numel = "K\2", offset = "K\0"s, size = "K\2\x85", stride = "K\1\x85", kind = "FloatStorage", key = "0"; };
std::string tensor_pickle(const Parts& p) {
  return "\x80\2ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n"s + p.kind + "\nX" + static_cast<char>(p.key.size()) + "\0\0\0"s + p.key + "X\3\0\0\0cpu"s + p.numel + "tQ" +
         p.offset + p.size + p.stride + "\x89" "ccollections\nOrderedDict\n)RtR.";
}

TEST(Checkpoint, KeepsEveryKindOfObject) {
  Object o = Object::dict();
  o.set("list", Object::list({Object(), true, int64_t{1} << 40, -3, 300, 70000, 2.5, "text", Object::bytes("a\xff\0b"s)}));
  o.set(7, Object::tuple({DType::kInt8, Object::tuple({})}));
  const Object got = round_trip(o);
  const auto& list = got.at("list").items();
  EXPECT_TRUE(list[0].is_none() && list[1].as_bool());
  EXPECT_EQ(list[2].as_int(), int64_t{1} << 40);
  EXPECT_EQ(list[3].as_int(), -3);
  EXPECT_EQ(list[4].as_int() + list[5].as_int(), 70300);
  EXPECT_EQ(list[6].as_double(), 2.5);
  EXPECT_EQ(list[7].as_string(), "text");
  EXPECT_EQ(list[8].as_bytes(), "a\xff\0b"s);
  EXPECT_EQ(got.find(int64_t{7})->items()[0].as_dtype(), DType::kInt8);
  EXPECT_THROW(got.at("nothing"), IndexError);
  EXPECT_THROW(got.at("list").as_int(), TypeError);
}

TEST(Checkpoint, KeepsEveryDType) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    const Tensor x = empty_cpu(IntVector{2, 3}, t);
    for (int64_t b = 0; b < x.nbytes(); ++b) x.data<uint8_t>()[b] = static_cast<uint8_t>(t == DType::kBool ? b & 1 : 7 * b + 1);
    if (category_of(t) == Category::kQuantized) {
      EXPECT_THROW(save(Object(x)), NotImplementedError);
      continue;
    }
    const Tensor y = round_trip(x).as_tensor();
    ASSERT_EQ(y.dtype(), t);
    EXPECT_EQ(shape_string(y.sizes()), "[2, 3]");
    EXPECT_EQ(std::memcmp(y.data_ptr(), x.data_ptr(), x.nbytes()), 0) << name_of(t);
  }
}

TEST(Checkpoint, KeepsStridesSharingAndFlags) {
  const Tensor x = tensor_of<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor view = make_view(x, IntVector{3}, IntVector{2}, 1);
  const Tensor leaf = tensor_of<float>({1}, {1}).requires_grad_();
  const Tensor conj = tensor_of<std::complex<float>>({{1, 2}}, {1});
  conj.impl()->set_conj(true);
  const Object shared = Object::list({1});
  const Object got = round_trip(Object::list({x, view, leaf, conj, shared, shared, x}));
  const Tensor x2 = got.items()[0].as_tensor(), view2 = got.items()[1].as_tensor();
  EXPECT_EQ(x2.storage().get(), view2.storage().get());
  EXPECT_EQ(view2.stride(0), 2);
  EXPECT_EQ(view2.storage_offset(), 1);
  EXPECT_TRUE(got.items()[2].as_tensor().requires_grad() && !x2.requires_grad());
  EXPECT_TRUE(got.items()[3].as_tensor().is_conj());
  EXPECT_EQ(got.items()[4].node(), got.items()[5].node());
  EXPECT_TRUE(got.items()[6].as_tensor().is_same(x2));
  const Tensor other = make_view(x, IntVector{6}, IntVector{1}, 0, DType::kInt32);
  EXPECT_THROW(save(Object::list({x, other})), Error);
}

TEST(Checkpoint, FilesOfPyTorchLoad) {
  const StateDict state = load_state_dict(testdata("state_dict.pt"));
  ASSERT_EQ(state.size(), 7u);
  EXPECT_EQ(state[0].first, "0.weight");
  EXPECT_EQ(values_of<float>(state[0].second), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(state[6].first, "1.num_batches_tracked");
  EXPECT_EQ(values_of<int64_t>(state[6].second), std::vector<int64_t>{0});

  for (const char* name : {"mixed.pt", "deflated.pt"}) {
    const Object o = load(testdata(name));
    EXPECT_EQ(o.at("epoch").as_int(), 3);
    EXPECT_EQ(o.at("lr").as_double(), 1e-3);
    EXPECT_EQ(o.at("big").as_int(), -(int64_t{1} << 40));
    EXPECT_EQ(o.at("raw").as_bytes(), "a\xff\0"s);
    EXPECT_EQ(values_of<float>(o.at("base").as_tensor())[11], 11.0f);
    EXPECT_EQ(o.at("view").as_tensor().storage().get(), o.at("base").as_tensor().storage().get());
    EXPECT_EQ(shape_string(o.at("view").as_tensor().strides()), "[1, 4]");
    EXPECT_EQ(values_of<uint16_t>(o.at("u16").as_tensor())[0], 65535);
    EXPECT_EQ(o.at("f8").as_tensor().dtype(), DType::kFloat8_e4m3fn);
    EXPECT_TRUE(o.at("conj").as_tensor().is_conj() && o.at("param").as_tensor().requires_grad());
    EXPECT_EQ(o.at("size").items()[1].as_int(), 4);
    EXPECT_EQ(o.at("dtype").as_dtype(), DType::kInt8);
    EXPECT_EQ(o.at("device").as_string(), "cpu");
    EXPECT_EQ(o.at("optimizer").at("param_groups").items()[0].at("betas").items()[1].as_double(), 0.999);
    EXPECT_EQ(o.at("empty").as_tensor().numel(), 0);
    EXPECT_THROW(o.as_state_dict(), TypeError);
  }
}

TEST(Checkpoint, ByteOrderIsTurned) {
  MemorySink sink;
  ZipWriter zip(sink, "a");
  zip.write("data.pkl", as_bytes(tensor_pickle({})));
  zip.write("byteorder", as_bytes("big"));
  zip.write("data/0", as_bytes("\x3f\x80\0\0\xc0\0\0\0"s));
  zip.close();
  EXPECT_EQ(values_of<float>(load(sink.take()).as_tensor()), (std::vector<float>{1, -2}));
}

TEST(Checkpoint, FilesAreReplacedWhole) {
  const std::string path = testing::TempDir() + "/model.v1.pt";
  save(StateDict{{"w", tensor_of<float>({1, 2}, {2})}}, path);
  EXPECT_THROW(save(Object(empty_cpu(IntVector{1}, DType::kQInt8)), path), NotImplementedError);
  EXPECT_EQ(values_of<float>(load_state_dict(path)[0].second), (std::vector<float>{1, 2}));
  FileSource source(path);
  EXPECT_EQ(ZipReader(source).archive_name(), "model.v1");
  EXPECT_THROW(save(Object(1), testing::TempDir() + "/no/such/folder.pt"), Error);
  EXPECT_THROW(load(testing::TempDir() + "/missing.pt"), Error);
  EXPECT_THROW(load(testing::TempDir()), Error);
}

TEST(Hostile, Pickles) {
  const std::string many(100000, '\x85');
  const std::string streams[] = {
      "\x80\2cos\nsystem\nX\4\0\0\0true\x85R."s, "\x80\2" "cbuiltins\neval\nX\1\0\0\0" "1\x85R."s, "\x80\2ctorch\nload\n)R.", "\x80\2ctorch\nFloatStorage\n.", "\x80\2X\xff\xff\xff\xff" "a.",
      "\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "\x80\2K\1\x85R.", "\x80\2" "a.", "\x80\2", "\x80\x63.", "\x80\2h\7.", "\x80\2(.", "\x80\2(K\1", "\x80\2" "0.", "\x80\2(00t.", "\x80\2]q\0h\0a."s,
      "\x80\2}q\0X\1\0\0\0kh\0s."s, "\x80\2)" + many + ".", "\x80\2" + std::string(100000, ']') + std::string(99999, 'a') + ".", "\x80\2\x8a\x09\0\0\0\0\0\0\0\0\1."s, "\x80\2N}b.",
      "\x80\2" "ccollections\nOrderedDict\n]K\1\x61\x85R.", "\x80\2ctorch\nSize\nN\x85R.", "",
  };
  for (const std::string& s : streams) EXPECT_THROW(load(archive(s)), Error) << s.substr(0, 60);
}

TEST(Hostile, SmallFilesMakeNoHugeObjects) {
  // One list of 1,000 pairs, copied into 100,000 dicts: 10^8 entries from 500 kB.
  std::string s = "\x80\2]q\0("s;
  for (int i = 0; i < 1000; ++i) s += "K\1K\2\x86";
  s += "e" "ccollections\nOrderedDict\nq\1"s;
  for (int i = 0; i < 100000; ++i) s += "h\1h\0\x85R"s;
  EXPECT_THROW(load(archive(s + ".")), Error);
  // Shared lists, doubled forty times: fine as long as they stay shared.
  std::string doubling = "\x80\2]"s;
  for (int i = 0; i < 40; ++i) doubling += "q\0h\0\x86"s;
  EXPECT_EQ(load(archive(doubling + ".")).items().size(), 2u);
}

TEST(Hostile, TensorsThatLeaveTheirStorage) {
  EXPECT_EQ(load(archive(tensor_pickle({}))).as_tensor().numel(), 2);
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  const Parts bad[] = {
      {.numel = "K\3"}, {.numel = "J\xff\xff\xff\xff"}, {.numel = huge}, {.numel = "N"}, {.offset = "K\1"}, {.offset = "J\xff\xff\xff\xff"}, {.offset = huge}, {.size = "K\3\x85"}, {.size = "J\xfe\xff\xff\xff\x85"},
      {.stride = "K\2\x85"}, {.stride = "J\xff\xff\xff\xff\x85"}, {.size = "K\2K\2\x86"}, {.size = huge + huge + "\x86", .stride = "K\0K\0\x86"s}, {.size = "X\1\0\0\0a\x85"s}, {.size = "N"},
      {.kind = "NopeStorage"}, {.kind = "DoubleStorage"}, {.key = "1"}, {.key = "../0"},
  };
  for (const Parts& p : bad) EXPECT_THROW(load(archive(tensor_pickle(p))), Error);
}

TEST(Hostile, Archives) {
  const std::vector<uint8_t> good = save(Object(tensor_of<float>({1, 2, 3}, {3})));
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(load(std::span(good).first(n)), Error) << n;
  EXPECT_THROW(load(std::span(good).subspan(1)), Error);
  EXPECT_THROW(load(as_bytes("not a checkpoint")), Error);
  EXPECT_THROW(load(as_bytes("PK\5\6" + std::string(18, '\0'))), Error);
}

TEST(Inflate, ChecksItsInput) {
  std::vector<uint8_t> out(5);
  inflate(as_bytes("\xcb\x48\xcd\xc9\xc9\x07\0"s), out);  // fixed codes
  EXPECT_EQ(std::string(out.begin(), out.end()), "hello");
  inflate(as_bytes("\1\5\0\xfa\xffworld"s), out);         // stored
  EXPECT_EQ(std::string(out.begin(), out.end()), "world");
  EXPECT_THROW(inflate(as_bytes("\xcb\x48\xcd\xc9\xc9\x07"s), out), Error);
  EXPECT_THROW(inflate(as_bytes("\1\5\0\xfa\xfeworld"s), out), Error);
  EXPECT_THROW(inflate(as_bytes("\7"s), out), Error);
  out.resize(4);
  EXPECT_THROW(inflate(as_bytes("\xcb\x48\xcd\xc9\xc9\x07\0"s), out), Error);
}

TEST(Crc32, CheckValue) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32(as_bytes("6789"), crc32(as_bytes("12345"))), 0xcbf43926u);
  // Long data in one go, and in parts so short that they go by tables.
  std::vector<uint8_t> data(3000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * i * 31 + i / 7);
  for (size_t n = 0; n <= data.size(); n += n < 200 ? 1 : 97) {
    uint32_t parts = 0;
    for (size_t i = 0; i < n; i += 50) parts = crc32({data.data() + i, std::min<size_t>(50, n - i)}, parts);
    EXPECT_EQ(crc32({data.data(), n}), parts) << n;
  }
}

}  // namespace
}  // namespace tessera::serialization
