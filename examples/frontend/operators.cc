// Operators of one's own, by the documented C++ API: a function with a derivative, an operator of a library with
// kernels for keys, a kernel of a fragment that works for any device, and calls through the dispatcher.
//
// Prints values and gradients.
#include <torch/library.h>
#include <torch/torch.h>

#include <cstdio>

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// x * sigmoid(b x), with what its derivative needs kept: x, sigmoid(b x) and b.
struct Swish : torch::autograd::Function<Swish> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double b) {
    const Tensor s = torch::sigmoid(x * b);
    ctx->save_for_backward({x, s});
    ctx->saved_data["b"] = b;
    return x * s;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &s = saved[1];
    const double b = ctx->saved_data["b"].toDouble();
    return {grads[0] * (s + b * x * s * (1 - s)), Tensor()};
  }
};

// a * b + c, element by element.
Tensor muladd_cpu(const Tensor& a, const Tensor& b, double c) {
  TORCH_CHECK(a.sizes() == b.sizes(), "muladd: shapes differ: ", a.sizes(), " and ", b.sizes());
  TORCH_INTERNAL_ASSERT(a.device().type() == at::DeviceType::CPU);
  const Tensor x = a.contiguous(), y = b.contiguous();
  Tensor result = torch::empty(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "muladd_cpu", [&] {
    const scalar_t *p = x.const_data_ptr<scalar_t>(), *q = y.const_data_ptr<scalar_t>();
    scalar_t* r = result.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, result.numel(), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) r[i] = p[i] * q[i] + static_cast<scalar_t>(c);
    });
  });
  return result;
}

Tensor muladd_meta(const Tensor& a, const Tensor& b, double) {
  TORCH_CHECK(a.sizes() == b.sizes(), "muladd: shapes differ");
  return torch::empty_like(a);
}

// The operator, as anything that asks the dispatcher for it calls it.
Tensor muladd(const Tensor& a, const Tensor& b, double c) {
  static auto op = torch::Dispatcher::singleton()
                       .findSchemaOrThrow("example::muladd", "")
                       .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return op.call(a, b, c);
}

struct MulAdd : torch::autograd::Function<MulAdd> {
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b, double c) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({a, b});
    return muladd(a, b, c);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {grads[0] * saved[1], grads[0] * saved[0], Tensor()};
  }
};

Tensor muladd_autograd(const Tensor& a, const Tensor& b, double c) { return MulAdd::apply(a, b, c); }

// Of other operators, so that it needs no kernels and no derivative.
Tensor distance(const Tensor& a, const Tensor& b) { return (a - b).square().sum(-1).sqrt(); }

void show(const char* name, const Tensor& t) {
  std::printf("%s", name);
  const Tensor flat = t.detach().to(torch::kDouble).flatten().contiguous();
  for (int64_t i = 0; i < flat.numel(); ++i) std::printf(" %.9g", flat.data_ptr<double>()[i]);
  std::printf("\n");
}

}  // namespace

TORCH_LIBRARY(example, m) {
  m.def("muladd(Tensor a, Tensor b, float c) -> Tensor");
  m.def("distance(Tensor a, Tensor b) -> Tensor", distance);
}
TORCH_LIBRARY_IMPL(example, CPU, m) { m.impl("muladd", muladd_cpu); }
TORCH_LIBRARY_IMPL(example, Meta, m) { m.impl("muladd", TORCH_FN(muladd_meta)); }
TORCH_LIBRARY_IMPL(example, Autograd, m) { m.impl("muladd", muladd_autograd); }

// What a library has already may be added to elsewhere.
TORCH_LIBRARY_FRAGMENT(example, m) {
  m.def("twice(Tensor self) -> Tensor");
  m.impl("twice", c10::DispatchKey::CompositeImplicitAutograd,
         [](const Tensor& self) { return muladd(self, self, 0) + self * (2 - self); });
}

int main() {
  torch::manual_seed(7);
  const auto options = torch::dtype(torch::kFloat64).requires_grad(true);
  const Tensor a = torch::randn({2, 3}, options), b = torch::randn({2, 3}, options);
  const Tensor swish = Swish::apply(a, 1.5);
  show("swish", swish);
  show("its gradient", torch::autograd::grad({swish.sum()}, {a})[0]);
  const Tensor sum = muladd(a, b, 0.5);
  show("muladd", sum);
  const auto grads = torch::autograd::grad({(sum * sum).sum()}, {a, b});
  show("its gradient by a", grads[0]);
  show("its gradient by b", grads[1]);
  const Tensor shape = muladd(torch::empty({4, 5}, torch::kMeta), torch::empty({4, 5}, torch::kMeta), 1);
  std::printf("of meta tensors: %d x %d, %s\n", static_cast<int>(shape.size(0)), static_cast<int>(shape.size(1)),
              shape.is_meta() ? "meta" : "not meta");
  const auto find = [](const char* name) { return torch::Dispatcher::singleton().findSchemaOrThrow(name, ""); };
  const auto apart = find("example::distance").typed<Tensor(const Tensor&, const Tensor&)>().call(a, b);
  apart.sum().backward();
  show("distance", apart);
  show("its gradient", a.grad());
  torch::jit::Stack stack{a};
  find("example::twice").callBoxed(&stack);
  show("twice", stack.back().toTensor());
  try {
    muladd(a, b.t(), 0);
  } catch (const c10::Error& error) { std::printf("refused: %s\n", error.what_without_backtrace()); }
}
