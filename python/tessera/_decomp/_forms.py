"""The documented forms of calls: what a graph shows where this library calls operators otherwise.

A table {"packet.overload": (the documented overload, how its arguments follow)}; all of them compute the same.
"""

import functools
import math

import tessera


def _as_they_are(args, kwargs):
    return args, kwargs


def _swapped(args, kwargs):
    return (args[1], args[0], *args[2:]), kwargs


def _alpha_by_name(args, kwargs):
    return args[:2], {"alpha": args[2], **kwargs} if len(args) > 2 else kwargs


def _without_correction(args, kwargs):
    """Of statistics along dimensions: None for another call than the plain one."""
    plain = len(args) > 1 and args[1] is not None and kwargs.get("correction") is None
    return (args, {}) if plain and not kwargs.get("keepdim") else None


def _squared(args, kwargs):
    return (*args, 2), kwargs


_FORMS = {
    "_square.default": ("pow.Tensor_Scalar", _squared),
    "__rsub__.Scalar": ("rsub.Scalar", _as_they_are),
    "__rpow__.Scalar": ("pow.Scalar", _swapped),
    "floor_divide.Scalar": ("floor_divide.default", _as_they_are),
    "__floordiv__.Scalar": ("floor_divide.default", _as_they_are),
    "__floordiv__.Tensor": ("floor_divide.default", _as_they_are),
    "split.sizes": ("split_with_sizes.default", _as_they_are),
    "add.Scalar": ("add.Tensor", _alpha_by_name),
    "add_.Scalar": ("add_.Tensor", _alpha_by_name),
    "sub.Scalar": ("sub.Tensor", _alpha_by_name),
    "sub_.Scalar": ("sub_.Tensor", _alpha_by_name),
    **{f"{name}.Scalar": (f"{name}.Tensor", _as_they_are)
       for name in ("mul", "mul_", "div", "div_", "true_divide", "true_divide_")},
    "div.Scalar_mode": ("div.Tensor_mode", _as_they_are),
    "div_.Scalar_mode": ("div_.Tensor_mode", _as_they_are),
}  # fmt: skip
# Those of programs as they are written, before operators are taken apart.
_WRITTEN = {
    **_FORMS,
    **{f"{name}.default": (f"{name}.correction", _as_they_are) for name in ("var", "std")},
    **{f"{name}.correction": (f"{name}.dim", _without_correction) for name in ("var", "std", "var_mean", "std_mean")},
}


@functools.cache
def _form(op, written):
    """(overload, function of its arguments) of an operator that is shown in another form, or None."""
    if op.namespace != "aten":
        return None
    packet = op._schema.name.rpartition("::")[2]
    found = (_WRITTEN if written else _FORMS).get(f"{packet}.{op._overloadname}")
    if found is None:
        return None
    name, _, overload = found[0].partition(".")
    return getattr(getattr(tessera.ops.aten, name), overload), found[1]


_RESIZING = ("upsample_nearest{}d", "_upsample_nearest_exact{}d", None, "upsample_bicubic2d",
             "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")  # fmt: skip
_LINEAR = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}


def _scale(step):
    """The number of outputs for one input that has this step as its reciprocal; None for 0: the sizes say it."""
    scale = 1 / step if step else None
    near = () if scale is None else (scale, math.nextafter(scale, math.inf), math.nextafter(scale, 0))
    return next((s for s in near if 1 / s == step), scale)


def _resized(args):
    """The form of `_resample`: (input, all sizes, steps or none, number of the mode, align_corners)."""
    x, sizes, steps, mode, align_corners = args
    n = len(sizes) - 2
    name = _LINEAR[n] if _RESIZING[mode] is None else _RESIZING[mode].format(n)
    scales = [_scale(s) for s in steps]
    corners = () if mode < 2 else (align_corners,)
    shown = scales if any(s is not None for s in scales) else ()
    return getattr(tessera.ops.aten, name).default, (x, list(sizes[2:]), *corners, *shown), {}


def documented_form(op, args, kwargs, written=False):
    """(target, args, kwargs) of the node of an operator's call; written: in a program, before it is taken apart."""
    if op is tessera.ops.aten._resample.default and not kwargs:
        return _resized(args)
    form = _form(op, written)
    changed = form[1](tuple(args), kwargs) if form is not None else None
    return (op, args, kwargs) if changed is None else (form[0], *changed)
