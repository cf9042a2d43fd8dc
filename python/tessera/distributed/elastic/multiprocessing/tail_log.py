"""Shows what files of workers gain, line by line with their names."""

import os
import threading
import time

__all__ = ["TailLog", "tail_logfile"]


def tail_logfile(header, file, dst, finished, interval_sec, log_line_filter=None):
    """Copies the lines that a file gains until `finished` is set, and what it has then.

    Args:
        header: written before each line.
        file: path; it may come later.
        dst: a text stream.
        finished: threading.Event.
        interval_sec: pause between two looks.
        log_line_filter: which lines; None: all.
    """
    while not os.path.exists(file):
        if finished.wait(interval_sec):
            break
    if not os.path.exists(file):
        return
    with open(file, errors="replace") as source:
        rest, last = "", False
        while True:
            text = source.read()
            lines = (rest + text).splitlines(keepends=True)
            rest = lines.pop() if lines and not lines[-1].endswith("\n") and not last else ""
            for line in lines:
                if log_line_filter is None or log_line_filter(line):
                    dst.write(f"{header}{line}")
            if lines:
                dst.flush()
            if last:
                return
            last = finished.is_set()
            if not text and not last:
                time.sleep(interval_sec)


class TailLog:
    """Shows the files of several workers.

    Args:
        name: of their program.
        log_files: local rank to path.
        dst: a text stream, or a path.
        log_line_prefixes: local rank to what comes before its lines; else "[NAMErank]:".
        interval_sec: pause between two looks.
        log_line_filter: which lines.
    """

    def __init__(
        self,
        name,
        log_files,
        dst,
        log_line_prefixes=None,
        interval_sec=0.1,
        log_line_filter=lambda line: True,
    ):
        self._stop, self._threads, self._file = threading.Event(), [], None
        if isinstance(dst, str):
            dst = self._file = open(dst, "w")
        for rank, path in log_files.items():
            header = (log_line_prefixes or {}).get(rank, f"[{name}{rank}]:")
            arguments = (header, path, dst, self._stop, interval_sec, log_line_filter)
            self._threads.append(threading.Thread(target=tail_logfile, args=arguments, daemon=True))

    def start(self):
        """Begins. Returns: itself."""
        for thread in self._threads:
            thread.start()
        return self

    def stop(self):
        """Shows what is left, and ends."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        if self._file is not None:
            self._file.close()
            self._file = None

    def stopped(self):
        """Whether `stop` was called."""
        return self._stop.is_set()
