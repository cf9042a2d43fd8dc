#include "nn/attention_choice.h"

#include <atomic>

namespace tessera {
namespace {
enum : unsigned { kFlash = 1, kOtherFused = 2, kDefinition = 4 };
std::atomic<unsigned> g_choice{kFlash | kOtherFused | kDefinition};
}  // namespace

AttentionChoice attention_choice() {
  const unsigned c = g_choice.load(std::memory_order_relaxed);
  return {(c & kFlash) != 0, (c & kOtherFused) != 0, (c & kDefinition) != 0};
}
void set_attention_choice(const AttentionChoice& c) {
  g_choice.store((c.flash ? kFlash : 0u) | (c.other_fused ? kOtherFused : 0u) | (c.definition ? kDefinition : 0u),
                 std::memory_order_relaxed);
}

}  // namespace tessera
