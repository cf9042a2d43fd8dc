#include "func/transforms.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "autograd/engine.h"
#include "autograd/forward_ad.h"
#include "autograd/variable.h"
#include "func/rules/batching.h"
#include "tensor/ops/api.h"

namespace tessera::func {

int64_t batch_size_of(const Tensor& t, int64_t dim) {
  TESSERA_CHECK_VALUE(dim >= -t.dim() && dim < t.dim(), "vmap: Got in_dim=", dim,
                      " for an input, but the input is of dimensionality ", t.dim(),
                      ", so expected in_dim to satisfy -", t.dim(), " <= in_dim < ", t.dim());
  return t.sizes()[static_cast<size_t>(dim < 0 ? dim + t.dim() : dim)];
}

Tensor add_batch_dim(const Tensor& t, int64_t dim, int64_t level) {
  return make_batched(t, dim < 0 ? dim + t.dim() : dim, level);
}

Tensor remove_batch_dim(const Tensor& t, int64_t dim, int64_t level, int64_t batch_size) {
  const Part p = part_of(t, level);
  const int64_t rank = p.rank() + 1;
  TESSERA_CHECK_INDEX(dim >= -rank && dim < rank, "Dimension out of range (expected to be in range of [", -rank, ", ",
                      rank - 1, "], but got ", dim, ")");
  const int64_t to = dim < 0 ? dim + rank : dim;
  if (top_level() && top_level()->id == level) {
    Hidden hidden;
    if (!p.batched()) {
      const Tensor front = in_front(p, batch_size);
      return to == 0 ? front : movedim(front, 0, to);
    }
    return p.batch_dim == to ? p.value : movedim(p.value, p.batch_dim, to);
  }
  if (!p.batched()) return to == 0 ? in_front(p, batch_size) : movedim(in_front(p, batch_size), 0, to);
  return p.batch_dim == to ? p.value : movedim(p.value, p.batch_dim, to);
}

Tensor watched(const Tensor& t, int64_t level) {
  const Tensor r = make_tracked(t, level);
  if (r.is_floating_point() || r.is_complex()) r.impl()->set_requires_grad(true);
  if (Level* l = find_level(level)) l->history_outside = l->history_outside || has_history(t);
  return r;
}

Tensor dual(const Tensor& t, const Tensor& tangent, int64_t level) {
  autograd::forward_ad::check_tangent(t, tangent);
  const Level* l = find_level(level);
  TESSERA_CHECK(l && l->tangents, "this level has no tangents: it has ended, or is none of a jvp");
  const Tensor r = make_tracked(t, level);
  autograd::set_tangent(r, make_tracked(tangent, level), l->tangents, false);  // writes are not to reach the caller's
  return r;
}

std::pair<Tensor, Tensor> split_dual(const Tensor& t, int64_t level) {
  if (!wrapper_at(t, level)) return {t, Tensor()};
  const ExcludeKeys off(DispatchKey::kForward);
  return {outside_of(t, level), outside_of(autograd::tangent_of(t), level)};
}

Tensor outside_of(const Tensor& t, int64_t level) {
  WrapperImpl* w = wrapper_at(t, level);
  return w ? w->value() : t;
}

void check_scalar_output(const Tensor& t) {
  TESSERA_CHECK(t.dim() == 0, "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with ",
                t.dim(), " dims. Maybe you wanted to use the vjp or jacrev APIs instead?");
  TESSERA_CHECK(t.is_floating_point(),
                "grad_and_value(f)(*args): expected f(*args) to return a real number of a "
                "floating-point dtype, got ",
                name_of(t.dtype()));
}

Tensor zeros_of(const Tensor& t) { return zeros_like(t); }

namespace {
bool derivative_outside() {
  return std::any_of(levels().begin(), levels().end(), [](const Level& l) { return l.kind != Kind::kVmap; });
}
}  // namespace

bool settle_histories(TensorList outputs, int64_t level) {
  for (const Tensor& t : outputs)
    if (wrapper_at(t, level) && t.requires_grad()) autograd::grad_fn(t);
  const Level* l = find_level(level);
  return l && l->history_outside;
}

std::vector<Tensor> pull_back(TensorList outputs, TensorList cotangents, TensorList inputs, bool retain_graph,
                              bool history) {
  std::vector<autograd::Edge> roots, targets;
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
    roots.push_back(autograd::gradient_edge(outputs[i]));
    gradients.push_back(cotangents.empty() ? ones_like(outputs[i]) : cotangents[i]);
    history = history || has_history(gradients.back());
  }
  if (roots.empty()) return std::vector<Tensor>(inputs.size());
  std::vector<size_t> place;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    targets.push_back(autograd::gradient_edge(inputs[i]));
    place.push_back(i);
  }
  std::vector<Tensor> result(inputs.size());
  if (targets.empty()) return result;
  const std::vector<Tensor> found =
      autograd::run_backward(roots, std::move(gradients), targets,
                             {.retain_graph = retain_graph,
                              .create_graph = thread_state.grad_enabled && (history || derivative_outside()),
                              .accumulate = false,
                              .allow_unused = true});
  for (size_t k = 0; k < place.size(); ++k)
    if (k < found.size()) result[place[k]] = without_dead(found[k]);
  return result;
}

Tensor jacobian_of(const Tensor& value, const Tensor& x, const std::function<Tensor(const Tensor&)>& pull) {
  const int64_t n = value.numel();
  IntVector rows{n}, shape;
  rows.insert(rows.end(), value.sizes().begin(), value.sizes().end());
  shape.insert(shape.end(), value.sizes().begin(), value.sizes().end());
  shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
  const Tensor basis = view(eye(n, value.dtype(), std::nullopt, value.device()), IntList(rows));
  return view(vmap(pull)(basis), IntList(shape));
}

Tensor jacobian_by_columns(const Tensor& x, const std::function<Tensor(const Tensor&)>& push) {
  const int64_t n = x.numel();
  IntVector columns{n};
  columns.insert(columns.end(), x.sizes().begin(), x.sizes().end());
  const Tensor basis = view(eye(n, x.dtype(), std::nullopt, x.device()), IntList(columns));
  const Tensor found = vmap(push, {}, -1)(basis);
  IntVector shape(found.sizes().begin(), found.sizes().end() - 1);
  shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
  return reshape(found, IntList(shape));
}

std::function<Tensor(const Tensor&)> linear_function(const Tensor& output, int64_t level) {
  const IntrusivePtr<Tape> tape = find_level(level)->tape;
  const WrapperImpl* w = wrapper_at(output, level);
  const int64_t number = w ? w->number() : -1;
  const Tensor constant = outside_of(output, level);
  return [tape, number, constant](const Tensor& v) {
    const Tensor found = tape->replay({v}, {number})[0];
    return found.defined() ? found : constant;
  };
}

}  // namespace tessera::func

namespace tessera::autograd::forward_ad::internal {

Tensor make_batched_dual(const Tensor& tensor, const Tensor& tangent, std::optional<int64_t> level) {
  const func::Level* top = func::top_level();
  if (!top || top->kind != func::Kind::kVmap) return {};
  const int64_t id = top->id, batch = top->batch_size;
  const func::Part primal = func::part_of(tensor, id), along = func::part_of(tangent, id);
  if (!primal.batched() && !along.batched()) return {};
  Tensor dual;
  {
    func::Hidden hidden;
    // Views of a dual are views of its tangent's memory, so every element of the batch needs its own.
    const auto own = [&](const func::Part& p) {
      return p.batched() ? func::in_front(p, batch) : clone(func::in_front(p, batch), MemoryFormat::kContiguous);
    };
    dual = make_dual(own(primal), own(along), level);
  }
  return func::make_batched(dual, 0, id);
}

UnpackedDual unpack_batched_dual(const Tensor& tensor, std::optional<int64_t> level) {
  const func::Level* top = func::top_level();
  if (!top || top->kind != func::Kind::kVmap) return {};
  const int64_t id = top->id;
  const func::Part part = func::part_of(tensor, id);
  if (!part.batched()) return {};
  UnpackedDual found;
  {
    func::Hidden hidden;
    found = unpack_dual(part.value, level);
  }
  const auto wrapped = [&](const Tensor& t) { return t.defined() ? func::make_batched(t, part.batch_dim, id) : t; };
  return {wrapped(found.primal), wrapped(found.tangent)};
}

}  // namespace tessera::autograd::forward_ad::internal
