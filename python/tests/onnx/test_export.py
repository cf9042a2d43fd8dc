"""export(): names, sizes that may differ, files, errors, custom translations, and what ONNXProgram can do."""

import io
import os

import numpy
import onnx
import onnxruntime
import pytest

import tessera as torch
from tessera import nn
from tessera.export import Dim
from tessera.nn import functional as F
from tessera.onnx import _wire


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, image, scale=None):
        made = self.head(F.relu(self.norm(self.conv(image))).mean((2, 3)))
        return made if scale is None else made * scale


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


IMAGE = torch.rand(2, 3, 8, 8)


def net():
    return Net().eval()


def export(model, args, **settings):
    return torch.onnx.export(model, args, verbose=False, **settings)


def dims(info):
    return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]


def test_names_and_sizes_that_differ():
    program = export(net(), (IMAGE,), kwargs={"scale": torch.ones(2)}, input_names=["x", "s"], output_names=["y"],
                     dynamic_shapes={"image": {0: Dim("batch"), 2: "height"}, "scale": None})  # fmt: skip
    graph = program.model.graph
    assert [i.name for i in graph.input] == ["x", "s"] and [o.name for o in graph.output] == ["y"]
    assert dims(graph.input[0]) == ["batch", 3, "height", 8] and dims(graph.output[0]) == ["batch", 2]
    module = program.exported_program.module()
    wider = torch.rand(5, 3, 11, 8)
    torch.testing.assert_close(
        program(wider, scale=torch.ones(2))[0], module(wider, scale=torch.ones(2)), atol=1e-4, rtol=1e-4
    )
    program.rename_axes({"batch": "n"})
    assert dims(graph.input[0])[0] == dims(graph.output[0])[0] == "n"


@pytest.mark.parametrize("dynamo", [True, False])
def test_dynamic_axes(dynamo):
    file, model = io.BytesIO(), net()
    torch.onnx.export(model, (IMAGE,), file, dynamo=dynamo, verbose=False, input_names=["im"], output_names=["out"],
                      dynamic_axes={"im": {0: "batch", 2: "h"}, "out": {0: "batch"}})  # fmt: skip
    made = onnx.load_from_string(file.getvalue())
    assert [d.dim_param or d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim] == ["batch", 3, "h", 8]
    wider = torch.rand(4, 3, 10, 8)
    (got,) = onnxruntime.InferenceSession(file.getvalue()).run(None, {"im": wider.numpy()})
    numpy.testing.assert_allclose(got, model(wider).detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("opset", [13, 15, 16, 17, 18, 19, 20, 21, 22, 23])
def test_versions_of_the_operator_set(opset, dynamo):
    def f(x):
        y = F.layer_norm(x, (8,)).sum((1, 2)) + x.mean(-1).sum(1) + F.gelu(x).amax((1, 3))
        return (
            y,
            F.pad(x, (1, 1, 0, 2), mode="circular"),
            x.tril(),
            F.silu(x).split(1, 1)[2],
            F.mish(x),
            F.rms_norm(x, (8,)),
        )

    module = Fn(f)
    x = torch.rand(2, 8, 8, 8)
    file = io.BytesIO()
    torch.onnx.export(module, (x,), file, opset_version=opset, dynamo=dynamo, verbose=False)
    made = onnx.load_from_string(file.getvalue())
    onnx.checker.check_model(made, full_check=True)
    assert made.opset_import[0].version == opset
    got = onnxruntime.InferenceSession(file.getvalue()).run(None, {made.graph.input[0].name: x.numpy()})
    for g, w in zip(got, module(x)):
        numpy.testing.assert_allclose(g, w.numpy(), atol=1e-4)


def test_files_with_external_data(tmp_path):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 1)).eval()
    path, x = str(tmp_path / "m.onnx"), torch.rand(3, 64)
    program = torch.onnx.export(model, (x,), path, verbose=False)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data"]
    onnx.checker.check_model(path)
    stored = {t.name: t for t in onnx.load(path, load_external_data=False).graph.initializer}
    entries = {e.key: e.value for e in stored["0.weight"].external_data}
    assert entries["location"] == "m.onnx.data" and int(entries["length"]) == 64 * 64 * 4
    assert int(entries["offset"]) % 4096 == 0 and not stored["1.bias"].external_data
    (got,) = onnxruntime.InferenceSession(path).run(None, {"input": x.numpy()}) if "input" in [
        i.name for i in program.model.graph.input] else onnxruntime.InferenceSession(path).run(
            None, {program.model.graph.input[0].name: x.numpy()})  # fmt: skip
    numpy.testing.assert_allclose(got, model(x).detach().numpy(), atol=1e-5)
    with pytest.raises(TypeError, match="external data need a path"):
        program.save(io.BytesIO(), external_data=True)


def test_parameters_as_inputs_and_left_out():
    file = io.BytesIO()
    torch.onnx.export(net(), (IMAGE,), file, verbose=False, keep_initializers_as_inputs=True)
    made = onnx.load_from_string(file.getvalue())
    assert "conv.weight" in {i.name for i in made.graph.input} & {t.name for t in made.graph.initializer}
    file = io.BytesIO()
    torch.onnx.export(net(), (IMAGE,), file, verbose=False, export_params=False)
    made = onnx.load_from_string(file.getvalue())
    assert "conv.weight" in {i.name for i in made.graph.input} - {t.name for t in made.graph.initializer}


def test_what_a_program_can_do():
    model = net()
    program = export(model, (IMAGE,))
    inner = program.compute_values(["relu", "conv2d"], (IMAGE,))
    torch.testing.assert_close(inner[1], model.conv(IMAGE).detach(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(program.call_reference(IMAGE)[0], model(IMAGE).detach(), atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match=r"no values \['nothing'\]"):
        program.compute_values(["nothing"], (IMAGE,))
    other = Net().eval()
    program.apply_weights(other.state_dict() if not any("num_batches" in k for k in other.state_dict()) else {
        k: v for k, v in other.state_dict().items() if "num_batches" not in k})  # fmt: skip
    torch.testing.assert_close(program(IMAGE)[0], other(IMAGE).detach(), atol=1e-4, rtol=1e-4)
    with pytest.warns(UserWarning, match="'x' not found"):
        program.apply_weights({"x": torch.ones(1)})
    with pytest.raises(ValueError, match=r"shape \[4\]"):
        program.apply_weights({"conv.bias": torch.ones(1)})
    assert isinstance(program.model_proto, onnx.ModelProto) and "Conv(" in repr(program)
    program.release()
    with pytest.raises(ValueError, match="the model has 1 inputs"):
        program()


def test_verification():
    program = export(net(), (IMAGE,))
    infos = torch.onnx.verification.verify_onnx_program(program, compare_intermediates=True)
    assert {"conv2d", "relu"} <= {i.name for i in infos} and all(i.max_abs_diff < 1e-4 for i in infos)
    info = torch.onnx.verification.VerificationInfo.from_tensors(
        "v", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])
    )
    assert (info.max_abs_diff, info.max_rel_diff) == (0.5, 0.25)
    assert info.asdict()["expected_dtype"] == str(torch.float32)
    assert int(info.abs_diff_hist[0].sum()) == 2
    options = torch.onnx.verification.VerificationOptions(atol=1e-4)
    assert not torch.onnx.verification.find_mismatch(net(), (IMAGE,), options=options).has_mismatch()
    wrong = export(net(), (IMAGE,))
    wrong.apply_weights({"head.bias": torch.ones(2) * 50})
    assert torch.onnx.verification.verify_onnx_program(wrong)[0].max_abs_diff > 10


def test_reports(tmp_path, capsys):
    torch.onnx.export(net(), (IMAGE,), report=True, profile=True, dump_exported_program=True, verify=True,
                      artifacts_dir=str(tmp_path))  # fmt: skip
    names = sorted(os.listdir(tmp_path))
    assert [n.rpartition(".")[2] for n in names] == ["pt2", "md", "md"] or len(names) == 3
    text = "".join((tmp_path / n).read_text() for n in names if n.endswith("_success.md"))
    assert "| aten::conv2d | 1 |" in text and "Verified" in text and "largest difference" in capsys.readouterr().out
    with pytest.raises(torch.onnx.OnnxExporterError):
        torch.onnx.export(
            Fn(lambda x: torch.linalg.qr(x)[0]), (torch.rand(3, 3),), report=True, artifacts_dir=str(tmp_path)
        )
    assert any(n.endswith("_failure.md") for n in os.listdir(tmp_path))


def test_operators_without_translation_say_where_they_stand():
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError) as error:
        export(Fn(lambda x: torch.linalg.qr(x)[0] + 1), (torch.rand(3, 3),))
    text = str(error.value)
    assert "aten::linalg_qr" in text and "opset version 20" in text and "test_export.py" in text
    assert isinstance(error.value, torch.onnx.OnnxExporterError) and isinstance(error.value, RuntimeError)
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="opset_version 18"):
        export(Fn(lambda x: x & 3), (torch.arange(3),), opset_version=16)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"opset_version": 5}, ValueError, "from 13 to 23"),
        ({"export_modules_as_functions": True}, RuntimeError, "export_modules_as_functions"),
        ({"dynamo": False, "dynamic_shapes": {}}, ValueError, "dynamic_axes"),
        ({"input_names": ["a"] * 50}, ValueError, "50 names"),
        ({"custom_translation_table": {torch.ops.aten.relu.default: 3}}, TypeError, "expected a function"),
        ({"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN}, ValueError, "OperatorExportTypes.ONNX"),
    ],
)
def test_arguments_that_do_not_fit(settings, error, text):
    with pytest.raises(error, match=text):
        export(net(), (IMAGE,), **settings)


def test_custom_translations():
    def relu(x):
        return x.graph.op("Clip", x, 0.0)

    program = export(
        Fn(lambda x: torch.relu(x)), (torch.randn(4),), custom_translation_table={torch.ops.aten.relu.default: relu}
    )
    assert [n.op_type for n in program.model.graph.node] == ["Clip"]
    x = torch.randn(4)
    torch.testing.assert_close(program(x)[0], x.relu())


def test_registered_symbolic_functions():
    helper = torch.onnx.symbolic_helper

    @helper.parse_args("v", "f")
    def leaky(g, x, slope):
        return g.op("custom.ops::Leaky", x, slope_f=slope)

    torch.onnx.register_custom_op_symbolic("aten::leaky_relu", leaky, 9)
    try:
        file = io.BytesIO()
        torch.onnx.export(Fn(lambda x: F.leaky_relu(x, 0.25)), (torch.randn(3),), file, dynamo=False)
        made = onnx.load_from_string(file.getvalue())
        (node,) = made.graph.node
        assert (node.domain, node.op_type, node.attribute[0].name, node.attribute[0].f) == (
            "custom.ops",
            "Leaky",
            "slope",
            0.25,
        )
        assert {v.domain for v in made.opset_import} == {"", "custom.ops"}
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::leaky_relu", 9)
    file = io.BytesIO()
    torch.onnx.export(Fn(lambda x: F.leaky_relu(x, 0.25)), (torch.randn(3),), file, dynamo=False)
    assert onnx.load_from_string(file.getvalue()).graph.node[0].op_type == "LeakyRelu"
    with pytest.raises(torch.onnx.OnnxExporterError, match="Failed to register operator"):
        torch.onnx.register_custom_op_symbolic("leaky", leaky, 9)


def test_symbolic_functions_by_their_modules():
    from tessera.onnx.symbolic_opset9 import masked_fill, softmax
    from tessera.onnx.symbolic_opset12 import dropout

    def symbolic(g, x):
        made = softmax(g, dropout(g, x, 0.1, False), 1)
        return masked_fill(g, made, g.op("Less", made, g.op("Constant", value_t=torch.tensor(0.2))), 0.0)

    torch.onnx.register_custom_op_symbolic("aten::tanh", symbolic, 9)
    try:
        program = export(Fn(torch.tanh), (X := torch.randn(2, 3),))
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::tanh", 9)
    want = X.softmax(1)
    torch.testing.assert_close(program(X)[0], want.masked_fill(want < 0.2, 0.0))
    with pytest.raises(AttributeError, match="no symbolic function 'nothing'"):
        torch.onnx.symbolic_opset11.nothing  # noqa: B018


def test_control_flow():
    from tessera._higher_order_ops import scan, while_loop

    cond = export(Fn(lambda x: torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a * 2, (x,))), (torch.ones(3),))
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(cond(x)[0], x + 1 if x.sum() > 0 else x * 2)
    loop = export(
        Fn(lambda n, x: while_loop(lambda i, y: i < 10, lambda i, y: (i + 1, y * 2), (n, x))),
        (torch.tensor(7), torch.ones(2)),
    )
    torch.testing.assert_close(loop(torch.tensor(5), torch.ones(2))[1], torch.full((2,), 32.0))
    sums = export(Fn(lambda x: scan(lambda c, v: (c + v, c * v), torch.zeros(2), x)), (torch.rand(3, 2),))
    x = torch.rand(3, 2)
    torch.testing.assert_close(sums(x)[0], x.sum(0))
    assert {n.op_type for p in (cond, loop, sums) for n in p.model.graph.node} >= {"If", "Loop", "Scan"}
    for p in (cond, loop, sums):
        onnx.checker.check_model(p.model_proto, full_check=True)


def test_operators_of_onnx():
    import tessera.onnx.ops as ops

    q, k = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 5, 8)
    program = export(Fn(lambda q, k: ops.attention(q, k, k)[0]), (q, k), opset_version=23)
    want = F.scaled_dot_product_attention(q, k, k)
    torch.testing.assert_close(program(q, k)[0], want, atol=1e-4, rtol=1e-4)
    x, c, s, p = torch.randn(2, 4, 3, 8), torch.randn(5, 4), torch.randn(5, 4), torch.tensor([[0, 1, 2], [2, 3, 4]])
    program = export(Fn(lambda *a: ops.rotary_embedding(*a)), (x, c, s, p), opset_version=23)
    torch.testing.assert_close(program(x, c, s, p)[0], ops.rotary_embedding(x, c, s, p), atol=1e-4, rtol=1e-4)
    node = export(Fn(lambda x: ops.symbolic("my::Op", (x, None), {"n": [1, 2], "t": "a", "f": 0.5}, dtype=torch.int32,
                                            shape=(2, 4), version=3)), (x,)).model_proto  # fmt: skip
    assert (
        node.graph.node[0].domain == "my" and node.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT32
    )
    assert {(v.domain, v.version) for v in node.opset_import} == {("", 20), ("my", 3)}
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.graph.node[0].attribute} == {
        "n": [1, 2],
        "t": b"a",
        "f": 0.5,
    }


def test_is_in_export_and_modes():
    seen = []
    model = Fn(lambda x: (seen.append((torch.onnx.is_in_onnx_export(), model.training)), x + 1)[1]).train()
    torch.onnx.export(model, (torch.ones(1),), io.BytesIO(), dynamo=False)
    assert seen[-1] == (True, False) and model.training and not torch.onnx.is_in_onnx_export()


def test_exportable_modules_and_observed_inputs():
    class Twice(torch.onnx.ExportableModule):
        def forward(self, x):
            return x * 2

        def example_arguments(self):
            return (torch.ones(2, 3),), None

        def dynamic_shapes(self):
            return ({0: Dim("n")},)

        def input_names(self):
            return ["a"]

    program = Twice().to_onnx(verbose=False)
    assert dims(program.model.graph.input[0]) == ["n", 3] and program.model.graph.input[0].name == "a"
    model, observer = net(), torch.onnx.InputObserver()
    with observer(model):
        for n in (2, 4):
            model(torch.rand(n, 3, 8, 8))
    shapes = observer.infer_dynamic_shapes()
    assert observer.num_obs() == 2 and list(shapes["image"]) == [0]
    program = export(model, observer.infer_arguments(), dynamic_shapes=shapes)
    assert [row["SUCCESS"] for row in observer.check_discrepancies(program)] == [True, True]


def test_an_old_file_is_read_like_a_new_one():
    proto = export(net(), (IMAGE,)).model
    again = torch.onnx.ONNXProgram(_wire.decode(_wire.encode(proto)), None)
    torch.testing.assert_close(again(IMAGE)[0], torch.onnx.ONNXProgram(proto, None)(IMAGE)[0])


def test_without_the_packages(monkeypatch):
    import sys

    program = export(net(), (IMAGE,))
    for name in ("onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match="pip install onnxruntime"):
        program(IMAGE)
    with pytest.raises(ModuleNotFoundError, match="pip install onnx"):
        program.model_proto  # noqa: B018
    file = io.BytesIO()
    program.save(file)
    assert file.tell() > 100


def test_scalar_types():
    kinds = torch.onnx.JitScalarType
    assert (
        kinds.from_dtype(torch.float16) is kinds.HALF
        and kinds.HALF.onnx_type() == 10
        and kinds.HALF.dtype() is torch.float16
    )
    assert kinds.from_onnx_type(7) is kinds.INT64 and kinds.from_value(torch.ones(1)) is kinds.FLOAT
    assert kinds.INT64.scalar_name() == "Long" and not kinds.COMPLEX32.onnx_compatible()
    with pytest.raises(torch.onnx.OnnxExporterError, match="Unknown dtype"):
        kinds.from_dtype(torch.quint4x2)
