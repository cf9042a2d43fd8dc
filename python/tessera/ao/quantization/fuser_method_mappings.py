"""How layers that follow each other become one."""

from tessera import nn
from tessera.ao.nn import intrinsic as nni
from tessera.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from .utils import MatchAllNode

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn", "get_fuser_method",
    "get_fuser_method_new",
]  # fmt: skip

_BN = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_BN_RELU = {nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d}
_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}


def _checked(is_qat, first, bn):
    if first.training != bn.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    if not is_qat:
        return
    if bn.num_features != getattr(first, "out_channels", getattr(first, "out_features", None)):
        raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d")
    if not bn.affine or not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm2d with affine and tracked statistics set to True")


def fuse_conv_bn(is_qat, conv, bn):
    """A convolution and its batch normalisation: a ConvBn for training (is_qat), else a folded convolution.

    AssertionError for different modes, NotImplementedError for kinds that have no such form.
    """
    _checked(is_qat, conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    if type(conv) not in _BN:
        raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
    return _BN[type(conv)](conv, bn)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    """fuse_conv_bn() with a ReLU behind: a ConvBnReLU for training, else a ConvReLU."""
    if not conv.training == bn.training == relu.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    _checked(is_qat, conv, bn)
    table = _BN_RELU if is_qat else _RELU
    if type(conv) not in table:
        raise NotImplementedError(f"Cannot fuse {'train' if is_qat else 'eval'} modules: {(conv, bn, relu)}")
    if is_qat:
        return table[type(conv)](conv, bn, relu)
    return table[type(conv)](fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat, linear, bn):
    """A Linear and its batch normalisation: a LinearBn1d for training, else a folded Linear."""
    _checked(False, linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    if bn.num_features != linear.out_features or not bn.affine or not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm1d of the Linear's width, affine, with tracked statistics")
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat, convt, bn):
    """A transposed convolution with its batch normalisation folded in. Exception in training."""
    if convt.training != bn.training:
        raise AssertionError("ConvTranspose and BN both must be in the same mode (train or eval).")
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")  # noqa: TRY002
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequential_wrapper2(sequential):
    """A fuser of two layers that puts them into a container."""

    def fuser_method(is_qat, m1, m2):
        return sequential(m1, m2)

    return fuser_method


def _default_table():
    table = {}
    for n in (1, 2, 3):
        conv, bn, turned = (getattr(nn, f"{kind}{n}d") for kind in ("Conv", "BatchNorm", "ConvTranspose"))
        table[conv, bn], table[conv, bn, nn.ReLU] = fuse_conv_bn, fuse_conv_bn_relu
        table[conv, nn.ReLU] = _sequential_wrapper2(_RELU[conv])
        table[turned, bn] = fuse_convtranspose_bn
    table[nn.Linear, nn.BatchNorm1d] = fuse_linear_bn
    table[nn.Linear, nn.ReLU] = _sequential_wrapper2(nni.LinearReLU)
    table[nn.BatchNorm2d, nn.ReLU] = _sequential_wrapper2(nni.BNReLU2d)
    table[nn.BatchNorm3d, nn.ReLU] = _sequential_wrapper2(nni.BNReLU3d)
    return table


_DEFAULT_OP_LIST_TO_FUSER_METHOD = _default_table()


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """fuser(is_qat, *modules) of the kinds in the tuple op_list. AssertionError where there is none."""
    found = {**_DEFAULT_OP_LIST_TO_FUSER_METHOD, **(additional_fuser_method_mapping or {})}.get(tuple(op_list))
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return found


def _alternatives(pattern):
    """A pattern's forms: of lists and tuples, with any part a MatchAllNode."""
    if isinstance(pattern, (tuple, list)):
        forms = [()]
        for part in pattern:
            forms = [f + (p,) for f in forms for p in _alternatives(part)]
        return forms
    return [pattern, MatchAllNode]


def get_fuser_method_new(op_pattern, fuser_method_mapping):
    """The fuser of a pattern of kinds. AssertionError where there is none."""
    for form in _alternatives(op_pattern):
        if form in fuser_method_mapping:
            return fuser_method_mapping[form]
    raise AssertionError(f"did not find fuser method for: {op_pattern} ")
