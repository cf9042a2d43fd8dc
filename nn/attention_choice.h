// Which ways of computing scaled dot product attention the user allows.
#pragma once

#include "tensor/core/device.h"

namespace tessera {

// In blocks (one way, under the names of several), by the definition; process-wide.
struct AttentionChoice {
  bool flash = true;
  bool other_fused = true;  // names of fused kernels that only devices have
  bool definition = true;

  bool blocks(Device device) const { return flash || (other_fused && !device.is_cpu()); }
};
AttentionChoice attention_choice();
void set_attention_choice(const AttentionChoice& choice);

}  // namespace tessera
