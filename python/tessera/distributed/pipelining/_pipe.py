"""Pipelines made of whole models: the model is traced and cut."""

import inspect
import operator
from dataclasses import dataclass
from enum import Enum

from tessera import fx, nn
from tessera.distributed.pipelining.stage import build_stage

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Where a model is cut: before a submodule, or after it."""

    BEGINNING = 1
    END = 2


_tracers: list = []


def pipe_split():
    """A place in `forward` where `pipeline` cuts the model. It does nothing when the model runs."""
    if _tracers:
        _tracers[-1].create_node("call_function", pipe_split, (), {})


class _Tracer(fx.Tracer):
    """Marks the places of a split_spec."""

    def __init__(self, spec):
        super().__init__()
        self.spec = spec

    def trace(self, root, concrete_args=None):
        _tracers.append(self)
        try:
            return super().trace(root, concrete_args)
        finally:
            _tracers.pop()

    def call_module(self, m, forward, args, kwargs):
        place = self.spec.get(self.path_of_module(m))
        if place == SplitPoint.BEGINNING:
            pipe_split()
        out = super().call_module(m, forward, args, kwargs)
        if place == SplitPoint.END:
            pipe_split()
        return out


@dataclass
class PipeInfo:
    """Of a pipeline: the graph of its stages, their number, and whether it computes a loss."""

    graph: fx.Graph
    num_stages: int
    has_loss_and_backward: bool


def _stages_of(graph):
    """{node: number of its stage}, and the number of stages. Parameters belong where they are used."""
    found, stage = {}, 0
    for node in graph.nodes:
        if node.op == "call_function" and node.target is pipe_split:
            stage += 1
        elif node.op not in ("placeholder", "get_attr", "output"):
            found[node] = stage
        elif node.op == "placeholder":
            found[node] = 0
    return found, stage + 1


def _cut(traced):
    """The GraphModule of a chain of stages: each hands on what later ones need."""
    stage_of, count = _stages_of(traced.graph)
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    last_use = {node: max((stage_of.get(u, count) for u in node.users), default=-1) for node in stage_of}
    whole, chain = nn.Module(), fx.Graph()
    live = [node for node in stage_of if node.op == "placeholder"]
    values = {node: chain.placeholder(node.target, default_value=node.args[0] if node.args else inspect.Signature.empty)
              for node in live}  # fmt: skip
    for stage in range(count):
        graph, inside = fx.Graph(), {}
        for node in live:
            inside[node] = graph.placeholder(node.name)
        taken = set(live)

        def copied(node, graph=graph, inside=inside):
            if node.op == "get_attr" and node not in inside:
                inside[node] = graph.node_copy(node)
            return inside[node]

        for node in (n for n, at in stage_of.items() if at == stage and n.op != "placeholder"):
            inside[node] = graph.node_copy(node, copied)
        name = f"submod_pp_{stage}"
        call = chain.call_module(name, tuple(values[node] for node in live))
        if stage + 1 == count:
            graph.output(fx.map_arg(output.args[0], copied))
            values["result"] = call
        else:
            live = [node for node in inside if node.op != "get_attr" and last_use[node] > stage]
            kept = [graph.call_method("view_as", (inside[n],) * 2) if n in taken else inside[n] for n in live]
            graph.output(tuple(kept) if len(kept) != 1 else kept[0])
            unpacked = [chain.call_function(operator.getitem, (call, at)) for at in range(len(live))]
            values = dict(zip(live, unpacked if len(live) != 1 else [call]))
        setattr(whole, name, fx.GraphModule(traced, graph))
    chain.output(values["result"])
    return fx.GraphModule(whole, chain), count


class Pipe(nn.Module):
    """A model in stages, which `pipeline` makes. Called, it runs them one after the other in this process, and returns
    a tuple of results.

    Args:
        split_gm: GraphModule of the stages `submod_pp_0`, `submod_pp_1` ...
        num_stages: their number.
        has_loss_and_backward: whether the last one computes a loss.
        loss_spec: which of its results that is.
    """

    def __init__(self, split_gm, num_stages, has_loss_and_backward, loss_spec):
        super().__init__()
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward, self.loss_spec = has_loss_and_backward, loss_spec

    def forward(self, *args, **kwargs):
        """The model's results: a tuple."""
        out = self.split_gm(*args, **kwargs)
        return out if isinstance(out, tuple) else (out,)

    def get_stage_module(self, stage_idx):
        """The module of a stage. Raises: ValueError for one that there is not."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"the pipeline has stages 0 to {self.num_stages - 1}, but not {stage_idx}")
        return getattr(self.split_gm, f"submod_pp_{stage_idx}")

    @staticmethod
    def from_tracing(mod, example_args, example_kwargs=None, split_policy=None):
        """The Pipe of a model whose `forward` calls `pipe_split`, or that `split_policy(GraphModule)` cuts: it returns
        a GraphModule with calls of `pipe_split` in its graph.
        """
        return _traced(mod, example_args, example_kwargs, {}, split_policy)

    def info(self):
        """PipeInfo."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward)

    def print_readable(self):
        """Prints the code of the stages."""
        print(self.split_gm.code)
        for stage in range(self.num_stages):
            print(f"submod_pp_{stage}:\n{self.get_stage_module(stage).code}")

    def build_stage(self, stage_index, device, group=None):
        """The PipelineStage of a stage, for this process.

        Args:
            stage_index: which.
            device: where it goes.
            group: of the processes; None: the default one.
        """
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def _erase(graph, node):
    """Takes a node away, with what was made of it: that a constant is one is not asked."""
    for user in list(node.users):
        _erase(graph, user)
    graph.erase_node(node)


def _traced(module, args, kwargs, spec, policy):
    # Arguments that the example leaves out are constants.
    given = inspect.signature(module.forward).bind(*args, **(kwargs or {})).arguments
    constants = {
        name: parameter.default
        for name, parameter in inspect.signature(module.forward).parameters.items()
        if name not in given and parameter.default is not parameter.empty
    }
    tracer = _Tracer(spec)
    graph = tracer.trace(module, concrete_args=constants or None)
    for node in list(graph.nodes):
        if node.op == "placeholder" and node.target in given:
            node.args = ()  # a default that is a tensor would be a constant of the graph, before it has any
    for node in list(graph.nodes):
        if node.op == "get_attr" and not node.users and "_tensor_constant" in node.target:
            graph.erase_node(node)
    traced = fx.GraphModule(tracer.root, graph)
    for node in list(graph.nodes):
        if node.op == "placeholder" and (node.target in constants or node.target.rpartition("_")[0] in constants):
            _erase(graph, node)
    traced = policy(traced) if policy is not None else traced
    split, count = _cut(traced)
    return Pipe(split, count, False, None)


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """Cuts a model in stages, which hold its parameters.

    Args:
        module: Module, which `fx` can trace.
        mb_args: an example of its arguments, for a part of a batch.
        mb_kwargs: more of them, by name.
        split_spec: {name of a submodule: SplitPoint}; None: the model's `forward` calls `pipe_split`.
        split_policy: a function that takes the traced GraphModule and puts calls of `pipe_split` into its graph.

    Returns: Pipe. Raises: ValueError for both a spec and a policy, AttributeError for a submodule that there is not.
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    for name in split_spec or ():
        module.get_submodule(name)
    return _traced(module, mb_args, mb_kwargs, split_spec or {}, split_policy)
