"""InputObserver: what a module is called with, as a source of example arguments and of sizes that differ."""

import contextlib
import inspect

import tessera
from tessera.utils import _pytree as pytree


class InputObserver:
    """Remembers calls of a module's forward while it runs, for an export of it.

    Args:
        value_if_missing: {argument: tensor} for arguments that some calls leave out.

    >>> model = tessera.nn.Linear(2, 1)
    >>> observer = tessera.onnx.InputObserver()
    >>> with observer(model):
    ...     for n in (1, 3):
    ...         result = model(tessera.ones(n, 2))
    >>> observer.num_obs()
    2
    """

    def __init__(self, value_if_missing=None):
        self.value_if_missing = dict(value_if_missing or {})
        self.calls = []  # (args, kwargs, results as a list), copies
        self._names = []

    @contextlib.contextmanager
    def __call__(self, model, store_n_calls=3, method_name="forward"):
        """Context manager: the first calls of a method are remembered."""
        original = getattr(model, method_name)
        kept = model.__dict__.get(method_name)
        self._names = [p.name for p in inspect.signature(original).parameters.values()
                       if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip

        def watched(*args, **kwargs):
            store = len(self.calls) < store_n_calls
            given = pytree.tree_map(_copy, (args, kwargs)) if store else None
            result = original(*args, **kwargs)
            if store:
                self.calls.append((*given, [_copy(v) for v in pytree.tree_leaves(result)]))
            return result

        model.__dict__[method_name] = watched
        try:
            yield self
        finally:
            if kept is None:
                del model.__dict__[method_name]
            else:
                model.__dict__[method_name] = kept

    def num_obs(self):
        """How many calls are remembered."""
        return len(self.calls)

    def _known(self):
        if not self.calls:
            raise RuntimeError("InputObserver: no call was observed; call the module in `with observer(module):`")

    def _named(self, call):
        args, kwargs, _ = call
        return {**dict(zip(self._names, args)), **kwargs}

    def infer_arguments(self, index_or_args_or_kwargs=None, flat=False, as_args_kwargs=False):
        """Example arguments for an export.

        Args:
            index_or_args_or_kwargs: which call's: its number; or a tuple or dict of arguments to complete. None: the
                one with the most arguments.
            flat: give the tensors in a list.
            as_args_kwargs: give (args, kwargs).

        Returns: the arguments: a tuple if all of them were given by position, else a dict.
        """
        what = index_or_args_or_kwargs
        if isinstance(what, (tuple, dict)):
            call = (what, {}, []) if isinstance(what, tuple) else ((), what, [])
        else:
            self._known()
            call = self.calls[what] if what is not None else max(self.calls, key=lambda c: len(_tensors(c[:2])))
        args, kwargs = tuple(call[0]), dict(call[1])
        given = self._named(call)
        missing = [n for c in self.calls for n, v in self._named(c).items() if given.get(n) is None and v is not None]
        for name in dict.fromkeys(missing):
            filler = self.value_if_missing.get(name)
            if filler is None:
                filler = next(_copy(v[:0] if isinstance(v, tessera.Tensor) and v.dim() else v) for c in self.calls
                              for n, v in self._named(c).items() if n == name and v is not None)  # fmt: skip
            kwargs[name] = filler
        if flat:
            return _tensors((args, kwargs))
        if as_args_kwargs:
            return args, kwargs
        return args if not kwargs else kwargs if not args else (args, kwargs)

    def infer_dynamic_shapes(self, set_batch_dimension_for=None):
        """dynamic_shapes for an export: sizes that differ between the calls may differ.

        Args:
            set_batch_dimension_for: names of arguments whose first size may differ in any case; True: of all.
        """
        self._known()
        named = [self._named(c) for c in self.calls]
        names = [n for n in dict.fromkeys(n for c in named for n in c) if any(c.get(n) is not None for c in named)]
        wanted = set(names) if set_batch_dimension_for is True else set(set_batch_dimension_for or ())
        return {n: _shapes([c[n] for c in named if c.get(n) is not None], n in wanted) for n in names}

    def check_discrepancies(
        self, onnx_program, atol=1e-4, rtol=0.1, progress_bar=False, initializer=None, skip_none=True
    ):
        """Runs a program on what was observed, and compares the results.

        Args:
            onnx_program: ONNXProgram, or the path of a file.
            atol, rtol: the differences that are allowed.
            progress_bar: whether each call is printed.
            initializer: as of ONNXProgram.initialize_inference_session(); None: the default.
            skip_none: results that are None are left out.

        Returns: for each call a dict with the keys "index", "abs", "rel" (largest differences) and "SUCCESS".
        """
        self._known()
        from tessera.onnx import _program, _wire
        from tessera.onnx.verification import VerificationInfo

        program = onnx_program
        if not isinstance(program, _program.ONNXProgram):
            with open(program, "rb") as file:
                program = _program.ONNXProgram(_wire.decode(file.read()), None)
        program.initialize_inference_session(initializer or _program._ort_session_initializer)
        rows = []
        for i in range(len(self.calls)):
            expected = [v for v in self.calls[i][2] if not (skip_none and v is None)]
            given = self.infer_arguments(i, as_args_kwargs=True)
            infos = [VerificationInfo.from_tensors(str(j), e, a)
                     for j, (e, a) in enumerate(zip(expected, program(*given[0], **given[1])))]  # fmt: skip
            off, relative = (max((getattr(v, k) for v in infos), default=0.0) for k in ("max_abs_diff", "max_rel_diff"))
            rows.append({"index": i, "abs": off, "rel": relative, "SUCCESS": off <= atol or relative <= rtol})
            if progress_bar:
                print(rows[-1])
        return rows


def _copy(v):
    return v.detach().clone() if isinstance(v, tessera.Tensor) else v


def _tensors(tree):
    return [v for v in pytree.tree_leaves(tree) if isinstance(v, tessera.Tensor)]


def _shapes(values, batch):
    first = values[0]
    if isinstance(first, tessera.Tensor):
        auto = tessera.export.Dim.DYNAMIC
        return {i: auto for i in range(first.dim()) if len({v.shape[i] for v in values}) > 1 or (batch and i == 0)}
    if isinstance(first, dict):
        return {k: _shapes([v[k] for v in values], batch) for k in first}
    if isinstance(first, (list, tuple)):
        return type(first)(_shapes(list(v), batch) for v in zip(*values))
    return None
