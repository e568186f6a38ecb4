"""What `test_vllm_training.py` runs where vLLM is installed: trains with it, and prints what it
found as JSON."""

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import trl
from training import Guessing, Looking, stage
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.utils import get_json_schema

from coevolve.core.rollout import Outcome
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.math.domain import MathDomain
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.engines.trl.vllm import VllmGenerator
from coevolve.policies.models import find, load
from coevolve.policies.vllm import Server
from coevolve.store.shards import read

CALL = '<tool_call>\n{"name": "look", "arguments": {"place": "%s"}}\n</tool_call>'
CALM = {"dead_share": 2, "cut_share": 2, "length_factor": 99, "entropy_share": 0, "drift": 99}


def make_models(folder: Path) -> None:
    """A small model with tied embeddings that knows nothing, and the same once it has learned by
    heart to call a tool."""
    tokenizer = AutoTokenizer.from_pretrained(find("smollm2"))
    template = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    tokenizer.chat_template = template.read_text("utf-8")
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True,
            max_position_embeddings=1024, eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.bos_token_id, pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip
    model.save_pretrained(folder / "blank")
    tokenizer.save_pretrained(folder / "blank")
    rows = []
    for word in ("holes", "starts", "goals", "plan"):
        asked = [{"role": "user", "content": f"plan {word} plan"}]
        tools = [get_json_schema(look)]
        prompt = tokenizer.apply_chat_template(
            asked, tools=tools, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        said = tokenizer(CALL % word)["input_ids"] + [tokenizer.eos_token_id]
        rows.append((prompt, said))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        loss = torch.zeros(())
        for prompt, said in rows:
            read = model.model(torch.tensor([prompt + said])).last_hidden_state[0]
            guesses = model.lm_head(read[len(prompt) - 1 : -1])
            loss = loss + torch.nn.functional.cross_entropy(guesses, torch.tensor(said))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder / "caller")
    tokenizer.save_pretrained(folder / "caller")


class Sums(MathDomain):
    """Sums of which every answer earns something, so that there is something to learn."""

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        outcome = super().verify(task, text, tokens)
        return outcome.model_copy(update={"reward": sum(map(ord, text)) % 7 / 7})


def look(place: str) -> str:
    """Look at a place.

    Args:
        place: Where to look.
    """
    return place


def train(
    folder: Path, domain, tasks, observe=None, limits=None, model="blank", settings=None, **recipe
) -> dict:
    """One stage, and what is known of it."""
    chosen = stage(
        folder, model=str(folder.parent / model), limits={**CALM, **(limits or {})},
        recipe={"max_tokens": 12, "learning_rate": 3e-3, "generator": "vllm", **recipe},
        **(settings or {}),
    )  # fmt: skip
    result = TrlEngine({domain.name: domain}).train(chosen, tasks, observe)
    rows = read(folder / "rollouts").to_pylist()
    return {
        "stopped": result.stopped,
        "lines": StageFolder(folder).lines(),
        "roles": sorted({tuple(turn["role"] for turn in row["messages"]) for row in rows}),
        "place": {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")},
    }


def serve(model: Path, rank: int) -> Server:
    """A server as a person would start it, for adapters and for TRL."""
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"
    return Server(str(model), rank)


def ask(model: str) -> dict:
    """What a server answers to a trainer that sends it no weights."""
    loaded = load(model, "cpu", training=True)
    server = Server(model, 0)
    try:
        url = server.url.removesuffix("/v1")
        generation = SimpleNamespace(mode="server", model=loaded.model, server_base_url=url)
        generator = VllmGenerator(generation, loaded.end_ids, loaded.context)
        prompts = [
            loaded.tokenizer(f"plan {word}")["input_ids"] for word in ("goals", "goals", "3")
        ]
        prompts.append([5] * (loaded.context - 3))
        answers, again = (generator.generate(prompts, range(4), 12, 0.8) for _ in range(2))
    finally:
        server.end()
        server.log.unlink(missing_ok=True)
    gaps = []
    for prompt, answer in zip(prompts, answers, strict=True):
        with torch.no_grad():
            logits = loaded.model(torch.tensor([prompt + answer.tokens])).logits[0] / 0.8
        told = logits[len(prompt) - 1 : -1].log_softmax(-1)
        own = told[torch.arange(len(answer.tokens)), answer.tokens]
        gaps.append((own - torch.tensor(answer.logprobs)).abs().max().item())
    same = [one.tokens == other.tokens for one, other in zip(answers, again, strict=True)]
    return {"gaps": gaps, "same": same, "tokens": [one.tokens for one in answers]}


class CutOff(Exception):
    pass


def cut(progress) -> None:
    if progress.step == 3:
        raise CutOff


def train_until_cut(folder: Path, domain, tasks, **recipe) -> bool:
    """Whether a stage was cut off in its third step."""
    try:
        train(folder, domain, tasks, cut, **recipe)
    except CutOff:
        return True
    return False


def kill(progress) -> None:
    if progress.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)


def tell(name: str, found: object) -> None:
    print(json.dumps({name: found}), flush=True)


def main(folder: Path, part: str) -> None:
    math = Sums()
    sums = list(math.generate(math.space.parse({}), 8, 1, Split.TRAIN))
    adapters = {"lora": 4, "learning_rate": 3e-2}
    if part == "asks":
        tell("asked", ask(str(folder / "blank")))
        return
    if part == "serves":
        server = serve(folder / "caller", 16)
        url = server.url.removesuffix("/v1")
        own = {**adapters, "model": "caller", "max_tokens": 40, "generator": url}
        try:
            tell("served", train(folder / "served", math, sums, **own))
            two = {"processes": 2, "reward": "tokens"}
            tell("served pair", train(folder / "pair", MathDomain(), sums, settings=two, **own))
            VllmGenerator.serve, serve_it = lambda self: None, VllmGenerator.serve
            tell("unserved", train(folder / "unserved", math, sums, **own))
            VllmGenerator.serve = serve_it
            cut_off = train_until_cut(folder / "again", math, sums, **own)
            tell("cut served", cut_off)
            tell("resumed", train(folder / "again", math, sums, **own))
        finally:
            server.end()
            server.log.unlink(missing_ok=True)
        return
    if part == "shares":
        own = {"model": "caller", "max_tokens": 40, "steps": 2}
        for name, processes in (("alone", 1), ("pair", 2)):
            settings = {"reward": "tokens", "processes": processes}
            tell(name, train(folder / name, MathDomain(), sums, settings=settings, **own))
        return
    if part == "goes on":
        tell("cut", train(folder / "cut", math, sums))
        tell("cut-adapters", train(folder / "cut-adapters", math, sums, **adapters))
        return
    make_models(folder)
    tell("math", train(folder / "math", math, sums))
    tell("colder", train(folder / "colder", math, sums, temperature_end=0.5, iterations=2))
    tell("adapters", train(folder / "adapters", math, sums, **adapters))
    heard = {"model": "caller", "max_tokens": 40}
    tell("turns", train(folder / "turns", Guessing(), Guessing().tasks(4), **heard))
    heard["max_tokens"] = 160  # of the whole dialogue
    tell("tools", train(folder / "tools", Looking(), Looking().tasks(4), **heard))
    follow, VllmGenerator.follow = VllmGenerator.follow, lambda self: None
    fast = {"steps": 8, "learning_rate": 1e-2}
    tell("left behind", train(folder / "left", math, sums, limits={"patience": 2}, **fast))
    VllmGenerator.follow = follow
    tell("interrupted", train_until_cut(folder / "cut-adapters", math, sums, **adapters))
    train(folder / "cut", math, sums, kill)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
