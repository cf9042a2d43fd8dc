#include "func/levels.h"

#include <atomic>
#include <utility>

#include "func/front.h"

namespace tessera::func {
namespace {

constexpr uint64_t kFrontBit = DispatchKeySet(DispatchKey::kFuncTorchDynamicLayerFrontMode).bits();

// Never destroyed: a thread may end after the rest.
std::vector<Level>& stack() {
  static thread_local auto* s = new std::vector<Level>;
  return *s;
}

void update_included() {
  thread_state.included = stack().empty() ? thread_state.included & ~kFrontBit : thread_state.included | kFrontBit;
}

int64_t push(Level level) {
  static std::atomic<int64_t> next{1};
  register_kernels();
  level.id = next++;
  level.outer_grad = thread_state.grad_enabled;
  level.outer_forward = thread_state.forward_grad_enabled;
  level.outer_excluded = thread_state.excluded;
  const int64_t id = level.id;
  stack().push_back(std::move(level));
  update_included();
  return id;
}

}  // namespace

const std::vector<Level>& levels() { return stack(); }
Level* top_level() { return stack().empty() ? nullptr : &stack().back(); }
Level* find_level(int64_t id) {
  for (Level& l : stack())
    if (l.id == id) return &l;
  return nullptr;
}

int64_t push_vmap(int64_t batch_size, Randomness randomness) {
  Level l;
  l.kind = Kind::kVmap;
  l.batch_size = batch_size;
  l.randomness = randomness;
  return push(l);
}
int64_t push_grad() {
  Level l;
  l.kind = Kind::kGrad;
  const int64_t id = push(l);
  thread_state.grad_enabled = true;
  return id;
}
int64_t push_jvp() {
  Level l;
  l.kind = Kind::kJvp;
  l.tangents = make_intrusive<autograd::TangentLevel>(/*of_transform=*/true);
  const int64_t id = push(std::move(l));
  thread_state.forward_grad_enabled = true;
  thread_state.excluded &= ~DispatchKeySet(DispatchKey::kForward).bits();  // a rule of forward mode may begin one
  return id;
}

int64_t push_functional(bool removes_views) {
  Level l;
  l.kind = Kind::kFunctional;
  l.removes_views = removes_views;
  return push(std::move(l));
}
int64_t push_tape() {
  Level l;
  l.kind = Kind::kTape;
  l.tape = make_intrusive<Tape>();
  return push(std::move(l));
}

namespace {
void pop_innermost() {
  const Level l = std::move(stack().back());
  stack().pop_back();
  thread_state.grad_enabled = l.outer_grad;
  thread_state.forward_grad_enabled = l.outer_forward;
  thread_state.excluded = l.outer_excluded;
  update_included();
  if (l.tangents) l.tangents->close();
}
}  // namespace

void pop_level(int64_t id) {
  const bool innermost = !stack().empty() && stack().back().id == id;
  if (!innermost && find_level(id))
    while (stack().back().id != id) pop_innermost();
  if (find_level(id)) pop_innermost();
  TESSERA_CHECK(innermost, "the levels of function transforms must end in the reverse order of their beginning");
}

void LevelScope::close() {
  const int64_t id = std::exchange(id_, 0);
  if (id && !stack().empty() && stack().back().id == id) pop_level(id);
}

Hidden::Hidden()
    : level_(std::move(stack().back())),
      grad_(thread_state.grad_enabled),
      forward_(thread_state.forward_grad_enabled),
      excluded_(thread_state.excluded) {
  stack().pop_back();
  if (level_.kind == Kind::kGrad || level_.kind == Kind::kJvp) thread_state.grad_enabled = grad_ && level_.outer_grad;
  if (level_.kind == Kind::kJvp) thread_state.forward_grad_enabled = forward_ && level_.outer_forward;
  thread_state.excluded = level_.outer_excluded;
  update_included();
}
Hidden::~Hidden() {
  stack().push_back(std::move(level_));
  thread_state.grad_enabled = grad_;
  thread_state.forward_grad_enabled = forward_;
  thread_state.excluded = excluded_;
  update_included();
}

}  // namespace tessera::func
