"""How many calls of a module threads get done in a second."""

import itertools
import threading
import time

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(time_us=None, time_ms=None, time_s=None):
    """A time as text, in the unit that suits it. Exactly one of microseconds, milliseconds and seconds is given."""
    given = [(t, scale) for t, scale in ((time_us, 1.0), (time_ms, 1e3), (time_s, 1e6)) if t is not None]
    if len(given) != 1:
        raise AssertionError(f"format_time: expected one time, but got {len(given)}")
    value = given[0][0] * given[0][1]
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if value >= scale:
            return f"{value / scale:.3f}{unit}"
    return f"{value:.3f}us"


class ExecutionStats:
    """The result of a `ThroughputBenchmark`. c_stats has latency_avg_ms and num_iters, benchmark_config
    num_calling_threads."""

    def __init__(self, c_stats, benchmark_config):
        self._c_stats, self.benchmark_config = c_stats, benchmark_config

    @property
    def latency_avg_ms(self):
        """Milliseconds of a call, on average."""
        return self._c_stats.latency_avg_ms

    @property
    def num_iters(self):
        """Calls that were timed."""
        return self._c_stats.num_iters

    @property
    def iters_per_second(self):
        """Calls a second, of all threads."""
        return self.num_iters / self.total_time_seconds

    @property
    def total_time_seconds(self):
        """Seconds from the first call to the last."""
        return self.num_iters * self.latency_avg_ms / 1000 / self.benchmark_config.num_calling_threads

    def __str__(self):
        return "\n".join(
            [
                f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}",
                f"Total number of iterations: {self.num_iters}",
                f"Total number of iterations per second (across all threads): {self.iters_per_second:.2f}",
                f"Total time: {format_time(time_s=self.total_time_seconds)}",
            ]
        )


class _Settings:
    def __init__(self, **values):
        self.__dict__.update(values)


class ThroughputBenchmark:
    """Calls a module from several threads, with the inputs that it is given in turn.

    >>> bench = tessera.utils.ThroughputBenchmark(tessera.nn.ReLU())
    >>> bench.add_input(tessera.ones(2))
    >>> bench.benchmark(num_warmup_iters=1, num_iters=5).num_iters
    5
    """

    def __init__(self, module):
        self._module, self._inputs = module, []

    def run_once(self, *args, **kwargs):
        """A call of the module, for a look at what it returns."""
        return self._module(*args, **kwargs)

    def add_input(self, *args, **kwargs):
        """Adds arguments for the calls."""
        self._inputs.append((args, kwargs))

    def benchmark(self, num_calling_threads=1, num_warmup_iters=10, num_iters=100, profiler_output_path=""):
        """Times num_iters calls, after num_warmup_iters calls of each thread.

        profiler_output_path: where a Chrome trace of the timed calls goes. Returns: `ExecutionStats`. Raises:
        RuntimeError without inputs.
        """
        if not self._inputs:
            raise RuntimeError("ThroughputBenchmark: there are no inputs; add_input gives some")
        numbers, taken, errors = itertools.count(), [], []
        ready = threading.Barrier(num_calling_threads + 1)

        def work(first):
            try:
                for i in range(num_warmup_iters):
                    self._call(first + i)
                ready.wait()
                while next(numbers) < num_iters:
                    start = time.perf_counter()
                    self._call(first + len(taken))
                    taken.append(time.perf_counter() - start)
            except Exception as error:
                errors.append(error)
                ready.abort()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(num_calling_threads)]
        for thread in threads:
            thread.start()
        with _trace(profiler_output_path):
            try:
                ready.wait()
            except threading.BrokenBarrierError:
                pass  # the thread's own error is raised below
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]
        stats = _Settings(latency_avg_ms=1000 * sum(taken) / len(taken), num_iters=len(taken))
        config = _Settings(
            num_calling_threads=num_calling_threads,
            num_warmup_iters=num_warmup_iters,
            num_iters=num_iters,
            profiler_output_path=profiler_output_path,
        )
        return ExecutionStats(stats, config)

    def _call(self, number):
        args, kwargs = self._inputs[number % len(self._inputs)]
        self._module(*args, **kwargs)


def _trace(path):
    import contextlib

    if not path:
        return contextlib.nullcontext()
    from tessera.profiler import _ExperimentalConfig, profile

    everyone = _ExperimentalConfig(profile_all_threads=True)  # the calls are made by threads of their own
    return profile(experimental_config=everyone, on_trace_ready=lambda recorded: recorded.export_chrome_trace(path))
