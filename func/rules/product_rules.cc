// Matrix products: one product over the batch, by folding it into rows or columns, or as batched matrices.
#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

void check_ranks(const BatchCall& c, int64_t first, int64_t second) {
  const int64_t a = part(c, 0).rank(), b = part(c, 1).rank();
  TESSERA_CHECK(a == first && b == second, c.plan.schema.base_name(), ": expected tensors of ", first, " and ", second,
                " dimensions, but got ", a, " and ", b);
}

// (m, k) x (k, n).
void mm_rule(const BatchCall& c) {
  check_ranks(c, 2, 2);
  const Part a = part(c, 0), b = part(c, 1);
  if (a.batched() && b.batched()) return put(c, 0, bmm(in_front(a, c.batch), in_front(b, c.batch)), 0);
  if (a.batched()) return put(c, 0, unfolded(mm(folded(a, c.batch), b.value), c.batch), 0);
  put(c, 0, unfolded(mm(a.value, folded(b, c.batch, 1)), c.batch, 1), 1);
}

void bmm_rule(const BatchCall& c) {
  check_ranks(c, 3, 3);
  const Part a = part(c, 0), b = part(c, 1);
  if (a.batched() && b.batched()) return put(c, 0, unfolded(bmm(folded(a, c.batch), folded(b, c.batch)), c.batch), 0);
  if (a.batched()) return put(c, 0, unfolded(bmm(folded(a, c.batch, 1), b.value), c.batch, 1), 1);
  put(c, 0, unfolded(bmm(a.value, folded(b, c.batch, 2)), c.batch, 2), 2);
}

void mv_rule(const BatchCall& c) {
  check_ranks(c, 2, 1);
  const Part a = part(c, 0), x = part(c, 1);
  if (a.batched() && x.batched())
    return put(c, 0, squeeze(bmm(in_front(a, c.batch), unsqueeze(in_front(x, c.batch), 2)), 2), 0);
  if (a.batched()) return put(c, 0, unfolded(mv(folded(a, c.batch), x.value), c.batch), 0);
  put(c, 0, mm(in_front(x, c.batch), t(a.value)), 0);
}

void dot_of(const BatchCall& c, Part a, const Part& b) {
  if (a.batched() && b.batched()) {
    const Tensor r = bmm(unsqueeze(in_front(a, c.batch), 1), unsqueeze(in_front(b, c.batch), 2));
    return put(c, 0, view(r, IntVector{c.batch}), 0);
  }
  put(c, 0, a.batched() ? mv(in_front(a, c.batch), b.value) : mv(in_front(b, c.batch), a.value), 0);
}
void dot_rule(const BatchCall& c) {
  check_ranks(c, 1, 1);
  dot_of(c, part(c, 0), part(c, 1));
}
void vdot_rule(const BatchCall& c) {
  check_ranks(c, 1, 1);
  const Part a = part(c, 0);
  dot_of(c, {conj(a.value), a.batch_dim}, part(c, 1));
}

// --- beta * self + alpha * product, inside of the level ---

Tensor scaled_sum(const Tensor& self, const Tensor& product, const Scalar& beta, const Scalar& alpha) {
  const Tensor p = alpha.to_complex() == 1.0 ? product : mul(product, alpha);
  if (beta.to_complex() == 0.0) return p;  // self may be anything then
  return add(p, beta.to_complex() == 1.0 ? self : mul(self, beta));
}
template <class Product>
void add_product(const BatchCall& c, Product product) {
  give(c,
       scaled_sum(tensor_at(c, 0), product(tensor_at(c, 1), tensor_at(c, 2)), c.args[3].scalar(), c.args[4].scalar()));
}
void addmm_rule(const BatchCall& c) {
  // A layer's bias and weight for all rows of the batch: one product with its bias.
  const Part bias = part(c, 0), a = part(c, 1), b = part(c, 2);
  if (!c.op.mutable_args && !bias.batched() && a.batched() && !b.batched() && bias.rank() == 1) {
    Hidden hidden;
    const Tensor r = addmm(bias.value, folded(a, c.batch), b.value, c.args[3].scalar(), c.args[4].scalar());
    return put(c, 0, unfolded(r, c.batch), 0);
  }
  add_product(c, [](const Tensor& x, const Tensor& y) { return mm(x, y); });
}
void addmv_rule(const BatchCall& c) {
  add_product(c, [](const Tensor& x, const Tensor& y) { return mv(x, y); });
}
void baddbmm_rule(const BatchCall& c) {
  add_product(c, [](const Tensor& x, const Tensor& y) { return bmm(x, y); });
}
void addr_rule(const BatchCall& c) {
  add_product(c, [](const Tensor& x, const Tensor& y) { return mul(unsqueeze(x, 1), unsqueeze(y, 0)); });
}

// With out_dtype ("mm.dtype") they are made of the ones without.
constexpr WrittenRule kRules[] = {
    {"cholesky_inverse", Family::kFront},
    {"cholesky_solve", Family::kFront},
    {"lu_unpack", Family::kFront},
    {"mm.", Family::kWritten, mm_rule},
    {"bmm.", Family::kWritten, bmm_rule},
    {"mv", Family::kWritten, mv_rule},
    {"dot", Family::kWritten, dot_rule},
    {"vdot", Family::kWritten, vdot_rule},
    {"addmm.", Family::kWritten, addmm_rule, true},
    {"addmv", Family::kWritten, addmv_rule, true},
    {"baddbmm.", Family::kWritten, baddbmm_rule, true},
    {"addr", Family::kWritten, addr_rule, true},
};

}  // namespace

std::span<const WrittenRule> product_rules() { return kRules; }

}  // namespace tessera::func
