#include "named/rules.h"

#include <string>
#include <string_view>

#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/runtime.h"
#include "tensor/dispatch/schema.h"

namespace tessera::named {
namespace {

struct Row {
  Rule rule;
  std::string_view ops;  // with an overload where it differs from the others'; without the "_" of in-place forms
};

// Elementwise operators (by their own rule) unify; those below are what else the documents' coverage page lists, and
// what follows from it.
constexpr Row kRows[] = {
    {Rule::kKeep,
     "alias detach clone real imag contiguous lift_fresh lift to _to_copy type_as cpu cuda data positive conj _conj "
     "_conj_physical resolve_conj resolve_neg _neg_view requires_grad pin_memory "
     "bool byte char double float half int long short bfloat16 "
     "cumsum cumprod cummax cummin logcumsumexp softmax _softmax log_softmax _log_softmax softmin sort argsort topk "
     "dropout native_dropout alpha_dropout feature_dropout bernoulli "
     "narrow slice split split_with_sizes chunk tensor_split unsafe_split unsafe_chunk flip roll tril triu "
     "index_fill index_select index_add index_copy gather scatter scatter_add "
     "empty_like zeros_like ones_like full_like rand_like randn_like randint_like "
     "fill zero nan_to_num polygamma special_polygamma round normal uniform random exponential cauchy log_normal "
     "geometric threshold relu relu6 selu celu elu gelu silu mish hardtanh hardsigmoid hardswish leaky_relu "
     "softplus log_sigmoid masked_scatter max_pool2d_with_indices max_pool3d_with_indices"},
    {Rule::kUnify, "copy masked_fill where clamp addcmul addcdiv lerp atan2 fmod remainder"},
    {Rule::kUnifyDrop, "masked_select dist"},
    {Rule::kDrop, "new_empty new_zeros new_ones new_full new_empty_strided nonzero as_strided"},
    {Rule::kReduce,
     "sum nansum mean nanmean prod logsumexp std std_mean var var_mean median nanmedian mode kthvalue max min amax "
     "amin aminmax argmax argmin all any norm count_nonzero linalg_vector_norm"},
    {Rule::kRemove, "select unbind"},
    {Rule::kSqueeze, "squeeze"},
    {Rule::kUnsqueeze, "unsqueeze"},
    {Rule::kTranspose, "transpose swapaxes swapdims t numpy_T mT matrix_H mH adjoint"},
    {Rule::kPermute, "permute"},
    {Rule::kExpand, "expand expand_as broadcast_to"},
    {Rule::kDiagonal, "diagonal"},
    {Rule::kMatrix, "mm bmm"},
    {Rule::kVector, "mv"},
    {Rule::kDrop, "dot vdot inner"},
    {Rule::kMatmul, "matmul"},
    {Rule::kDistances, "cdist _cdist_forward"},
    {Rule::kFusedMatrix, "addmm baddbmm"},
    {Rule::kFusedVector, "addmv"},
    {Rule::kConcat, "cat concat concatenate"},
    {Rule::kSameShape, "resize resize_as"},
    {Rule::kDecompose, "max.other min.other max.unary_out min.unary_out"},
    {Rule::kRefuse, "sgn"},
};

bool contains_word(std::string_view words, std::string_view word) {
  for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

const Row* find_row(std::string_view word) {
  for (const Row& row : kRows)
    if (contains_word(row.ops, word)) return &row;
  return nullptr;
}

bool decomposes(const OpHeader& op) {
  return !has_kernel(op, DispatchKey::kCPU) && (has_kernel(op, DispatchKey::kCompositeImplicitAutograd) ||
                                                (op.slots()[static_cast<int>(Slot::kCompositeExplicit)] &&
                                                 std::string_view(op.info->rule()).starts_with("COMPOSITE")));
}

}  // namespace

Rule rule_of(const OpHeader& op) {
  std::string_view name = op.name;
  name.remove_prefix(name.starts_with("aten::") ? 6 : 0);
  if ((op.flags & kIsInplace) && name.ends_with('_')) name.remove_suffix(1);
  if (op.overload[0])
    if (const Row* row = find_row(std::string(name) + "." + op.overload)) return row->rule;
  if (const Row* row = find_row(name)) return row->rule;
  if (std::string_view(op.info->rule()).starts_with("POINTWISE")) return Rule::kUnify;
  const FunctionSchema schema = parse_schema(op.info->schema());
  int tensors = 0, results = 0;
  for (const SchemaArgument& a : schema.arguments) tensors += a.type.has_tensor();
  for (const SchemaArgument& r : schema.returns) results += r.type.has_tensor();
  if (name == "equal") return Rule::kEqual;
  if (results == 0 && !op.mutable_args) return Rule::kPass;
  if (decomposes(op)) return Rule::kDecompose;
  return (op.flags & kIsInplace) && tensors == 1 ? Rule::kKeep : Rule::kRefuse;
}

}  // namespace tessera::named
