// The engines of neural networks: which functions serve a device.
#pragma once

#include "nn/cpu/attention/attention.h"
#include "nn/cpu/conv/conv.h"
#include "nn/cpu/embedding.h"
#include "nn/cpu/loss.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/pool.h"
#include "tensor/engine/engine.h"

namespace tessera::nn {

// A device library's engines. A null entry: the operators that need it raise NotImplementedError.
struct Engines : EngineTable<Engines> {
#define TESSERA_ENGINE(name) decltype(&cpu::name) name = nullptr;
#include "nn/engine/engines.inc"
#undef TESSERA_ENGINE
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENGINE(name) inline constexpr auto name = &nn::Engines::name;
#include "nn/engine/engines.inc"
#undef TESSERA_ENGINE
}  // namespace tessera::engine_entries
