"""Event files of a folder on this machine: what is added waits in memory and is written in the order of the calls."""

import io
import itertools
import os
import socket
import threading
import time

from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

_numbers = itertools.count()


class EventFile:
    """One event file after the other (`reopen`), written from any thread.

    Args:
        folder: where they lie; made if need be.
        max_queue: events that wait before they are written.
        flush_secs: seconds that an event waits at most.
        filename_suffix: the end of the files' names.
    """

    def __init__(self, folder, max_queue, flush_secs, filename_suffix):
        self._folder = folder
        self._max_queue = max_queue
        self._flush_secs = flush_secs
        self._suffix = filename_suffix
        self._wake = threading.Condition(threading.RLock())
        self._file = None
        self.reopen()

    def get_logdir(self):
        """The folder."""
        return self._folder

    def add_event(self, event):
        """Adds an Event message. Raises: TypeError for anything else, OSError after `close` or if the disk is full."""
        if not isinstance(event, event_pb2.Event):
            raise TypeError(f"expected a message of type Event, but got {type(event).__name__}")
        content = event.SerializeToString()
        with self._wake:
            if self._file is None:
                raise OSError(f"the event file in {self._folder} is closed: reopen() begins another")
            self._records.write(content)
            self._waiting += 1
            if self._waiting >= self._max_queue:
                self._write()

    def flush(self):
        """Writes what waits."""
        with self._wake:
            if self._file is not None:
                self._write()

    def close(self):
        """Writes what waits and closes the file; nothing more if it is closed."""
        with self._wake:
            if self._file is None:
                return
            try:
                self._write()
            finally:
                self._file.close()
                self._file = None
                self._wake.notify_all()

    def reopen(self):
        """Begins another file after `close`."""
        with self._wake:
            if self._file is not None:
                return
            os.makedirs(self._folder, exist_ok=True)
            name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
            self._file = open(os.path.join(self._folder, name + self._suffix), "wb", buffering=0)
            self._buffer = io.BytesIO()
            self._records = RecordWriter(self._buffer)
            self._waiting = 0
            source = event_pb2.SourceMetadata(writer=__name__)
            first = event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2", source_metadata=source)
            self.add_event(first)
            self.flush()
            threading.Thread(target=self._write_in_time, args=(self._file,), daemon=True).start()

    def _write(self):
        content = memoryview(self._buffer.getvalue())
        while content:
            content = content[self._file.write(content) :]
        self._buffer.seek(0)
        self._buffer.truncate()
        self._waiting = 0

    def _write_in_time(self, file):
        with self._wake:
            while self._file is file:
                self._wake.wait(self._flush_secs)
                if self._file is file and self._waiting:
                    self._write()
