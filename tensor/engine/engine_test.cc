// Tables of engines: the CPU's functions are named directly, other devices' are found in what their library filled.
#include "tensor/engine/engine.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"
#include "tensor/engine/device.h"
#include "tensor/engine/functions.h"
#include "tensor/engine/gemm.h"
#include "tensor/engine/index.h"
#include "tensor/engine/pointwise.h"
#include "tensor/engine/random.h"
#include "tensor/engine/reduce.h"
#include "tensor/engine/sort.h"

namespace tessera {

// A library of its own, as nn is one: functions of the CPU, a table, and by what TESSERA_ON finds the entries.
namespace cpu {
int own_twice(int x) { return 2 * x; }
int own_thrice(int x) { return 3 * x; }
}  // namespace cpu
namespace own {
struct Engines : EngineTable<Engines> {
  decltype(&cpu::own_twice) own_twice = nullptr;
  decltype(&cpu::own_thrice) own_thrice = nullptr;
};
// Another one beside it, with the same type of entry.
struct OtherEngines : EngineTable<OtherEngines> {
  decltype(&cpu::own_twice) own_twice = nullptr;
};
}  // namespace own
namespace engine_entries {
inline constexpr auto own_twice = &own::Engines::own_twice;
inline constexpr auto own_thrice = &own::Engines::own_thrice;
}  // namespace engine_entries

namespace {

constexpr Device kCpu{DeviceType::kCPU}, kDevice{DeviceType::kPrivateUse1, 1};

void expect_not_implemented(const std::function<void()>& f, const std::string& text) {
  try {
    f();
    FAIL() << "no error: " << text;
  } catch (const NotImplementedError& e) { EXPECT_EQ(std::string(e.what()), text); }
}

std::vector<Device> selected;
// For a test: a library of kDevice is loaded.
class Loaded {
 public:
  Loaded() {
    selected.clear();
    DeviceTable::of(kDevice.type).select = [](Device d) { selected.push_back(d); };
  }
  ~Loaded() {
    DeviceTable::of(kDevice.type) = DeviceTable();
    IndexEngines::of(kDevice.type) = IndexEngines();
    own::Engines::of(kDevice.type) = own::Engines();
    own::OtherEngines::of(kDevice.type) = own::OtherEngines();
  }
};

int device_twice(int x) { return 2 * x + 1000; }
uint64_t flipped = 0;
void device_flip(std::span<const int64_t>, uint64_t mask, const cpu::Operand&, const cpu::Operand&) { flipped = mask; }

TEST(Engine, TheCpuIsNamedDirectly) {
  EXPECT_EQ(TESSERA_ON(kCpu, run_flip), &cpu::run_flip);
  EXPECT_EQ(TESSERA_ON(kCpu, run_reduce), &cpu::run_reduce);
  EXPECT_EQ(TESSERA_ON(kCpu, own_twice)(21), 42);
  // What its table holds plays no part.
  own::Engines::of(DeviceType::kCPU).own_twice = &device_twice;
  EXPECT_EQ(TESSERA_ON(kCpu, own_twice)(21), 42);
  own::Engines::of(DeviceType::kCPU) = own::Engines();
}

TEST(Engine, NoLibraryIsLoaded) {
  const std::string reason = ": no library for this device is loaded";
  expect_not_implemented([] { TESSERA_ON(kDevice, run_flip); },
                         "Could not run 'run_flip' on device " + kDevice.str() + reason);
  expect_not_implemented([] { TESSERA_ON(Device(DeviceType::kXPU), own_twice); },
                         "Could not run 'own_twice' on device xpu" + reason);
  // An entry without a way to choose the device is not enough.
  own::Engines::of(kDevice.type).own_twice = &device_twice;
  expect_not_implemented([] { TESSERA_ON(kDevice, own_twice); },
                         "Could not run 'own_twice' on device " + kDevice.str() + reason);
  own::Engines::of(kDevice.type) = own::Engines();
}

TEST(Engine, EntriesOfTheCore) {
  const Loaded loaded;
  IndexEngines::of(kDevice.type).run_flip = &device_flip;
  TESSERA_ON(kDevice, run_flip)({}, 5, {}, {});
  EXPECT_EQ(flipped, 5u);
  EXPECT_EQ(selected, std::vector<Device>{kDevice});
  EXPECT_EQ(TESSERA_ON(kCpu, run_flip), &cpu::run_flip);
  EXPECT_EQ(selected.size(), 1u);  // the CPU needs no choice
}

TEST(Engine, EntriesOfALibraryOfItsOwn) {
  const Loaded loaded;
  own::Engines::of(kDevice.type).own_twice = &device_twice;
  EXPECT_EQ(TESSERA_ON(kDevice, own_twice)(21), 1042);
  const Device other(kDevice.type, 0);
  EXPECT_EQ(TESSERA_ON(other, own_twice)(1), 1002);
  EXPECT_EQ(selected, (std::vector<Device>{kDevice, other}));
}

TEST(Engine, EachLibraryAndDeviceHasItsOwnTable) {
  const Loaded loaded;
  own::Engines::of(kDevice.type).own_twice = &device_twice;
  EXPECT_EQ(own::OtherEngines::of(kDevice.type).own_twice, nullptr);
  EXPECT_EQ(own::Engines::of(DeviceType::kXPU).own_twice, nullptr);
  EXPECT_EQ(engine(kDevice, &cpu::own_twice, &own::Engines::own_twice, "own_twice"), &device_twice);
  expect_not_implemented([] { engine(kDevice, &cpu::own_twice, &own::OtherEngines::own_twice, "own_twice"); },
                         "Could not run 'own_twice' on device " + kDevice.str() + ": its library has no such function");
}

TEST(Engine, ANullEntryRaises) {
  const Loaded loaded;
  own::Engines::of(kDevice.type).own_twice = &device_twice;
  const std::string reason = ": its library has no such function";
  expect_not_implemented([] { TESSERA_ON(kDevice, own_thrice); },
                         "Could not run 'own_thrice' on device " + kDevice.str() + reason);
  expect_not_implemented([] { TESSERA_ON(kDevice, run_flip); },
                         "Could not run 'run_flip' on device " + kDevice.str() + reason);
  EXPECT_EQ(TESSERA_ON(kCpu, own_thrice)(5), 15);
}

TEST(Engine, TablesStartEmpty) {
#define EXPECT_NULL(name) EXPECT_EQ(table.name, nullptr) << #name;
#define EXPECT_EMPTY(Table, ENGINES)                  \
  {                                                   \
    const Table& table = Table::of(DeviceType::kXPU); \
    ENGINES(EXPECT_NULL)                              \
  }
  EXPECT_EMPTY(PointwiseEngines, TESSERA_POINTWISE_ENGINES)
  EXPECT_EMPTY(ReduceEngines, TESSERA_REDUCE_ENGINES)
  EXPECT_EMPTY(SortEngines, TESSERA_SORT_ENGINES)
  EXPECT_EMPTY(IndexEngines, TESSERA_INDEX_ENGINES)
  EXPECT_EMPTY(FunctionEngines, TESSERA_FUNCTION_ENGINES)
  EXPECT_EMPTY(RandomEngines, TESSERA_RANDOM_ENGINES)
  EXPECT_EMPTY(GemmEngines, TESSERA_GEMM_ENGINES)
#undef EXPECT_EMPTY
#undef EXPECT_NULL
  EXPECT_EQ(GemmEngines::of(DeviceType::kXPU).gemm_bias, nullptr);
  EXPECT_EQ(DeviceTable::of(DeviceType::kXPU).select, nullptr);
  EXPECT_EQ(DeviceTable::of(DeviceType::kXPU).transfer, nullptr);
}

}  // namespace
}  // namespace tessera
