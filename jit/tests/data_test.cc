#include "jit/data.h"

#include <gtest/gtest.h>

#include "tensor/ops/api.h"

namespace tessera::jit {
namespace {

using Kind = Datum::Kind;
using Role = DataArchive::Role;

Datum scalar(Value v) {
  Datum d;
  d.value = std::move(v);
  return d;
}
Datum container(Kind kind, std::vector<Datum> items, std::string type = "") {
  Datum d;
  d.kind = kind;
  d.items = std::move(items);
  d.type = std::move(type);
  return d;
}
Datum number(int64_t i) { return scalar(Value::of(i)); }

std::vector<uint8_t> bytes_of(const std::string& path) {
  serialization::FileSource file(path);
  std::vector<uint8_t> bytes(file.size());
  file.read(0, bytes);
  return bytes;
}

TEST(Data, ArchivesComeBack) {
  DataArchive inner, outer;
  const Tensor shared = arange(6, DType::kFloat32).view({2, 3});
  inner.set({"deep/er", Role::kBuffer, scalar(Value::of(shared)), nullptr});
  outer.set({"0", Role::kParameter, scalar(Value::of(shared.transpose(0, 1))), nullptr});
  outer.set({"words", Role::kAttribute, scalar(Value::of(std::string("hello"))), nullptr});
  outer.set({"none", Role::kAttribute, {}, nullptr});
  outer.set({"empty", Role::kAttribute, container(Kind::kList, {}, "List[float]"), nullptr});
  outer.set({"words", Role::kAttribute, scalar(Value::of(std::string("again"))), nullptr});
  outer.set({"inner", Role::kAttribute, {}, std::make_shared<DataArchive>(inner)});
  serialization::MemorySink sink;
  save(outer, sink, "file");
  const std::vector<uint8_t> bytes = sink.take();
  serialization::MemorySource source(bytes);
  const auto back = load_data(source);
  ASSERT_EQ(back->entries.size(), 5u);
  EXPECT_EQ(back->entries[1].name, "words");
  EXPECT_EQ(back->find("words")->datum.value.string(), "again");
  EXPECT_TRUE(back->find("none")->datum.value.is_none());
  EXPECT_EQ(back->find("empty")->datum.type, "List[float]");
  EXPECT_EQ(back->find("0")->role, Role::kParameter);
  const Tensor t = back->find("0")->datum.value.tensor();
  const auto* deep = back->find("inner")->archive->find("deep/er");
  EXPECT_EQ(deep->role, Role::kBuffer);
  EXPECT_EQ(t.storage(), deep->datum.value.tensor().storage());
  EXPECT_TRUE(equal(t, shared.transpose(0, 1)));
  EXPECT_EQ(back->find("nothing"), nullptr);
}

TEST(Data, ReadsWhatAnotherSystemWrote) {
  serialization::FileSource file("jit/testdata/sgd.pt");
  const auto archive = load_data(file);
  EXPECT_EQ(archive->find("pytorch_version")->datum.value.string(), "1.5.0");
  ASSERT_TRUE(archive->find("state")->archive);
  EXPECT_EQ(archive->find("state")->archive->entries.size(), 5u);
  const auto group = archive->find("param_groups")->archive->find("param_groups/0")->archive;
  EXPECT_EQ(group->find("options")->archive->find("momentum")->datum.value.number(), 0.9);

  const Datum dict = unpickle_archive(bytes_of("jit/testdata/dict.pkl.zip"));
  ASSERT_EQ(dict.kind, Kind::kDict);
  EXPECT_EQ(dict.type, "Dict[str, Tensor]");
  EXPECT_EQ(dict.items[0].value.string(), "a");
  EXPECT_EQ(dict.items[1].value.tensor().numel(), 2);
}

TEST(Data, PickledValuesComeBack) {
  const Datum all =
      container(Kind::kTuple, {container(Kind::kList, {number(1), number(2)}, "List[int]"),
                               container(Kind::kDict, {scalar(Value::of(std::string("k"))), scalar(Value::of(2.5))}),
                               {},
                               container(Kind::kList, {scalar(Value::of(true))}),
                               scalar(Value::of(ones({2})))});
  const std::vector<char> bytes = pickle_archive(all);
  const Datum back = unpickle_archive({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  ASSERT_EQ(back.items.size(), 5u);
  EXPECT_EQ(back.items[0].items[1].value.integer(), 2);
  EXPECT_EQ(back.items[0].type, "List[int]");
  EXPECT_EQ(back.items[1].items[1].value.number(), 2.5);
  EXPECT_TRUE(back.items[2].value.is_none());
  EXPECT_EQ(back.items[3].type, "List[bool]");
  EXPECT_TRUE(equal(back.items[4].value.tensor(), ones({2})));
}

TEST(Data, BrokenInputIsAnError) {
  std::vector<char> bytes = pickle_archive(number(3));
  EXPECT_THROW(unpickle_archive({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size() / 2}), Error);
  EXPECT_THROW(unpickle_archive({}), Error);
  EXPECT_THROW(value_of(container(Kind::kList, {}, "int")), TypeError);
  EXPECT_THROW(value_of(container(Kind::kDict, {number(1)})), TypeError);
  EXPECT_THROW(members(Value::of(int64_t{1})), TypeError);
  serialization::MemorySource nothing({});
  EXPECT_THROW(load_data(nothing), Error);
}

}  // namespace
}  // namespace tessera::jit
