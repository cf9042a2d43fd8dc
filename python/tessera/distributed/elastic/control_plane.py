"""A server in a worker that answers questions about it, on a socket that TORCH_WORKER_SERVER_SOCKET names."""

import contextlib
import faulthandler
import os
import socketserver
import tempfile
import threading
from http.server import BaseHTTPRequestHandler

__all__ = ["worker_main"]

_SOCKET = "TORCH_WORKER_SERVER_SOCKET"


def _stacks():
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


# What may be asked: GET or POST /handler/NAME.
_handlers = {"ping": lambda: b"pong\n", "dump_traceback": _stacks}


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/":
            return self._reply(200, "\n".join(sorted(_handlers)).encode() + b"\n")
        found = _handlers.get(self.path.removeprefix("/handler/"))
        if found is None:
            return self._reply(404, b"there is no such handler\n")
        return self._reply(200, found())

    do_POST = do_GET

    def _reply(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "socket"

    def log_message(self, format, *args):
        """Says nothing."""


@contextlib.contextmanager
def _worker_server(path):
    if os.path.exists(path):
        os.unlink(path)
    server = socketserver.ThreadingUnixStreamServer(path, _Answer)
    server.daemon_threads = True
    os.chmod(path, 0o600)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        os.unlink(path)


def worker_main():
    """A context, or a decorator of a worker's main function, in which the server answers if the environment names its
    socket."""
    path = os.environ.get(_SOCKET, "")
    if not path:
        return contextlib.nullcontext()
    return _worker_server(path)
