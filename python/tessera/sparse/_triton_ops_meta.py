"""Parameters of block-sparse kernels that somebody tuned: kept by operator, device and shape.

There are no such kernels here. Libraries that bring their own keep what they found in this table.
"""

_found = {}


def get_meta(op, key, device_name=None, version=(0, "float16", 0.5), exact=False):
    """The parameters that were stored for an operator (a dictionary), or None.

    Args:
        op: the operator's name.
        key: what the parameters depend on: a tuple of sizes. Unless `exact`, "*" in it stands for any.
        device_name, version: as given to `update`; None: any device.
    """
    for (name, device, kept), table in _found.items():
        if name != op or kept != version or device_name not in (None, device):
            continue
        if exact or key in table:
            return table.get(key)
        fits = (all(w in ("*", h) for w, h in zip(key, have)) and len(key) == len(have) for have in table)
        for have, match in zip(table, fits):
            if match:
                return table[have]
    return None


def update(op, device_name, version, key, value):
    """Stores parameters: `get_meta` with the same arguments gives `value`."""
    _found.setdefault((op, device_name, version), {})[key] = value


def dump():
    """All parameters that were stored, as text that `eval` reads."""
    return repr(_found)


def minimize(target_func, initial_parameters, reference_parameters, step_func, max_step=2, all_values=None):
    """Steps from parameters to better neighbours until no step of any parameter is better.

    Args:
        target_func: parameters (a dictionary) -> the number to be made small.
        initial_parameters, reference_parameters: where it starts, and what it is compared with.
        step_func: (name, value, direction, parameters) -> the value after a step.
        max_step: steps in one direction at a time.
        all_values: filled with what was computed, by parameters.

    Returns: (parameters, relative gain over the reference in percent, number of values computed, text of the target).
    """
    all_values = {} if all_values is None else all_values
    frozen = lambda parameters: tuple(sorted(parameters.items()))

    def value_of(parameters):
        if frozen(parameters) not in all_values:
            all_values[frozen(parameters)] = target_func(parameters)
        return all_values[frozen(parameters)]

    reference = target_func(reference_parameters)
    best, least = dict(initial_parameters), value_of(initial_parameters)
    better = True
    while better:
        better = False
        for name in sorted(best):
            for direction in (step for size in range(1, max_step + 1) for step in (-size, size)):
                trial = {**best, name: step_func(name, best[name], direction, best)}
                if trial != best and value_of(trial) < least:
                    best, least, better = trial, value_of(trial), True
    gain = (1 - least / reference) * 100 if reference else 0.0
    return best, gain, len(all_values), f"{least:.4g}"
