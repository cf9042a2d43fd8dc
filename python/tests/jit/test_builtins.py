"""The functions and methods that TorchScript documents as builtin: each is known to the compiler, and the newer ones
compute what Python does.
"""

import pytest

import tessera
from tessera import Tensor
from tessera._C import _jit
from tessera.jit._frontend import classify

METHODS = """
abs abs_ absolute absolute_ acos acos_ acosh acosh_ add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm
addmm_ addmv addmv_ addr addr_ adjoint all allclose amax amin aminmax angle any arccos arccos_ arccosh arccosh_
arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ argmax argmin argsort argwhere
as_strided as_strided_ as_strided_scatter asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ backward
baddbmm baddbmm_ bernoulli bernoulli_ bincount bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_
bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_
bmm broadcast_to cauchy_ ccol_indices ceil ceil_ cholesky cholesky_inverse cholesky_solve chunk clamp clamp_
clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ clone coalesce col_indices conj conj_physical conj_physical_
contiguous copy_ copysign copysign_ corrcoef cos cos_ cosh cosh_ count_nonzero cov cpu cross crow_indices cuda
cummax cummin cumprod cumprod_ cumsum cumsum_ data deg2rad deg2rad_ dense_dim det detach detach_ diag diag_embed
diagflat diagonal diagonal_scatter diff digamma digamma_ dim dist div div_ divide divide_ dot dsplit element_size eq
eq_ equal erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expm1 expm1_ exponential_ fill_
fill_diagonal_ fix fix_ flatten flip fliplr flipud float_power float_power_ floor floor_ floor_divide floor_divide_
fmax fmin fmod fmod_ frac frac_ frexp gather gcd gcd_ ge ge_ geometric_ geqrf ger get_device greater greater_
greater_equal greater_equal_ gt gt_ hardshrink hash_tensor heaviside heaviside_ histc histogram hsplit hypot hypot_
i0 i0_ igamma igamma_ igammac igammac_ imag index index_add index_add_ index_copy index_copy_ index_fill index_fill_
index_put index_put_ index_reduce index_reduce_ index_select indices inner inverse is_coalesced is_complex is_conj
is_contiguous is_distributed is_floating_point is_inference is_leaf is_neg is_nonzero is_pinned is_same_size
is_set_to is_signed isclose isfinite isinf isnan isneginf isposinf isreal istft item kron kthvalue lcm lcm_ ldexp
ldexp_ le le_ lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_
log_ log_normal_ log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_and_ logical_not
logical_not_ logical_or logical_or_ logical_xor logical_xor_ logit logit_ logsumexp lt lt_ lu_solve mH mT
masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select matmul matrix_exp matrix_power max maximum
mean median min minimum mm mode moveaxis movedim msort mul mul_ multinomial multiply multiply_ mv mvlgamma mvlgamma_
nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum narrow narrow_copy ne ne_ neg neg_ negative negative_
new_empty new_empty_strided new_full new_ones new_zeros nextafter nextafter_ nonzero nonzero_static norm normal_
not_equal not_equal_ numel orgqr ormqr outer permute pinverse polygamma_ positive pow pow_ prelu prod put put_ qr
quantile rad2deg rad2deg_ random_ ravel real reciprocal reciprocal_ relu relu_ remainder remainder_ renorm renorm_
repeat repeat_interleave requires_grad_ reshape reshape_as resize_ resize_as_ resize_as_sparse_ resolve_conj
resolve_neg retain_grad roll rot90 round round_ row_indices rsqrt rsqrt_ scatter scatter_ scatter_add scatter_add_
scatter_reduce scatter_reduce_ select select_scatter set_ sgn sgn_ sigmoid sigmoid_ sign sign_ signbit sin sin_ sinc
sinc_ sinh sinh_ size slice_scatter slogdet smm softmax sort sparse_dim sparse_mask sparse_resize_
sparse_resize_and_clear_ split split_with_sizes sqrt sqrt_ square square_ squeeze squeeze_ sspaddmm std stft
storage_offset stride sub sub_ subtract subtract_ sum sum_to_size svd swapaxes swapaxes_ swapdims swapdims_ t t_
take take_along_dim tan tan_ tanh tanh_ tensor_split tile to to_dense to_padded_tensor to_sparse to_sparse_bsc
to_sparse_bsr to_sparse_csc to_sparse_csr topk trace transpose transpose_ triangular_solve tril tril_ triu triu_
true_divide true_divide_ trunc trunc_ type_as unbind unflatten unfold uniform_ unique_consecutive unsafe_chunk
unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ values var vdot view view_as vsplit xlogy xlogy_ zero_
"""
FUNCTIONS = """
Generator Size abs abs_ absolute acos acos_ acosh acosh_ adaptive_avg_pool1d adaptive_max_pool1d add addbmm addcdiv
addcmul addmm addmv addmv_ addr adjoint affine_grid_generator alias_copy all allclose alpha_dropout alpha_dropout_
amax amin aminmax angle any arange arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2
arctan_ arctanh arctanh_ argmax argmin argsort argwhere as_strided as_strided_ as_strided_copy as_strided_scatter
as_tensor asin asin_ asinh asinh_ atan atan2 atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d avg_pool1d baddbmm
bartlett_window batch_norm batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats bernoulli
bilinear binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize can_cast
cartesian_prod cat ccol_indices_copy ceil ceil_ celu celu_ chain_matmul channel_shuffle cholesky cholesky_inverse
cholesky_solve chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ clone col_indices_copy
column_stack combinations complex concat concatenate conj conj_physical conj_physical_ constant_pad_nd conv1d conv2d
conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution copysign corrcoef cos cos_ cosh cosh_
cosine_embedding_loss cosine_similarity count_nonzero cov cross crow_indices_copy ctc_loss cummax cummin cumprod
cumsum cumulative_trapezoid deg2rad deg2rad_ dequantize det detach detach_ detach_copy device diag diag_embed
diagflat diagonal diagonal_copy diagonal_scatter diff digamma dist div divide dot dropout dropout_ dsplit dstack
einsum embedding embedding_bag embedding_renorm_ empty empty_like empty_permuted empty_quantized empty_strided eq
equal erf erf_ erfc erfc_ erfinv exp exp2 exp2_ exp_ expand_copy expm1 expm1_ eye fake_quantize_per_channel_affine
fake_quantize_per_tensor_affine feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ fill
fill_ fix fix_ flatten flip fliplr flipud float_power floor floor_ floor_divide fmax fmin fmod frac frac_ frexp
frobenius_norm from_file full full_like gather gcd gcd_ ge geqrf ger get_device gradient greater greater_equal
grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window hardshrink
hash_tensor heaviside hinge_embedding_loss histc histogram histogramdd hsplit hspmm hstack hypot i0 i0_ igamma
igammac imag index_add index_copy index_fill index_put index_put_ index_reduce index_select indices_copy
initial_seed inner instance_norm int_repr inverse is_autocast_cpu_enabled is_autocast_enabled is_complex is_conj
is_distributed is_floating_point is_grad_enabled is_inference is_neg is_nonzero is_same_size is_signed
is_vulkan_available isclose isfinite isin isinf isnan isneginf isposinf isreal istft kaiser_window kl_div kron
kthvalue layer_norm lcm lcm_ ldexp ldexp_ le lerp less less_equal lgamma linspace log log10 log10_ log1p log1p_ log2
log2_ log_ log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit
logit_ logspace logsumexp lstm lstm_cell lt lu_solve lu_unpack manual_seed margin_ranking_loss masked_fill
masked_scatter masked_select matmul matrix_exp matrix_power max max_pool1d max_pool1d_with_indices max_pool2d
max_pool3d maximum mean median meshgrid min minimum mm mode moveaxis movedim msort mul multinomial multiply mv
mvlgamma nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum narrow narrow_copy native_batch_norm
native_channel_shuffle native_dropout native_group_norm native_layer_norm ne neg neg_ negative negative_ nextafter
nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d_with_indices
nn.functional.adaptive_max_pool2d_with_indices nn.functional.adaptive_max_pool3d_with_indices
nn.functional.affine_grid nn.functional.alpha_dropout nn.functional.batch_norm nn.functional.binary_cross_entropy
nn.functional.binary_cross_entropy_with_logits nn.functional.celu nn.functional.cosine_embedding_loss
nn.functional.cross_entropy nn.functional.ctc_loss nn.functional.dropout nn.functional.dropout1d
nn.functional.dropout2d nn.functional.dropout3d nn.functional.elu nn.functional.embedding
nn.functional.embedding_bag nn.functional.feature_alpha_dropout nn.functional.fold
nn.functional.fractional_max_pool2d_with_indices nn.functional.fractional_max_pool3d_with_indices nn.functional.glu
nn.functional.grid_sample nn.functional.group_norm nn.functional.gumbel_softmax nn.functional.hardsigmoid
nn.functional.hardswish nn.functional.hardtanh nn.functional.hinge_embedding_loss nn.functional.huber_loss
nn.functional.instance_norm nn.functional.kl_div nn.functional.l1_loss nn.functional.layer_norm
nn.functional.leaky_relu nn.functional.local_response_norm nn.functional.log_softmax nn.functional.lp_pool1d
nn.functional.lp_pool2d nn.functional.lp_pool3d nn.functional.margin_ranking_loss
nn.functional.max_pool1d_with_indices nn.functional.max_pool2d_with_indices nn.functional.max_pool3d_with_indices
nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d nn.functional.mish
nn.functional.mse_loss nn.functional.multi_head_attention_forward nn.functional.multi_margin_loss
nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss nn.functional.nll_loss
nn.functional.normalize nn.functional.pad nn.functional.poisson_nll_loss nn.functional.relu nn.functional.relu6
nn.functional.rms_norm nn.functional.rrelu nn.functional.selu nn.functional.sigmoid nn.functional.silu
nn.functional.smooth_l1_loss nn.functional.soft_margin_loss nn.functional.softmax nn.functional.softmin
nn.functional.softsign nn.functional.tanh nn.functional.tanhshrink nn.functional.threshold
nn.functional.triplet_margin_loss nn.functional.unfold nonzero nonzero_static norm_except_dim normal not_equal
nuclear_norm numel ones ones_like orgqr ormqr outer pairwise_distance pdist permute permute_copy pinverse
pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma positive pow prelu prod promote_types put
q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qr quantile
quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic rad2deg rad2deg_ rand rand_like randint
randint_like randn randn_like randperm range ravel real reciprocal reciprocal_ relu relu_ remainder renorm
repeat_interleave reshape resize_as_ resize_as_sparse_ resolve_conj resolve_neg result_type rms_norm rnn_relu
rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round round_ row_indices_copy row_stack rrelu rrelu_ rsqrt rsqrt_
rsub save scalar_tensor scatter scatter_add scatter_reduce searchsorted seed segment_reduce select select_copy
select_scatter selu selu_ set_grad_enabled sgn sigmoid sigmoid_ sign signbit sin sin_ sinc sinc_ sinh sinh_
slice_copy slice_scatter slogdet smm softmax sort sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor
sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor split split_copy split_with_sizes split_with_sizes_copy sqrt
sqrt_ square square_ squeeze squeeze_copy sspaddmm stack std std_mean sub subtract sum svd swapaxes swapdims
sym_constrain_range sym_constrain_range_for_size t t_copy take take_along_dim tan tan_ tanh tanh_ tensor
tensor_split threshold threshold_ tile topk trace transpose transpose_copy trapezoid trapz triangular_solve tril
tril_indices triplet_margin_loss triu triu_indices true_divide trunc trunc_ unbind unbind_copy unflatten unfold_copy
unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy values_copy vander var var_mean vdot
view_as_complex view_as_complex_copy view_as_real view_as_real_copy view_copy vsplit vstack wait where xlogy xlogy_
zero_ zeros zeros_like
"""
_CASTS = frozenset("float double half int long short char byte bool bfloat16 cpu cuda".split())


def test_documented_methods_are_known():
    unknown = [
        name
        for name in METHODS.split()
        if name not in _CASTS and not _jit.has_op(f"aten::{name}") and not _jit.has_op(f"prim::{name}")
    ]
    assert unknown == []
    assert not _jit.has_op("aten::no_such_method")


def test_documented_functions_are_known():
    unknown = []
    for name in FUNCTIONS.split():
        found = tessera
        for part in name.split("."):
            found = getattr(found, part)
        if classify(found)[0] not in ("op", "function", "overloads", "special", "builtin", "type"):
            unknown.append(name)
    assert unknown == []


def _joined(x, y):
    return tessera.block_diag(x, y), tessera.cartesian_prod(x[0], y[0])


def _joined_lists(x, y):
    return tessera.block_diag([x, y, x]), tessera.cartesian_prod([x[0]])


def _steep(x, y):
    return tessera.gradient(x), tessera.gradient(x, spacing=2.0, dim=0), tessera.gradient(x, dim=[1], edge_order=2)


def _stepped(x, y):
    at = tessera.tensor([0.0, 1.0, 4.0])
    return tessera.gradient(x, spacing=[2.0, 0.5]), tessera.gradient(x, spacing=[at], dim=[0])


def _special(x, y):
    return tessera.special.expit(x), tessera.special.psi(x), tessera.special.xlogy(x, 2.0), x.is_conj(), x.is_neg()


def _questions(x, y):
    kind = tessera.result_type(2, 1.5)
    return x.is_set_to(x), x.is_set_to(y), tessera.can_cast(tessera.int64, tessera.bool), tessera.zeros(1, dtype=kind)


def _quantized_in_effect(x, y):
    return tessera.fake_quantize_per_tensor_affine(x, 0.5, 0, 0, 255)


@pytest.mark.parametrize(
    "fn",
    [_joined, _joined_lists, _steep, _stepped, _special, _questions, _quantized_in_effect],
    ids=lambda f: f.__name__,
)
def test_builtins_compute_what_python_does(fn):
    x, y = tessera.arange(9.0).reshape(3, 3) ** 2, tessera.ones(2, 2)
    made = tessera.jit.script(fn)(x, y)
    expected = fn(x, y)
    flat = tessera.utils._pytree.tree_leaves
    assert len(flat(made)) == len(flat(expected))
    for a, b in zip(flat(made), flat(expected)):
        if isinstance(b, Tensor):
            assert a.dtype == b.dtype and tessera.equal(a, b)
        else:
            assert a == b


def test_operators_without_an_out_form_write_to_out():
    def f(x):
        out = tessera.empty(0)
        tessera.add(x, 1, out=out)
        return out

    assert tessera.jit.script(f)(tessera.ones(2)).tolist() == [2.0, 2.0]


def test_fractional_pooling():
    def f(x, samples):
        a = tessera.nn.functional.fractional_max_pool2d(x, 2, output_size=3, _random_samples=samples)
        b, i = tessera.nn.functional.fractional_max_pool2d(
            x, 2, output_ratio=[0.5, 0.5], return_indices=True, _random_samples=samples
        )
        return a, b, i

    x, samples = tessera.rand(1, 2, 6, 6), tessera.rand(1, 2, 2)
    for a, b in zip(tessera.jit.script(f)(x, samples), f(x, samples)):
        assert tessera.equal(a, b)


def test_generators_and_seeds_of_programs():
    def f(given: tessera.Generator):
        own = tessera.Generator()
        own.manual_seed(3)
        tessera.manual_seed(3)
        return tessera.rand(2), tessera.rand(2, generator=own), tessera.rand(2, generator=given), own.initial_seed()

    a, b, c, seed = tessera.jit.script(f)(tessera.Generator().manual_seed(3))
    assert tessera.equal(a, b) and tessera.equal(a, c) and seed == 3


def test_what_is_not_returned_is_none():
    def f(n: int):
        for i in range(n):
            if i == 3:
                return i

    made = tessera.jit.script(f)
    assert str(made.schema) == "f(int n) -> int?" and made(5) == 3 and made(1) is None

    def g(n: int) -> int:
        if n > 1:
            return n

    with pytest.raises(RuntimeError, match="does not return along all paths"):
        tessera.jit.script(g)


def test_types_as_text():
    kind = next(tessera.jit.script(_joined_lists).graph.outputs()).type()
    assert str(kind) == repr(kind) == "Tuple[Tensor, Tensor]" and kind.str() == "(Tensor, Tensor)"
