#include "func/rules/rules.h"

#include "tensor/ops/api.h"

namespace tessera::func {

std::span<const WrittenRule> written_rules() {
  static const auto* all = [] {
    auto* list = new std::vector<WrittenRule>;
    for (const auto& rules : {product_rules(), matrix_rules(), shape_rules(), index_rules(), layer_rules(),
                              norm_rules(), loss_rules(), random_rules()})
      list->insert(list->end(), rules.begin(), rules.end());
    return list;
  }();
  return *all;
}

void give(const BatchCall& c, const Tensor& result) {
  if (c.op.mutable_args) {
    const Tensor self = c.args[0].tensor();
    copy_(self, result);
    c.rets[0] = Value::of(self);
    return;
  }
  c.rets[0] = Value::of(result);
}

bool known_to_fail(const Tensor& condition) {
  return !wrapper_of(condition) && !condition.is_meta() && condition.numel() > 0 && !item(all(condition)).to_bool();
}

void decompose(const BatchCall& c, const std::vector<Value>& args) {
  const DispatchKeySet none;
  c.op.info->adapter->call(c.op, &none, args.data(), c.rets);
}

}  // namespace tessera::func
