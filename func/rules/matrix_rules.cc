// Operators over batches of matrices whose arguments have to have the same dimensions.
#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

// A result that the call does not have, such as Q of linalg.qr's mode 'r', is empty whatever the batch.
bool is_absent(const Tensor& t) { return t.dim() == 1 && t.sizes()[0] == 0; }

void matrices_rule(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].is_tensor() && args[i].tensor().defined()) args[i] = Value::of(in_front(part(c, i), c.batch));
  call_outside(c, args, c.rets);
  for (size_t i = 0; i < c.num_rets; ++i) {
    const Tensor result = c.rets[i].tensor();
    const int64_t sizes[2] = {c.batch, 0};
    put(c, i, c.batch > 0 && is_absent(result) ? expand(result, IntList(sizes)) : result, 0);
  }
}

constexpr WrittenRule kRules[] = {
    {"linalg_qr", Family::kWritten, matrices_rule},
    {"geqrf", Family::kWritten, matrices_rule},
    {"linalg_householder_product", Family::kWritten, matrices_rule},
    {"ormqr", Family::kWritten, matrices_rule},
    {"linalg_lstsq", Family::kWritten, matrices_rule},
};

}  // namespace

std::span<const WrittenRule> matrix_rules() { return kRules; }

}  // namespace tessera::func
