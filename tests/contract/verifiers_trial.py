"""What `test_verifiers.py` runs where verifiers is installed: prints what it found as JSON."""

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import verifiers.v1 as vf
from guessing import GuessingDomain, halve

from coevolve.core.errors import CoevolveError
from coevolve.core.rollout import Message
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains import registry
from coevolve.domains.check import conformance
from coevolve.domains.registry import get_domain
from coevolve.domains.verifiers.taskset import opened

registry.BUILT_IN["guessing"] = "guessing:GuessingDomain"
ANSWERS = {}
"""What the model behind the address says to a question, or a function of all that was said."""


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        first = next(message["content"] for message in asked if message["role"] == "user")
        answer = ANSWERS.get(first, "no idea")
        text = answer if isinstance(answer, str) else answer(asked)
        body = json.dumps(
            {
                "id": "1", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [
                    {
                        "index": 0, "finish_reason": "stop",
                        "message": {"role": "assistant", "content": text},
                    }
                ],
                "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
            }
        ).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def environment(**fields):
    taskset = {"id": "coevolve-taskset", **fields}
    return vf.load_environment(vf.resolve_env_config({"taskset": taskset}))


async def episodes(env, client):
    found = []
    async with env.serving():
        for task in env.taskset:
            context = vf.ModelContext(model="m", client=client)
            episode = await env.run_episode(task, context)
            errors = [error.message for error in episode.errors]
            errors += [error.message for trace in episode.traces for error in trace.errors]
            trace = episode.traces[0] if episode.traces else None
            found.append(
                {
                    "ok": episode.ok, "errors": errors,
                    "reward": trace.reward if trace else None,
                    "metrics": trace.metrics if trace else {},
                    "turns": trace.num_turns if trace else 0,
                    "outcome": trace.info.get("outcome") if trace else None,
                    "valid_task": await task.validate(None),
                }
            )  # fmt: skip
    return found


def exported(client):
    math = get_domain("math")
    knobs = math.space.parse({"digits": 3})
    for number, task in enumerate(math.generate(knobs, 4, 7, Split.DEV)):
        if number != 3:
            ANSWERS[math.prompt(task)[-1].content] = math.oracle(task)
    one = environment(domain="math", knobs={"digits": 3}, split="dev", seed=7, count=4)

    guessing = GuessingDomain()
    for task in guessing.generate(guessing.space.defaults(), 3, 7, Split.TRAIN):

        def player(asked, task=task):
            said = tuple(Message.model_validate(message) for message in asked)
            return halve(task, None, said)

        ANSWERS[guessing.prompt(task)[-1].content] = player
    several = environment(domain="guessing", seed=7, count=3)
    return {
        "one": asyncio.run(episodes(one, client)),
        "several": asyncio.run(episodes(several, client)),
        "kinds": [type(one).__name__, type(next(iter(one.taskset))).__name__],
    }


def imported():
    domain = get_domain("verifiers:sums_taskset?size=600")
    task = next(domain.generate(domain.space.defaults(), 1, 0, Split.DEV))
    lenient = get_domain("verifiers:sums_taskset?size=600&lenient=true")
    refused = {}
    for name in ("nowhere_at_all", "sums_taskset?size=many", "coevolve-taskset", "harbor"):
        try:
            get_domain(f"verifiers:{name}")
        except CoevolveError as error:
            refused[name] = str(error)
    return {
        "checks": [finding._asdict() for finding in conformance(domain)],
        "lenient": [f.name for f in conformance(lenient) if not f.passed],
        "full": domain.full_reward,
        "broken": domain.verify(task, "crash").model_dump(mode="json"),
        "half": domain.verify(task, "\\boxed{%s}" % ("0" * 50)).model_dump(mode="json"),
        "prompt": [message.model_dump() for message in domain.prompt(task)],
        "task": task.model_dump(mode="json"),
        "round_trip": domain.load(Task.model_validate(task.model_dump()).model_dump()) == task,
        "refused": refused,
    }


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/v1"
    client = vf.EvalClientConfig(base_url=address, api_key_var="NO_KEY_IS_NEEDED")
    found = {"imported": imported(), "exported": exported(client), "cached": opened.cache_info()[0]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
