#!/usr/bin/env python3
"""Speaks as `vllm serve` does, without a model: for tests of how it is started, used and ended.

Beside the log of what it was told it looks for files of the folder FAKE_VLLM: `die` ends it at the
next question, or at the next with so many messages as it says, once; `fail` keeps it from starting.
"""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder = Path(os.environ["FAKE_VLLM"])
words = sys.argv[1:]


def note(what: str, **more: object) -> None:
    with (folder / "log.jsonl").open("a") as file:
        file.write(json.dumps({"what": what, "pid": os.getpid(), **more}) + "\n")


class Handler(BaseHTTPRequestHandler):
    def reply(self, body: object, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.reply({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("load_lora_adapter"):
            note("adapter", path=body["lora_path"])
            if not Path(body["lora_path"]).exists():
                self.reply({"message": "no such adapter"}, 400)
                return
            self.reply({})
            return
        messages = body["messages"]
        if (die := folder / "die").exists() and len(messages) >= int(die.read_text() or 0):
            die.unlink()
            os._exit(9)
        note("asked", model=body["model"], seed=body["seed"])
        turn = f"<answer>{9_000 + len(messages)}</answer>" if "Guess the" in str(messages) else ""
        said = {"role": "assistant", "content": f"{body['model']} {body['seed']}{turn}"}
        self.reply({
            "choices": [{"message": said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        })  # fmt: skip

    def log_message(self, *_: object) -> None:
        pass


if (folder / "fail").exists():
    sys.exit("ValueError: this model does not fit")
child = subprocess.Popen(["sleep", "600"])  # as its engine, which must not outlive it
note("start", words=words, child=child.pid)
port = int(words[words.index("--port") + 1])
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
