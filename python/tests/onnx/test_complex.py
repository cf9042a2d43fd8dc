"""Programs with complex numbers, in both exporters: files have real numbers alone; and sizes that two inputs share."""

import io

import onnxruntime
import pytest

import tessera as torch
from tessera import nn


class _Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class _Spectrum(nn.Module):
    """A layer with complex parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(5, 3, dtype=torch.complex64))
        self.register_buffer("shift", torch.full((3,), 0.5 + 0.25j))

    def forward(self, x):
        return torch.fft.irfft((torch.fft.rfft(x) @ self.weight + self.shift).abs(), 4)


def _rotated(x, angles):
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def plain(t):
    return (torch.view_as_real(t) if t.is_complex() else t).detach().numpy()


def agrees(model, args, dynamo, others=(), **settings):
    """Whether a file gives what the model gives: for the arguments of the export, and for others."""
    file = io.BytesIO()
    if dynamo:
        torch.onnx.export(model, args, dynamo=True, verbose=False, **settings).save(file)
    else:
        torch.onnx.export(model, args, file, dynamo=False, **settings)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for given in (args, *others):
        got = session.run(None, {i.name: plain(a) for i, a in zip(session.get_inputs(), given)})[0]
        expected = plain(model(*given))
        assert got.shape == expected.shape and abs(got - expected).max() < 1e-4


def wave(*shape, scale=0.7):
    n = 1
    for s in shape:
        n *= s
    return (torch.arange(n).float() * scale).sin().reshape(shape)


A, B = wave(3, 3), wave(3, 3, scale=1.3)
Z, Y = torch.complex(A, B), torch.complex(B, A)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(
    "function,args",
    [
        (_rotated, (wave(2, 3, 8), wave(3, 4))),
        (lambda x: torch.fft.fft(x).abs(), (wave(3, 8),)),
        (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 0.5, 7), (wave(3, 7),)),
        (lambda x: torch.fft.ifft2(torch.fft.fft2(x, norm="ortho")).real, (wave(2, 4, 6),)),
        (lambda x: torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs(), (wave(2, 64),)),
        (lambda a, b: torch.view_as_real(torch.complex(a, b) + torch.complex(b, a).conj() * 2j), (A, B)),
        (lambda a, b: (torch.complex(a, b) / torch.complex(b, a + 2)).angle(), (A, B)),
        (lambda a, b: (torch.complex(a, b) @ torch.complex(b, a)).imag, (A, B)),
        (lambda a: torch.exp(1j * a).sum(0).real, (A,)),
        (lambda a, b: torch.view_as_real(torch.cat([torch.complex(a, b), torch.complex(b, a)])[1:, None]), (A, B)),
        (lambda z: z * z.conj() - 1, (Z,)),
        (lambda z, y: torch.where((z.real > 0) & (z != y), z.sqrt(), (y**3).log()), (Z + 0.3, Y + 0.3)),
        (lambda z: nn.functional.linear(z, torch.ones(2, 3, dtype=torch.complex64)), (Z,)),
    ],
)
def test_complex_functions(function, args, dynamo):
    agrees(_Function(function), args, dynamo)


@pytest.mark.parametrize("dynamo", [True, False])
def test_complex_parameters_and_a_batch_that_differs(dynamo):
    sizes = {"dynamic_shapes": ({0: torch.export.Dim("n")},)} if dynamo else {
        "input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}  # fmt: skip
    agrees(_Spectrum(), (wave(2, 8),), dynamo, [(wave(5, 8),), (wave(1, 8),)], **sizes)


def test_what_has_no_form_in_real_numbers():
    with pytest.raises(torch.onnx.OnnxExporterError, match="aten::cumprod of complex numbers"):
        torch.onnx.export(_Function(lambda z: z.cumprod(0)), (Z,), dynamo=True)


@pytest.mark.parametrize("dynamo", [True, False])
def test_two_inputs_share_a_size(dynamo):
    """The program compares the two: as sizes of their own, both would be fixed."""

    def both(a, b):
        if a.shape[0] != b.shape[0]:
            raise RuntimeError("expected one size")
        return torch.bmm(a, b)

    n = torch.export.Dim("n")
    sizes = {"dynamic_shapes": (({0: n}, {0: n}),)} if dynamo else {
        "input_names": ["a", "b"], "dynamic_axes": {"a": {0: "n"}, "b": {0: "n"}}}  # fmt: skip
    model = _Function(both) if dynamo else both
    if dynamo:
        sizes = {"dynamic_shapes": {"args": ({0: n}, {0: n})}}
    agrees(model, (wave(2, 3, 4), wave(2, 4, 3)), dynamo, [(wave(5, 3, 4), wave(5, 4, 3))], **sizes)
