// How an operator reaches the engine of its tensors' device. Operators of all libraries are written once, for every
// device: shapes, dtypes and errors in tensor/ops, nn ..., memory behind tables of functions, one table for each family
// of kernels:
//
//   #define TESSERA_SORT_ENGINES(F) F(run_sort) F(run_topk)  // tensor/engine/sort.h: functions of tensor/cpu/sort
//   struct SortEngines : EngineTable<SortEngines> {
//     TESSERA_SORT_ENGINES(TESSERA_ENGINE_MEMBER)
//   };
//   // By which TESSERA_ON finds them.
//   namespace engine_entries { inline constexpr auto run_sort = &SortEngines::run_sort; ... }
#pragma once

#include "tensor/core/device.h"

namespace tessera {

// SortEngines::of(t): the table of a device type. The device's library fills it when it is loaded.
template <class Table>
struct EngineTable {
  static Table& of(DeviceType t) {
    static Table tables[kNumDeviceTypes];
    return tables[static_cast<int>(t)];
  }
};
// For lists of engines. In a table: of the CPU's type. Null: the operators that need it raise NotImplementedError.
#define TESSERA_ENGINE_MEMBER(name) decltype(&::tessera::cpu::name) name = nullptr;
// In a device's library: a function of the same signature and meaning for its own memory, and its place in `engines`.
#define TESSERA_ENGINE_DECLARATION(name) decltype(::tessera::cpu::name) name;
#define TESSERA_ENGINE_CONNECTION(name) engines.name = &name;

namespace internal {
// Makes `d` the device that the calling thread's engine calls work on; its type. NotImplementedError where no library
// for it is loaded.
[[gnu::cold]] DeviceType select_device(Device d, const char* name);
[[noreturn]] void missing_engine(Device d, const char* name);
}  // namespace internal

// The CPU's function is named where it is called, so that a program links the engines that its operators use, and no
// others.
template <class F, class Table>
F* engine(Device d, F* cpu, F* Table::*other, const char* name) {
  if (d.is_cpu()) [[likely]]
    return cpu;
  F* f = Table::of(internal::select_device(d, name)).*other;
  if (!f) internal::missing_engine(d, name);
  return f;
}
#define TESSERA_ON(device, name) \
  ::tessera::engine((device), &::tessera::cpu::name, ::tessera::engine_entries::name, #name)

}  // namespace tessera
