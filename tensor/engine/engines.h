// Which engines serve a tensor. Operators of all libraries are written once, for every device: shapes, dtypes and errors in tensor/ops, nn ..., memory behind this table.
#pragma once

#include "tensor/core/device.h"
#include "tensor/cpu/attention.h"
#include "tensor/cpu/create.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/gemm_scaled.h"
#include "tensor/cpu/index.h"
#include "tensor/cpu/nn.h"
#include "tensor/cpu/pointwise.h"
#include "tensor/cpu/pointwise_ops.h"
#include "tensor/cpu/random.h"
#include "tensor/cpu/reduce.h"
#include "tensor/cpu/special.h"
#include "tensor/cpu/statistics.h"
#include "tensor/engine/steps.h"

namespace tessera {

// A device library's engines. A null entry: the operators that need it raise NotImplementedError.
struct Engines {
#define TESSERA_ENGINE(name) decltype(&cpu::name) name = nullptr;
#include "tensor/engine/engines.inc"
#undef TESSERA_ENGINE
  // May be null: then parameters are stepped one after the other.
  SgdSteps* sgd_steps = nullptr;
  AdamSteps* adam_steps = nullptr;
  // May be null: then a bias is added on its own.
  GemmBias* gemm_bias = nullptr;
  // May be null: then lists are gone through tensor by tensor.
  ListCalls* list_call = nullptr;
  // Makes `device` the one that the calling thread's engine calls work on.
  void (*select)(Device device) = nullptr;
  // Between host and device, or two devices: n bytes, dense. non_blocking: it may end later, in stream order, if the host memory is pinned.
  void (*transfer)(void* dst, Device dst_device, const void* src, Device src_device, size_t n, bool non_blocking) = nullptr;
};

// The table of a device type, filled by its library when loaded (null entries until then).
Engines& engines_of(DeviceType t);

namespace internal {
[[gnu::cold]] const Engines& select_engines(Device d, const char* name);
[[noreturn]] void missing_engine(Device d, const char* name);
}  // namespace internal

// The CPU's function is named where it is called, so that a program links the engines that its operators use, and no others.
template <class F> F* engine(Device d, F* cpu, F* Engines::* other, const char* name) {
  if (d.is_cpu()) [[likely]] return cpu;
  F* f = internal::select_engines(d, name).*other;
  if (!f) internal::missing_engine(d, name);
  return f;
}
#define TESSERA_ON(device, name) ::tessera::engine((device), &::tessera::cpu::name, &::tessera::Engines::name, #name)

}  // namespace tessera
