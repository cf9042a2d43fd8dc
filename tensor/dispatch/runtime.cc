#include "tensor/dispatch/runtime.h"

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/runtime_state.h"

namespace tessera {

// Registrations are rare and calls are many: readers take no lock. A slot points to an immutable kernel; replaced
// kernels stay allocated (a few bytes for each registration in the life of the process), so a call that has just read
// one may go on using it. What a boxed kernel holds is released when its registration goes.
namespace {
constexpr int kTableSize = 160;  // keys and aliases
struct Entry {
  uint64_t id;
  RuntimeKernel* kernel;
};
using Table = std::array<std::atomic<RuntimeKernel*>, kTableSize>;
std::mutex& mutex() {
  static auto* m = new std::mutex;
  return *m;
}
uint64_t g_next_id = 1;
}  // namespace

struct OpExtension {
  Table current{};
  std::unordered_map<int, std::vector<Entry>> stacks;
  AnyKernel trampoline = nullptr;
};

namespace {
OpExtension& fallbacks() {
  static auto* e = new OpExtension;
  return *e;
}

void refresh(OpExtension& e, int key) {
  auto& stack = e.stacks[key];
  e.current[key].store(stack.empty() ? nullptr : stack.back().kernel, std::memory_order_release);
}

uint64_t push(OpExtension& e, DispatchKey key, RuntimeKernel kernel) {
  const uint64_t id = g_next_id++;
  e.stacks[static_cast<int>(key)].push_back({id, new RuntimeKernel(std::move(kernel))});
  refresh(e, static_cast<int>(key));
  return id;
}

// A kernel for a layer makes that layer take part in every call of the op, as the tensors' own keys do. Not those above
// Profiler: they belong to modes, which the thread is in or not (autocast), and to tensors of their own (batched ones).
void update_forced_keys(const OpHeader& op) {
  uint64_t forced = 0;
  if (!op.ext->stacks[static_cast<int>(DispatchKey::kAutograd)].empty())
    forced |= DispatchKeySet(DispatchKey::kAutogradCPU).bits();
  for (int k = static_cast<int>(DispatchKey::kADInplaceOrView); k <= static_cast<int>(DispatchKey::kProfiler); ++k)
    if (!op.ext->stacks[k].empty()) forced |= uint64_t{1} << k;
  op.forced_keys = forced;
}
}  // namespace

namespace internal {
const RuntimeKernel* extension_kernel(const OpHeader& op, DispatchKey key) {
  if (!op.ext) return nullptr;
  if (const RuntimeKernel* k = op.ext->current[static_cast<int>(key)].load(std::memory_order_acquire)) return k;
  if (kAutogradKeys.has(key) && static_cast<int>(key) < 64)
    return op.ext->current[static_cast<int>(DispatchKey::kAutograd)].load(std::memory_order_acquire);
  return nullptr;
}
const RuntimeKernel* fallback_kernel(DispatchKey key) {
  return fallbacks().current[static_cast<int>(key)].load(std::memory_order_acquire);
}
AnyKernel kernel_function(const OpHeader& op, const RuntimeKernel& k) {
  if (k.typed) return k.typed;
  if (op.ext && op.ext->trampoline) return op.ext->trampoline;
  return op.info ? op.info->adapter->trampoline() : nullptr;
}
bool serves(const RuntimeKernel* k, const OpHeader& op) {
  if (!k || k->fallthrough) return false;
  const bool boxed_calls = op.info && !op.info->adapter->trampoline();
  return boxed_calls || kernel_function(op, *k);
}
}  // namespace internal

void call_boxed_kernel(CallContext ctx, const Value* args, size_t num_args, Value* rets, size_t num_rets) {
  const DispatchKey key = ctx.keys.highest();
  const RuntimeKernel* k = internal::extension_kernel(*ctx.op, key);  // the order is find_kernel's
  if (key <= DispatchKey::kBackendSelect) {
    for (DispatchKey alias : {DispatchKey::kCompositeExplicitAutograd, DispatchKey::kCompositeImplicitAutograd})
      if (!k || !k->boxed) k = internal::extension_kernel(*ctx.op, alias);
  }
  if (!k || !k->boxed) k = internal::fallback_kernel(key);
  TESSERA_CHECK(k && k->boxed, "no boxed kernel of ", ctx.op->name, " for ", key_name(key),
                ": it was removed while it was being called");
  const IntrusivePtr<BoxedEntry> entry = k->boxed;  // stays alive for this call
  entry->kernel(entry->context, *ctx.op, ctx.keys, args, num_args, rets, num_rets);
}

Registration register_kernel(const OpHeader& op, DispatchKey key, RuntimeKernel kernel, AnyKernel trampoline) {
  std::lock_guard lock(mutex());
  if (!op.ext) op.ext = new OpExtension;
  if (trampoline) op.ext->trampoline = trampoline;
  Registration r;
  r.op_ = &op;
  r.key_ = key;
  r.id_ = push(*op.ext, key, std::move(kernel));
  update_forced_keys(op);
  return r;
}

Registration register_fallback(DispatchKey key, RuntimeKernel kernel) {
  std::lock_guard lock(mutex());
  Registration r;
  r.key_ = key;
  r.id_ = push(fallbacks(), key, std::move(kernel));
  return r;
}

Registration::Registration(Registration&& o) noexcept : op_(o.op_), key_(o.key_), id_(std::exchange(o.id_, 0)) {}
Registration& Registration::operator=(Registration&& o) noexcept {
  release();
  op_ = o.op_;
  key_ = o.key_;
  id_ = std::exchange(o.id_, 0);
  return *this;
}
Registration::~Registration() { release(); }

void Registration::release() {
  if (!id_) return;
  IntrusivePtr<BoxedEntry> dropped;  // destroyed after the lock: it may run foreign code
  {
    std::lock_guard lock(mutex());
    OpExtension& e = op_ ? *op_->ext : fallbacks();
    auto& stack = e.stacks[static_cast<int>(key_)];
    for (size_t i = 0; i < stack.size(); ++i) {
      if (stack[i].id != id_) continue;
      dropped = stack[i].kernel->boxed;
      RuntimeKernel* gone = stack[i].kernel;
      stack.erase(stack.begin() + static_cast<int64_t>(i));
      refresh(e, static_cast<int>(key_));
      gone->boxed.reset();
      break;
    }
    if (op_) update_forced_keys(*op_);
  }
  id_ = 0;
}

bool has_kernel(const OpHeader& op, DispatchKey key) {
  if (internal::extension_kernel(op, key)) return true;
  if (key == DispatchKey::kCompositeExplicitAutograd)
    return op.slots()[static_cast<int>(Slot::kCompositeExplicit)] != nullptr;
  if (key == DispatchKey::kCompositeImplicitAutograd)
    return op.slots()[static_cast<int>(Slot::kCompositeImplicit)] != nullptr;
  if (static_cast<int>(key) >= 64) return false;
  const uint8_t slot = kSlotOfKey[static_cast<int>(key)];
  return slot != kNoSlot && op.slots()[slot];
}

std::vector<Step> explain_dispatch(const OpHeader& op, DispatchKeySet keys) {
  std::vector<Step> steps;
  for (;;) {
    const internal::Found found = internal::find_kernel(op, keys, [&](DispatchKey skipped) {
      steps.push_back({skipped, "skipped"});
    });
    steps.push_back({keys.highest(), found.what});
    if (found.what != internal::kMaterialised) return steps;
    keys = keys - (DispatchKeySet(DispatchKey::kConjugate) | DispatchKey::kNegative);
  }
}

}  // namespace tessera
