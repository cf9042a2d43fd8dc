"""Tracing above autograd and autocast: operators as a program calls them, before composite ones are taken apart.

Operators of the thread pass the key PreDispatch while such a trace is on; its fallback runs and writes them.
"""

import contextlib
import functools
import threading

import tessera
from tessera import _C
from tessera._decomp._forms import documented_form
from tessera.export._tracer import _WRAPPERS, _keys, _write, as_numbers
from tessera.fx.experimental import proxy_tensor
from tessera.utils._python_dispatch import TorchDispatchMode
from tessera.utils._pytree import tree_leaves

_BIT = _C._key_bits("PreDispatch")


class PreDispatchMode(proxy_tensor.ProxyTorchDispatchMode):
    """As ProxyTorchDispatchMode, of operators as they are called; changes of the grad mode and regions of autocast are
    nodes, too.
    """

    def __enter__(self):
        proxy_tensor._modes.append(self)
        self._thread, self._open = threading.get_ident(), {}
        self._inner = {}  # place of what an operator has made within another one -> (it, operator, arguments)
        self.tracer.recompute = self._recompute
        self._registration = _C._register_fallback("PreDispatch", self._fallback, True)
        self._plain = {}
        for name, mine in (
            ("_call_with_symbols", self._call_with_symbols), ("_set_grad_enabled", self._set_grad_enabled),
            ("_enter_autocast_region", self._enter_autocast), ("_leave_autocast_region", self._leave_autocast),
        ):  # fmt: skip
            self._plain[name] = getattr(_C, name)
            setattr(_C, name, functools.partial(mine, self._plain[name]))
        self._cached = tessera.is_autocast_cache_enabled()
        tessera.set_autocast_cache_enabled(False)
        self._on = _keys(_BIT, 0)
        self._on.__enter__()
        return TorchDispatchMode.__enter__(self)

    def __exit__(self, *error):
        TorchDispatchMode.__exit__(self, *error)
        self._on.__exit__(None, None, None)
        tessera.set_autocast_cache_enabled(self._cached)
        for name, plain in self._plain.items():
            setattr(_C, name, plain)
        self._registration.release()
        proxy_tensor._modes.remove(self)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not func._schema.is_mutable:
            for t in tree_leaves(result):
                if isinstance(t, tessera.Tensor):
                    self._inner[proxy_tensor._place(t)] = (t, func, args, kwargs or {}, result)
        return result

    def _recompute(self, tensor):
        """What a backward pass needs of the inside of a composite operator is computed where it is needed."""
        made = self._inner.get(proxy_tensor._place(tensor))
        if made is None:
            return None
        _, func, args, kwargs, result = made
        if tessera.Tag.nondeterministic_seeded in func.tags:
            raise RuntimeError(
                f"make_fx(pre_dispatch=True): a backward pass needs the random numbers of {func}, which another "
                "operator drew for itself; trace without pre_dispatch"
            )
        shown = documented_form(func, args, kwargs)
        name = shown[0]._schema.name.rpartition("::")[2]
        self.tracer.track(result, self.tracer.create_proxy("call_function", *shown, name=name))
        return self.tracer.found(tensor)

    @contextlib.contextmanager
    def nested(self, tracer):
        """Context manager: this mode is on, and writes into another tracer's graph."""
        before, self.tracer = self.tracer, tracer
        try:
            _C._push_on_torch_dispatch_stack(self)
            yield
        finally:
            _C._pop_torch_dispatch_stack()
            self.tracer = before

    def _is_on(self):
        """Whether what this thread does is recorded: the key is on, and nobody has taken the mode off."""
        on = threading.get_ident() == self._thread and _C._tls_keys()[0] & _BIT
        return on and any(_C._get_dispatch_stack_at(i) is self for i in range(_C._len_torch_dispatch_stack()))

    def _fallback(self, keys, op, *args, **kwargs):
        if _C._func._levels() or keys.bits & _WRAPPERS:  # of vmap, grad ...: what their rules call comes here again
            return op._redispatch(keys.bits & ~_BIT, *args, **kwargs)
        if not self._is_on():
            with _keys(0, _BIT):
                return op(*args, **kwargs)
        args = as_numbers(args)
        instead = self.decomposition_table.get(op)
        if instead is not None:
            result = instead(*args, **kwargs)
            if result is not NotImplemented:
                return result
        with _keys(0, _BIT):
            result = op(*args, **kwargs)
            _write(self.tracer, op, args, kwargs, result)
        return result

    def _call_with_symbols(self, plain, op, name, symbols, args, kwargs):
        """A call with symbolic numbers among the arguments, for which others stand: {index: the argument}."""
        if not self._is_on():
            return plain(op, name, symbols, args, kwargs)
        with _keys(0, _BIT):
            result = plain(op, name, symbols, args, kwargs)
            shown, named = list(args), dict(kwargs)
            for i, value in symbols.items():
                if i < len(shown):
                    shown[i] = value
                else:
                    named[op._schema.arguments[i].name] = value
            _write(self.tracer, op, tuple(shown), named, result)
        return result

    def _set_grad_enabled(self, plain, enabled):
        if self._is_on():
            self.tracer.create_proxy("call_function", plain, (enabled,), {}, name="_set_grad_enabled")
        return plain(enabled)

    def _enter_autocast(self, plain, device, *asked):
        if self._is_on():
            enter = tessera.amp.autocast_mode._enter_autocast
            region = self.tracer.create_proxy("call_function", enter, (device, *asked), {}, name="_enter_autocast")
            self._open.setdefault(device, []).append(region)
        return plain(device, *asked)

    def _leave_autocast(self, plain, device, outside):
        if self._is_on() and self._open.get(device):
            leave, region = tessera.amp.autocast_mode._exit_autocast, self._open[device].pop()
            self.tracer.create_proxy("call_function", leave, (region,), {}, name="_exit_autocast")
        return plain(device, outside)
