// Kernels that come and go while the program runs; fallthrough; fallbacks; boxed calls in both directions.
#include "tensor/dispatch/runtime.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/dispatch/registry.h"

namespace tessera {

// tensor/ops, which lies above, has those of programs.
namespace internal {
namespace {
int g_materialised = 0;
}
Tensor materialize_bits(const Tensor& t) {
  ++g_materialised;
  return t;
}
void write_back(const Tensor&, const Tensor&) { ADD_FAILURE() << "nothing is written"; }
}  // namespace internal

namespace {

using Sig = int64_t(const Tensor&, int64_t);
using Kernel = Op<Sig>::Kernel;

// Each kernel says who it is: hundreds; the argument is added.
template <int64_t who>
int64_t kernel(CallContext, const Tensor&, int64_t x) {
  return 100 * who + x;
}
template <int64_t who>
RuntimeKernel typed() {
  return {.typed = reinterpret_cast<AnyKernel>(static_cast<Kernel>(&kernel<who>))};
}

// A boxed kernel that is never to be called.
RuntimeKernel boxed_nothing() {
  RuntimeKernel k;
  k.boxed = make_intrusive<BoxedEntry>();
  k.boxed->kernel = [](void*, const OpHeader&, DispatchKeySet, const Value*, size_t, Value*, size_t) {
    ADD_FAILURE() << "called";
  };
  return k;
}

// With kernels for the CPU (1) and Autograd (2); with one for CUDA alone; with a composite one (4) alone.
constinit Op<Sig> both{{"test::both", "", nullptr, 0, 0}, {&kernel<1>, nullptr, nullptr, &kernel<2>}};
constinit Op<Sig> cuda_only{{"test::cuda_only", "over", nullptr, 0, 0}, {nullptr, &kernel<3>}};
constinit Op<Sig> composite{{"test::composite", "", nullptr, 0, 0},
                            {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &kernel<4>}};

Tensor tensor() { return empty_kernel(IntVector{2}, DType::kFloat32); }

void expect_error(const std::function<void()>& f, const char* text) {
  try {
    f();
    FAIL() << "no error: " << text;
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what(); }
}

TEST(Runtime, TheNewestKernelWinsUntilItGoes) {
  const Tensor t = tensor();
  EXPECT_EQ(both.call(t, 7), 107);
  {
    Registration first = register_kernel(both, DispatchKey::kCPU, typed<5>(), nullptr);
    EXPECT_EQ(both.call(t, 7), 507);
    Registration second = register_kernel(both, DispatchKey::kCPU, typed<6>(), nullptr);
    EXPECT_EQ(both.call(t, 7), 607);
    first.release();  // not the one at work
    EXPECT_EQ(both.call(t, 7), 607);
    Registration moved = std::move(second);
    EXPECT_EQ(both.call(t, 7), 607);
    moved = register_kernel(both, DispatchKey::kCPU, typed<8>(), nullptr);  // the old one is gone
    EXPECT_EQ(both.call(t, 7), 807);
  }
  EXPECT_EQ(both.call(t, 7), 107);
}

TEST(Runtime, OtherOpsAreLeftAlone) {
  const Registration r = register_kernel(both, DispatchKey::kCPU, typed<5>(), nullptr);
  EXPECT_EQ(composite.call(tensor(), 7), 407);
}

TEST(Runtime, AKernelForABackendThatHadNone) {
  expect_error([] { cuda_only.call(tensor(), 0); },
               "Could not run 'test::cuda_only.over' with arguments from the 'CPU' backend. 'test::cuda_only.over' is "
               "only available for these backends: [CUDA].");
  EXPECT_FALSE(has_kernel(cuda_only, DispatchKey::kCPU));
  {
    const Registration r = register_kernel(cuda_only, DispatchKey::kCPU, typed<5>(), nullptr);
    EXPECT_TRUE(has_kernel(cuda_only, DispatchKey::kCPU));
    EXPECT_EQ(cuda_only.call(tensor(), 1), 501);
  }
  EXPECT_THROW(cuda_only.call(tensor(), 0), NotImplementedError);
}

TEST(Runtime, CompositeAliasesServeBackends) {
  const Registration implicit =
      register_kernel(cuda_only, DispatchKey::kCompositeImplicitAutograd, typed<5>(), nullptr);
  EXPECT_EQ(cuda_only.call(tensor(), 0), 500);
  const Registration explicit_ =
      register_kernel(cuda_only, DispatchKey::kCompositeExplicitAutograd, typed<6>(), nullptr);
  EXPECT_EQ(cuda_only.call(tensor(), 0), 600);
  Registration own = register_kernel(cuda_only, DispatchKey::kCPU, typed<7>(), nullptr);
  EXPECT_EQ(cuda_only.call(tensor(), 0), 700);
  own.release();
  EXPECT_EQ(cuda_only.call(tensor(), 0), 600);
  EXPECT_TRUE(has_kernel(cuda_only, DispatchKey::kCompositeImplicitAutograd));
}

// --- Layers.

// Adds 1,000 to what the layers below it say.
int64_t layer(CallContext ctx, const Tensor& t, int64_t x) {
  const auto& op = static_cast<const Op<Sig>&>(*ctx.op);
  return 1000 + op.redispatch(ctx.keys & DispatchKeySet::below(ctx.keys.highest()), t, x);
}
RuntimeKernel typed_layer() { return {.typed = reinterpret_cast<AnyKernel>(static_cast<Kernel>(&layer))}; }

TEST(Runtime, ALayerTakesPartInEveryCallOfItsOp) {
  const Tensor t = tensor();
  Registration tracer = register_kernel(both, DispatchKey::kTracer, typed_layer(), nullptr);
  EXPECT_EQ(both.call(t, 7), 1107);
  const Registration profiler = register_kernel(both, DispatchKey::kProfiler, typed_layer(), nullptr);
  EXPECT_EQ(both.call(t, 7), 2107);
  EXPECT_EQ(composite.call(t, 7), 407);
  {
    const ExcludeKeys without(DispatchKey::kProfiler);
    EXPECT_EQ(both.call(t, 7), 1107);
  }
  tracer.release();
  EXPECT_EQ(both.call(t, 7), 1107);
}

TEST(Runtime, TheAutogradAliasServesAllBackends) {
  const Tensor t = tensor();
  const Tensor wants = tensor().requires_grad_();
  EXPECT_EQ(both.call(wants, 7), 207);
  const Registration r = register_kernel(both, DispatchKey::kAutograd, typed<5>(), nullptr);
  EXPECT_EQ(both.call(wants, 7), 507);
  EXPECT_EQ(both.call(t, 7), 507);
}

TEST(Runtime, FallthroughSkipsALayer) {
  const Tensor wants = tensor().requires_grad_();
  {
    const Registration r = register_kernel(both, DispatchKey::kAutogradCPU, {.fallthrough = true}, nullptr);
    EXPECT_EQ(both.call(wants, 7), 107);
  }
  EXPECT_EQ(both.call(wants, 7), 207);
}

TEST(Runtime, WaysOfCallsAreExplained) {
  const Tensor wants = tensor().requires_grad_();
  auto last = [&](const Op<Sig>& op) { return std::string(explain_dispatch(op, wants.keys()).back().what); };
  EXPECT_EQ(last(both), "slot");
  EXPECT_EQ(explain_dispatch(both, wants.keys()).back().key, DispatchKey::kAutogradCPU);
  EXPECT_EQ(last(composite), "CompositeImplicit");
  EXPECT_EQ(last(cuda_only), "no kernel");
  const Registration r = register_kernel(cuda_only, DispatchKey::kCPU, typed<5>(), nullptr);
  EXPECT_EQ(last(cuda_only), "run-time kernel");
  const std::vector<Step> steps = explain_dispatch(cuda_only, wants.keys());
  EXPECT_STREQ(steps.front().what, "skipped");
  EXPECT_EQ(steps.back().key, DispatchKey::kCPU);
}

TEST(Runtime, ALayerOfAModeTakesPartInThatModeAlone) {
  const Tensor t = tensor();
  const Registration r = register_kernel(both, DispatchKey::kAutocastCPU, typed_layer(), nullptr);
  EXPECT_EQ(both.call(t, 7), 107);
  const IncludeKeys in(DispatchKey::kAutocastCPU);
  EXPECT_EQ(both.call(t, 7), 1107);
}

// --- Explanations are what calls do.

std::vector<std::string> way(const OpHeader& op, DispatchKeySet keys) {
  std::vector<std::string> text;
  for (const Step& s : explain_dispatch(op, keys)) text.push_back(std::string(key_name(s.key)) + ": " + s.what);
  return text;
}
using Way = std::vector<std::string>;

TEST(Explain, AFallthroughSkipsTheLayersSlot) {
  const Tensor wants = tensor().requires_grad_();
  const Registration skip = register_kernel(both, DispatchKey::kAutogradCPU, {.fallthrough = true}, nullptr);
  EXPECT_EQ(both.call(wants, 7), 107);
  EXPECT_EQ(way(both, wants.keys()).back(), "CPU: slot");
  EXPECT_EQ(way(both, wants.keys()).front(), "AutogradCPU: skipped");
}

TEST(Explain, AnExtensionWithoutAKernelForTheLayer) {
  const Tensor wants = tensor().requires_grad_();
  const Registration other = register_kernel(composite, DispatchKey::kCUDA, typed<5>(), nullptr);
  EXPECT_EQ(composite.call(wants, 7), 407);
  EXPECT_EQ(way(composite, wants.keys()).back(), "CPU: CompositeImplicit");
}

TEST(Explain, AliasesOfRunTimeComeBeforeCompositeSlots) {
  const Tensor wants = tensor().requires_grad_();
  const Registration implicit =
      register_kernel(composite, DispatchKey::kCompositeImplicitAutograd, typed<5>(), nullptr);
  EXPECT_EQ(composite.call(wants, 7), 507);
  EXPECT_EQ(way(composite, wants.keys()).back(), "CPU: run-time kernel");
  const Registration own = register_kernel(cuda_only, DispatchKey::kCompositeExplicitAutograd, typed<6>(), nullptr);
  EXPECT_EQ(cuda_only.call(wants, 7), 607);
  EXPECT_EQ(way(cuda_only, wants.keys()).back(), "CPU: run-time kernel");
}

TEST(Explain, AFallbackThatNothingCanBoxIsSkipped) {
  const Registration r = register_fallback(DispatchKey::kPreDispatch, boxed_nothing());
  const DispatchKeySet keys = tensor().keys() | DispatchKey::kPreDispatch;
  const IncludeKeys in(DispatchKey::kPreDispatch);
  EXPECT_EQ(both.call(tensor(), 7), 107);  // has no OpInfo
  EXPECT_EQ(way(both, keys), (Way{"PreDispatch: skipped", "CPU: slot"}));
}

TEST(Explain, OpsWithoutTensorsTakeTheCpu) {
  EXPECT_EQ(way(both, {}), (Way{"Undefined: slot"}));
  EXPECT_EQ(way(cuda_only, {}), (Way{"Undefined: no kernel"}));
}

TEST(Explain, LazyBits) {
  const DispatchKeySet keys = tensor().keys() | DispatchKey::kConjugate;
  EXPECT_EQ(way(both, keys), (Way{"Conjugate: bits materialised", "CPU: slot"}));
  const Tensor t = tensor();
  t.impl()->set_conj(true);
  internal::g_materialised = 0;
  EXPECT_EQ(both.call(t, 7), 107);
  EXPECT_EQ(internal::g_materialised, 1);
}

// --- Boxed kernels.

struct Seen {
  int64_t calls = 0, x = 0;
  bool destroyed = false;
};
void boxed_kernel(void* context, const OpHeader&, DispatchKeySet, const Value* args, size_t num_args, Value* rets,
                  size_t num_rets) {
  auto& seen = *static_cast<Seen*>(context);
  ++seen.calls;
  ASSERT_EQ(num_args, 2u);
  ASSERT_EQ(num_rets, 1u);
  seen.x = args[1].integer();
  rets[0] = Value::of(args[0].tensor().numel());
}
RuntimeKernel boxed(Seen* seen, BoxedKernel f = &boxed_kernel) {
  RuntimeKernel k;
  k.boxed = make_intrusive<BoxedEntry>();
  k.boxed->kernel = f;
  k.boxed->context = seen;
  k.boxed->destroy = [](void* context) { static_cast<Seen*>(context)->destroyed = true; };
  return k;
}

TEST(Boxed, AKernelForATypedOp) {
  Seen seen;
  {
    const Registration r = register_kernel(both, DispatchKey::kCPU, boxed(&seen), kAdapter<Sig>.trampoline());
    EXPECT_EQ(both.call(tensor(), 7), 2);
    EXPECT_EQ(seen.calls, 1);
    EXPECT_EQ(seen.x, 7);
    EXPECT_FALSE(seen.destroyed);
  }
  EXPECT_TRUE(seen.destroyed);
  EXPECT_EQ(both.call(tensor(), 7), 107);
}

using InPlace = const Tensor&(const Tensor&, double);
constinit Op<InPlace> write{{"test::write_", "", nullptr, 1, kIsInplace}, {}};

TEST(Boxed, AnInPlaceKernelReturnsItsArgument) {
  Seen seen;
  const Registration r = register_kernel(
      write, DispatchKey::kCPU,
      boxed(&seen, [](void*, const OpHeader&, DispatchKeySet, const Value* args, size_t, Value*,
                      size_t) { args[0].tensor().data<float>()[0] = static_cast<float>(args[1].number()); }),
      kAdapter<InPlace>.trampoline());
  const Tensor t = tensor();
  EXPECT_TRUE(write.call(t, 2.5).is_same(t));
  EXPECT_EQ(t.data<float>()[0], 2.5f);
}

const OpInfo composite_info = {.op = &composite, .adapter = &kAdapter<Sig>, .pool = ""};

// Calls what is below the layer that it stands for, boxed.
void pass_on(void* context, const OpHeader& op, DispatchKeySet keys, const Value* args, size_t, Value* rets, size_t) {
  ++static_cast<Seen*>(context)->calls;
  const DispatchKeySet below = keys & DispatchKeySet::below(keys.highest());
  op.info->adapter->call(op, &below, args, rets);
}

TEST(Boxed, AFallbackServesEveryOpAtItsKey) {
  composite.info = &composite_info;  // tells how to box it
  Seen seen;
  {
    const Registration r = register_fallback(DispatchKey::kPreDispatch, boxed(&seen, &pass_on));
    EXPECT_EQ(composite.call(tensor(), 7), 407);
    EXPECT_EQ(seen.calls, 0);  // not a layer of these tensors
    const IncludeKeys in(DispatchKey::kPreDispatch);
    EXPECT_EQ(composite.call(tensor(), 7), 407);
    EXPECT_EQ(seen.calls, 1);
    const Registration own = register_kernel(composite, DispatchKey::kPreDispatch, typed<5>(), nullptr);
    EXPECT_EQ(composite.call(tensor(), 7), 507);  // an op's own kernel goes first
    EXPECT_EQ(seen.calls, 1);
  }
  EXPECT_TRUE(seen.destroyed);
  const IncludeKeys in(DispatchKey::kPreDispatch);
  EXPECT_EQ(composite.call(tensor(), 7), 407);
  composite.info = nullptr;
}

using Many = std::vector<Tensor>(const Tensor&, std::optional<int64_t>, double, IntList, std::string_view,
                                 const Scalar&);
std::vector<Tensor> many(CallContext, const Tensor& t, std::optional<int64_t> n, double x, IntList l,
                         std::string_view s, const Scalar& number) {
  EXPECT_FALSE(t.defined());
  EXPECT_FALSE(n);
  EXPECT_EQ(x, 3);
  EXPECT_EQ(IntVector(l.begin(), l.end()), (IntVector{4, 5}));
  EXPECT_EQ(s, "text");
  EXPECT_EQ(number.to_double(), 2.5);
  return {tensor(), tensor(), tensor()};
}
constinit Op<Many> all_kinds{{"test::all_kinds", "", nullptr, 0, 0}, {&many}};

template <class... A>
int64_t sum(CallContext, A... a) {
  return (... + a);
}
using Long = int64_t(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                     int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
constinit Op<Long> many_numbers{{"test::many_numbers", "", nullptr, 0, 0}, {&sum}};

TEST(Boxed, CallsOfATypedOp) {
  const IntVector list = {4, 5};
  Value args[] = {Value::none(),
                  Value::none(),
                  Value::of(int64_t{3}),  // an int where a float is wanted
                  Value::borrow(IntList(list)),
                  Value::borrow(std::string_view("text")),
                  Value::of(2.5)};
  Value result;
  kAdapter<Many>.call(all_kinds, nullptr, args, &result);
  ASSERT_TRUE(result.is_tensor_list());
  EXPECT_EQ(result.tensor_list().size(), 3u);
  args[3] = Value::of(2.5);
  expect_error([&] { kAdapter<Many>.call(all_kinds, nullptr, args, &result); }, "int[]");
}

TEST(Boxed, CompactCallsOfATypedOp) {
  const IntVector list = {4, 5};
  Value args[] = {Value::none(),
                  Value::none(),
                  Value::of(int64_t{3}),
                  Value::borrow(IntList(list)),
                  Value::borrow(std::string_view("text")),
                  Value::of(2.5)};
  Value result;
  kCompactAdapter<Many>.call(all_kinds, nullptr, args, &result);
  ASSERT_TRUE(result.is_tensor_list());
  EXPECT_EQ(result.tensor_list().size(), 3u);
  args[3] = Value::of(2.5);
  expect_error([&] { kCompactAdapter<Many>.call(all_kinds, nullptr, args, &result); }, "int[]");
  // More arguments than a call holds on the stack.
  Value numbers[20];
  for (int i = 0; i < 20; ++i) numbers[i] = Value::of(int64_t{i});
  kCompactAdapter<Long>.call(many_numbers, nullptr, numbers, &result);
  EXPECT_EQ(result.integer(), 190);
}

TEST(Boxed, CallsBelowALayer) {
  const Tensor wants = tensor().requires_grad_();
  const Value args[] = {Value::of(wants), Value::of(int64_t{7})};
  Value result;
  kAdapter<Sig>.call(both, nullptr, args, &result);
  EXPECT_EQ(result.integer(), 207);
  const DispatchKeySet below(DispatchKey::kCPU);
  kAdapter<Sig>.call(both, &below, args, &result);
  EXPECT_EQ(result.integer(), 107);
}

}  // namespace
}  // namespace tessera
