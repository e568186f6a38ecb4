"""An OpenAI-compatible server that answers as a test wants it to."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def chat(text="fine", reason="stop", **more):
    """A well-formed response."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, **more}
    usage = {"prompt_tokens": 10, "completion_tokens": 4}
    return {"choices": [{**choice, "finish_reason": reason}], "usage": usage}


class Server:
    """Answers request n with `behave(n, body)`: (status, headers, JSON value or raw bytes)."""

    def __init__(self, behave):
        self.behave, self.bodies, self.times = behave, [], []
        self.busy = self.most_busy = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer.lock:
                    number = len(outer.bodies)
                    outer.bodies.append(body)
                    outer.times.append(time.monotonic())
                    outer.busy += 1
                    outer.most_busy = max(outer.most_busy, outer.busy)
                try:
                    self.reply(*outer.behave(number, body))
                finally:
                    with outer.lock:
                        outer.busy -= 1

            def reply(self, status, headers, content):
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"content-length": str(len(raw)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                step = int(headers.get("x-trickle", len(raw) or 1))
                try:
                    for start in range(0, len(raw), step):
                        self.wfile.write(raw[start : start + step])
                        time.sleep(0.1 if step < len(raw) else 0)
                except OSError:
                    self.close_connection = True
                if int(headers.get("content-length", len(raw))) > len(raw):
                    self.close_connection = True

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"


@contextmanager
def serving(behave):
    server = Server(behave)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()
