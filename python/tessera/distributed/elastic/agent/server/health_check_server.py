"""Answers whether an agent is alive, by HTTP on the loopback interface."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["HealthCheckServer", "create_healthcheck_server"]


class HealthCheckServer:
    """A server that answers 200 while the last progress is recent, else 503.

    Args:
        alive_callback: gives the time of the last progress (seconds since 1970; 0: there is nothing to watch).
        port: where it listens, on 127.0.0.1.
        timeout: seconds that progress may be away.
    """

    def __init__(self, alive_callback, port, timeout):
        self._alive_callback, self._port, self._timeout, self._server = alive_callback, port, timeout, None

    def start(self):
        """Begins to answer. Raises: OSError if the port is taken."""
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self):
                last = outer._alive_callback()
                alive = not last or time.time() - last < outer._timeout
                self.send_response(200 if alive else 503)
                self.end_headers()
                self.wfile.write(b"alive\n" if alive else b"no progress\n")

            def log_message(self, format, *args):
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Answer)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        """Ends."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def create_healthcheck_server(alive_callback, port, timeout):
    """A HealthCheckServer."""
    return HealthCheckServer(alive_callback, port, timeout)
