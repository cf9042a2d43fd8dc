// Attention: which functions serve a device.
#pragma once

#include <cstdint>

#include "nn/cpu/attention/attention.h"
#include "tensor/core/generator/generator.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_ATTENTION_ENGINES(F) \
  F(attention_forward)                  \
  F(attention_backward)

namespace tessera::nn {

// With dropout of the weights, which are never stored: the generator's numbers are found again from `words`, two
// numbers in device memory, which the forward call writes.
using AttentionDropoutForward = void(const cpu::AttentionShape& shape, const cpu::AttentionOperand& query,
                                     const cpu::AttentionOperand& key, const cpu::AttentionOperand& value,
                                     const cpu::AttentionMask& mask, double p, const Generator& gen,
                                     const cpu::AttentionOperand& out, void* logsumexp, uint64_t* words);
using AttentionDropoutBackward = void(const cpu::AttentionShape& shape, const cpu::AttentionOperand& query,
                                      const cpu::AttentionOperand& key, const cpu::AttentionOperand& value,
                                      const cpu::AttentionMask& mask, double p, const uint64_t* words,
                                      const cpu::AttentionOperand& out, const void* logsumexp,
                                      const cpu::AttentionOperand& grad_out, const cpu::AttentionOperand& grad_query,
                                      const cpu::AttentionOperand& grad_key, const cpu::AttentionOperand& grad_value);

// Which weights that is: kept (batch, heads, queries, keys).
using AttentionDropoutKept = void(const cpu::AttentionShape& shape, double p, const uint64_t* words, bool* kept);

struct AttentionEngines : EngineTable<AttentionEngines> {
  TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENGINE_MEMBER)
  // May be null: then weights are dropped by operators.
  AttentionDropoutForward* attention_dropout_forward = nullptr;
  AttentionDropoutBackward* attention_dropout_backward = nullptr;
  AttentionDropoutKept* attention_dropout_kept = nullptr;
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::AttentionEngines::name;
TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
