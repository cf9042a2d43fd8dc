// Contents, sharing, files that PyTorch wrote (testdata/, made by torch.save of version 2.15), hostile files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "serialization/checkpoint.h"
#include "serialization/pickle.h"
#include "serialization/zip.h"

namespace tessera::serialization {
namespace {

using std::string_literals::operator""s;
using std::string_view_literals::operator""sv;

std::string testdata(const std::string& name) {
  const char* root = std::getenv("TEST_SRCDIR");
  return (root ? std::string(root) + "/tessera/" : std::string()) + "serialization/testdata/" + name;
}

template <class T>
Tensor tensor_of(std::vector<T> values, IntVector sizes) {
  Tensor t = empty_kernel(sizes, DTypeOf<T>::value);
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

struct Parts {
  std::string numel = "K\2", offset = "K\0"s, size = "K\2\x85", stride = "K\1\x85", kind = "FloatStorage", key = "0";
};
std::string tensor_pickle(const Parts& p) {
  return "\x80\2ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n"s + p.kind + "\nX" +
         static_cast<char>(p.key.size()) + "\0\0\0"s + p.key + "X\3\0\0\0cpu"s + p.numel + "tQ" + p.offset + p.size +
         p.stride +
         "\x89"
         "ccollections\nOrderedDict\n)RtR.";
}

TEST(Checkpoint, KeepsEveryKindOfObject) {
  Object o = Object::dict();
  o.set("list",
        Object::list({Object(), true, int64_t{1} << 40, -3, 300, 70000, 2.5, "text", Object::bytes("a\xff\0b"s)}));
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
    const Tensor x = empty_kernel(IntVector{2, 3}, t);
    for (int64_t b = 0; b < x.nbytes(); ++b)
      x.data<uint8_t>()[b] = static_cast<uint8_t>(t == DType::kBool ? b & 1 : 7 * b + 1);
    if (is_quantized(t)) {
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

TEST(Checkpoint, MappedTensorsAreTheFilesAndStayTheirOwn) {
  const std::string path = std::filesystem::temp_directory_path() / ("mapped_test" + std::to_string(getpid()) + ".pt");
  const Tensor t = tensor_of<float>({1, 2, 3, 4}, {2, 2});
  save(Object::dict({{"t", t}, {"empty", tensor_of<double>({}, {0})}, {"n", 3}}), path);
  Tensor kept;
  {
    const Object all = load(path, true);
    EXPECT_EQ(all.at("n").as_int(), 3);
    EXPECT_EQ(all.at("empty").as_tensor().numel(), 0);
    kept = all.at("t").as_tensor();
    EXPECT_FALSE(kept.storage()->resizable());
  }
  EXPECT_EQ(values_of<float>(kept), (std::vector<float>{1, 2, 3, 4}));
  kept.data<float>()[0] = 9;
  EXPECT_EQ(values_of<float>(load(path).at("t").as_tensor()), (std::vector<float>{1, 2, 3, 4}));
  std::filesystem::remove(path);
  EXPECT_EQ(values_of<float>(kept), (std::vector<float>{9, 2, 3, 4}));
  EXPECT_THROW(load(path, true), Error);
}

TEST(Checkpoint, FilesAreReplacedWhole) {
  const std::string path = testing::TempDir() + "/model.v1.pt";
  save(StateDict{{"w", tensor_of<float>({1, 2}, {2})}}, path);
  EXPECT_THROW(save(Object(empty_kernel(IntVector{1}, DType::kQInt8)), path), NotImplementedError);
  EXPECT_EQ(values_of<float>(load_state_dict(path)[0].second), (std::vector<float>{1, 2}));
  FileSource source(path);
  EXPECT_EQ(ZipReader(source).archive_name(), "model.v1");
  EXPECT_THROW(save(Object(1), testing::TempDir() + "/no/such/folder.pt"), Error);
  EXPECT_THROW(load(testing::TempDir() + "/missing.pt"), Error);
  EXPECT_THROW(load(testing::TempDir()), Error);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}
void write_text(const std::string& path, std::string_view text) {
  FileSink sink(path);
  sink.write(as_bytes(text));
  sink.close();
}
// An empty folder of its own.
std::string fresh_folder(const char* name) {
  const std::string folder = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  return folder;
}
mode_t mode_of(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(FileSink, AppearsWholeAndLeavesNothingBehind) {
  const std::string folder = fresh_folder("whole"), path = folder + "/a.pt";
  write_text(path, "old");
  write_text(folder + "/a.pt.tmp", "a user's own file");
  {
    FileSink sink(path);
    sink.write(as_bytes("new"));
    EXPECT_EQ(contents(path), "old");
    EXPECT_LE(names_in(folder).size(), 3u);  // a file without a name, where there are such
    sink.close();
    EXPECT_EQ(contents(path), "new");
    EXPECT_THROW(sink.write(as_bytes("more")), Error);
    EXPECT_THROW(sink.close(), Error);
  }
  {
    FileSink given_up(path);
    given_up.write(as_bytes("half"));
  }
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(contents(folder + "/a.pt.tmp"), "a user's own file");
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"a.pt", "a.pt.tmp"}));
  EXPECT_THROW(FileSink(folder + "/no/such/folder"), Error);
  EXPECT_THROW(FileSink{folder}, Error);
  write_text(folder + "/" + std::string(255, 'n'), "the longest name");
}

TEST(FileSink, FollowsLinksAsOpenDoes) {
  const std::string folder = fresh_folder("links");
  std::filesystem::create_directory(folder + "/real");
  write_text(folder + "/real/a", "old");
  std::filesystem::create_symlink("real/a", folder + "/one");
  std::filesystem::create_symlink(folder + "/one", folder + "/two");
  std::filesystem::create_symlink("real/not_yet", folder + "/dangling");
  std::filesystem::create_symlink("loop", folder + "/loop");
  write_text(folder + "/two", "new");
  write_text(folder + "/dangling", "made");
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/one") && std::filesystem::is_symlink(folder + "/two") &&
              std::filesystem::is_symlink(folder + "/dangling"));
  EXPECT_EQ(contents(folder + "/real/a"), "new");
  EXPECT_EQ(contents(folder + "/real/not_yet"), "made");
  EXPECT_EQ(names_in(folder + "/real"), (std::vector<std::string>{"a", "not_yet"}));
  EXPECT_THROW(FileSink(folder + "/loop"), Error);
}

TEST(FileSink, PermissionsAreThoseOfAnOpenedFile) {
  const std::string folder = fresh_folder("modes");
  const mode_t before = umask(027);
  write_text(folder + "/new", "x");
  umask(before);
  EXPECT_EQ(mode_of(folder + "/new"), 0640u);
  for (mode_t mode : {0600u, 0666u, 0755u}) {
    ASSERT_EQ(chmod((folder + "/new").c_str(), mode), 0);
    write_text(folder + "/new", "y");
    EXPECT_EQ(mode_of(folder + "/new"), mode);
  }
}

TEST(FileSink, WhatIsNoFileIsWrittenDirectly) {
  const std::string folder = fresh_folder("special");
  write_text("/dev/null", "gone");
  EXPECT_EQ(mode_of("/dev/null") & 0777, 0666u);
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = contents(pipe); });
  write_text(pipe, "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  // A descriptor by its name in procfs: the open file is written, whatever it is called.
  const int file = open((folder + "/open").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  write_text("/proc/self/fd/" + std::to_string(file), "by number");
  close(file);
  EXPECT_EQ(contents(folder + "/open"), "by number");
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"open", "pipe"}));
}

// A full disk, in a child process whose files may not grow beyond 1 MiB.
TEST(FileSink, AFullDiskLeavesTheOldFile) {
  const std::string folder = fresh_folder("full"), path = folder + "/a.pt";
  save(Object(empty_kernel(IntVector{4}, DType::kFloat32)), path);
  const std::string old = contents(path);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save(Object(empty_kernel(IntVector{1 << 20}, DType::kFloat32)), path);
      _exit(1);
    } catch (const Error&) { _exit(names_in(folder).size() == 1 ? 0 : 2); }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(contents(path), old);
}

TEST(Hostile, Pickles) {
  const std::string many(100000, '\x85');
  const std::string streams[] = {
      "\x80\2cos\nsystem\nX\4\0\0\0true\x85R."s,
      "\x80\2"
      "cbuiltins\neval\nX\1\0\0\0"
      "1\x85R."s,
      "\x80\2ctorch\nload\n)R.",
      "\x80\2ctorch\nFloatStorage\n.",
      "\x80\2X\xff\xff\xff\xff"
      "a.",
      "\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
      "\x80\2K\1\x85R.",
      "\x80\2"
      "a.",
      "\x80\2",
      "\x80\x63.",
      "\x80\2h\7.",
      "\x80\2(.",
      "\x80\2(K\1",
      "\x80\2"
      "0.",
      "\x80\2(00t.",
      "\x80\2]q\0h\0a."s,
      "\x80\2}q\0X\1\0\0\0kh\0s."s,
      "\x80\2)" + many + ".",
      "\x80\2" + std::string(100000, ']') + std::string(99999, 'a') + ".",
      "\x80\2\x8a\x09\0\0\0\0\0\0\0\0\1."s,
      "\x80\2N}b.",
      "\x80\2"
      "ccollections\nOrderedDict\n]K\1\x61\x85R.",
      "\x80\2ctorch\nSize\nN\x85R.",
      "\x80\2"
      "ctorch.serialization\n_get_layout\nN\x85R.",
      "\x80\2"
      "ctorch._utils\n_rebuild_sparse_tensor\nX\3\0\0\0coo)\x86R."s,
      "\x80\2"
      "ctorch._utils\n_rebuild_sparse_tensor\nX\3\0\0\0cooK\1\x85\x85\x86R."s,
      "",
  };
  for (const std::string& s : streams) EXPECT_THROW(load(archive(s)), Error) << s.substr(0, 60);
}

TEST(Hostile, SmallFilesMakeNoHugeObjects) {
  // One list of 1,000 pairs, copied into 100,000 dicts: 10^8 entries from 500 kB.
  std::string s = "\x80\2]q\0("s;
  for (int i = 0; i < 1000; ++i) s += "K\1K\2\x86";
  s += "e"
       "ccollections\nOrderedDict\nq\1"s;
  for (int i = 0; i < 100000; ++i) s += "h\1h\0\x85R"s;
  EXPECT_THROW(load(archive(s + ".")), Error);
  // Sizes are copied, too.
  std::string sizes = "\x80\2("s;
  for (int i = 0; i < 64; ++i) sizes += "K\1";
  sizes += "tq\0"s + "0ctorch\nSize\nq\1";
  for (int i = 0; i < 10000; ++i) sizes += "h\1h\0\x85R"s;
  EXPECT_THROW(load(archive(sizes + ".")), Error);
  // Shared lists, doubled forty times: fine as long as they stay shared.
  std::string doubling = "\x80\2]"s;
  for (int i = 0; i < 40; ++i) doubling += "q\0h\0\x86"s;
  EXPECT_EQ(load(archive(doubling + ".")).items().size(), 2u);
}

TEST(Hostile, TensorsThatLeaveTheirStorage) {
  EXPECT_EQ(load(archive(tensor_pickle({}))).as_tensor().numel(), 2);
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  const auto ones = [](int n) {  // more dimensions than a tensor has, and than a byte counts
    std::string tuple = "(";
    for (int i = 0; i < n; ++i) tuple += "K\1";
    return tuple + "t";
  };
  EXPECT_EQ(load(archive(tensor_pickle({.size = ones(64), .stride = ones(64)}))).as_tensor().dim(), 64);
  const Parts bad[] = {
      {.size = ones(65), .stride = ones(65)},
      {.size = ones(200), .stride = ones(200)},
      {.size = ones(256), .stride = ones(256)},
      {.size = ones(300), .stride = ones(300)},
      {.size = "K\2\x85", .stride = "K\1K\1\x86"},
      {.size = ")", .stride = "K\1\x85"},
      {.size = "K\1\x85", .stride = ")"},
      {.size = "J\xff\xff\xff\xffK\0\x86"s, .stride = "K\1K\1\x86"},
      {.numel = "K\3"},
      {.numel = "J\xff\xff\xff\xff"},
      {.numel = huge},
      {.numel = "N"},
      {.offset = "K\1"},
      {.offset = "J\xff\xff\xff\xff"},
      {.offset = huge},
      {.size = "K\3\x85"},
      {.size = "J\xfe\xff\xff\xff\x85"},
      {.stride = "K\2\x85"},
      {.stride = "J\xff\xff\xff\xff\x85"},
      {.size = "K\2K\2\x86"},
      {.size = huge + huge + "\x86", .stride = "K\0K\0\x86"s},
      {.size = "X\1\0\0\0a\x85"s},
      {.size = "N"},
      {.kind = "NopeStorage"},
      {.kind = "DoubleStorage"},
      {.key = "1"},
      {.key = "../0"},
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

// --- the archive ---

// An archive of one record "a/r", deflated or stored as given.
std::vector<uint8_t> one_record(int method, std::string_view packed, uint32_t size, uint32_t crc,
                                std::string_view behind = "") {
  std::string f;
  const auto put = [&](uint64_t v, int n) {
    for (int i = 0; i < n; ++i) f += static_cast<char>(v >> (8 * i));
  };
  const auto header = [&] {
    put(0, 2), put(method, 2), put(0, 4), put(crc, 4), put(packed.size(), 4), put(size, 4), put(3, 2), put(0, 2);
  };
  f += "PK\3\4", put(20, 2), header(), f += "a/r", f += packed, f += behind;
  const size_t start = f.size();
  f += "PK\1\2", put(20, 2), put(20, 2), header(), put(0, 2), put(0, 2), put(0, 2), put(0, 4), put(0, 4), f += "a/r";
  const size_t length = f.size() - start;
  f += "PK\5\6", put(0, 4), put(1, 2), put(1, 2), put(length, 4), put(start, 4), put(0, 2);
  return {f.begin(), f.end()};
}
std::string read_record(const std::vector<uint8_t>& archive) {
  MemorySource source(archive);
  const std::vector<uint8_t> data = ZipReader(source).read("r");
  return {data.begin(), data.end()};
}

TEST(Zip, InflatesAndChecks) {
  const uint32_t hello = 0x3610a686, world = 0x3a771143;
  const std::string_view fixed = "\xcb\x48\xcd\xc9\xc9\x07\0"sv, stored = "\1\5\0\xfa\xffworld"sv;
  EXPECT_EQ(read_record(one_record(8, fixed, 5, hello)), "hello");
  EXPECT_EQ(read_record(one_record(8, stored, 5, world)), "world");
  EXPECT_EQ(read_record(one_record(0, "hello", 5, hello)), "hello");
  EXPECT_EQ(read_record(one_record(0, "hello", 5, 0)), "hello");  // written without checksums
  EXPECT_THROW(read_record(one_record(0, "hello", 5, hello ^ 1)), Error);
  EXPECT_THROW(read_record(one_record(8, fixed, 5, world)), Error);
  EXPECT_THROW(read_record(one_record(8, fixed.substr(0, 6), 5, hello)), Error);
  EXPECT_THROW(read_record(one_record(8, "\1\5\0\xfa\xfeworld"sv, 5, world)), Error);
  EXPECT_THROW(read_record(one_record(8, "\7", 5, world)), Error);
  EXPECT_THROW(read_record(one_record(8, fixed, 4, hello)), Error);  // longer than it says
  EXPECT_THROW(read_record(one_record(8, fixed, 6, hello)), Error);  // shorter
  EXPECT_THROW(read_record(one_record(9, fixed, 5, hello)), Error);
}

TEST(Zip, EveryFlippedBitIsFound) {
  const std::vector<uint8_t> good = save(Object::list({tensor_of<float>({1, 2, 3}, {3}), "text"}));
  MemorySource source(good);
  ZipReader zip(source);
  for (const std::string& name : {"data.pkl"s, "data/0"s, "byteorder"s}) {
    const uint64_t start = zip.record_offset(name), size = zip.record_size(name);
    ASSERT_GT(size, 0u);
    for (uint64_t bit = 0; bit < 8 * size; ++bit) {
      std::vector<uint8_t> damaged = good;
      damaged[start + bit / 8] ^= 1 << bit % 8;
      EXPECT_THROW(load(damaged), Error) << name << " bit " << bit;
    }
  }
}

// Long records are read, written and checked in pieces; files and memory give the same.
TEST(Zip, LongRecords) {
  const std::string path = testing::TempDir() + "/long.zip";
  for (uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{kPiece - 1}, uint64_t{kPiece}, uint64_t{kPiece + 1},
                     uint64_t{5 * kPiece + 123}}) {
    std::vector<uint8_t> data(n);
    for (size_t i = 0; i < n; ++i) data[i] = static_cast<uint8_t>(i * i * 31 + i / 7);
    FileSink file(path);
    ZipWriter writer(file, "a");
    EXPECT_EQ(writer.write("r", data), crc32(data)) << n;
    writer.close();
    file.close();
    FileSource source(path);
    EXPECT_EQ(ZipReader(source).read("r"), data);
    if (n < 2) continue;
    std::vector<uint8_t> bytes(source.size());
    source.read(0, bytes);
    bytes[ZipReader(source).record_offset("r") + n - 1] ^= 0x10;
    MemorySource damaged(bytes);
    EXPECT_THROW(ZipReader(damaged).read("r"), Error) << n;
  }
}

TEST(Zip, WithoutChecksums) {
  MemorySink sink;
  ZipWriter zip(sink, "archive", false);
  EXPECT_EQ(zip.write("data.pkl", as_bytes(tensor_pickle({}))), 0u);
  zip.write("data/0", std::vector<uint8_t>(8));
  zip.close();
  EXPECT_EQ(load(sink.take()).as_tensor().numel(), 2);
}

TEST(Crc32, CheckValue) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32(as_bytes("6789"), crc32(as_bytes("12345"))), 0xcbf43926u);
  EXPECT_EQ(crc32({}), 0u);
  std::vector<uint8_t> data(3 * kPiece + 77);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * i * 31 + i / 7);
  for (size_t n : {size_t{0}, size_t{5}, size_t{kPiece}, size_t{2 * kPiece}, data.size()}) {
    const std::span<const uint8_t> part(data.data(), n);
    EXPECT_EQ(parallel_crc32(part), crc32(part)) << n;
  }
}

}  // namespace
}  // namespace tessera::serialization
