"""Stages of training: warm start, early stops, turns, tools, adapters, settings, memory."""

import functools
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

import torch
from safetensors.torch import load_file
from training import Flat, Guess, Guessing, Looking, Words, lake_tasks, stage, weights

from coevolve.cli.train import asking
from coevolve.core.errors import EngineError, PolicyError, UserError
from coevolve.core.rollout import Message, Outcome, StopReason
from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Progress, order
from coevolve.engines.trl import engine, settings, warm
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.failures import out_of_memory, pass_of
from coevolve.engines.trl.folder import StageFolder
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.language import instructions
from coevolve.evaluation.statistics import wilson
from coevolve.harness.check import checked
from coevolve.harness.recipe import Recipe
from coevolve.loop.train import own_tasks
from coevolve.pocket import folder as pocket_folder
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.generate import Answer, Generator
from coevolve.policies.local import LocalPolicy
from coevolve.policies.models import load
from coevolve.store.shards import read

LAX = {"dead_share": 2, "cut_share": 2, "length_factor": 99, "entropy_share": 0, "drift": 99}


def test_the_recipe_stays_small() -> None:
    assert len(Recipe.model_fields) <= 22


def test_a_temperature_goes_on_a_straight_line() -> None:
    recipe = Recipe(steps=5, temperature=1.0, temperature_end=0.6)
    found = [recipe.temperature_at(step) for step in range(5)]
    assert found == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])
    assert {Recipe(steps=5).temperature_at(step) for step in range(5)} == {1.0}
    assert Recipe(steps=1, temperature_end=0.5).temperature_at(0) == 1.0


def test_order_is_passes_over_everything() -> None:
    found = order(5, 12, 7)
    assert sorted(found[:5]) == sorted(found[5:10]) == [0, 1, 2, 3, 4]
    assert found[:5] != found[5:10]
    assert found == order(5, 12, 7) != order(5, 12, 8)


@pytest.mark.parametrize(("epochs", "distinct"), [(1, 15), (2, 8), (5, 3), (99, 1)])
def test_epochs_are_passes_over_fewer_tasks(epochs: int, distinct: int) -> None:
    recipe = Recipe(steps=5, tasks=3, epochs=epochs)
    tasks = own_tasks(get_domain("lake"), {"agents2.share": 1.0}, recipe, seed=7)
    assert len({task.id for task in tasks}) == recipe.distinct == distinct
    seen = Counter(order(len(tasks), 15, 7))
    assert len(seen) == distinct
    assert min(epochs, 15) in seen.values()
    assert max(seen.values()) <= min(epochs, 15)


def test_settings_count_updates(tmp_path: Path) -> None:
    machine = settings.Machine(cuda=False, mixes=False, size="small")
    recipe = {"steps": 40, "iterations": 3, "schedule": "cosine", "epochs": 2}
    for kind, make, updates in (
        ("grpo", settings.grpo, 3),
        ("warm", lambda stage, machine: settings.warm(stage, machine, 9), 1),
    ):
        chosen = stage(tmp_path, kind=kind, recipe=recipe)
        found = {one.name: one.value for one in make(chosen, machine)}
        assert found["max_steps"] == 40 * updates
        assert (found["logging_steps"], found["save_steps"]) == (updates, 2 * updates)
        assert (found["lr_scheduler_type"], found["warmup_steps"]) == ("cosine", 4 * updates)
        assert found.get("num_iterations", 1) == updates


def test_a_warm_start_needs_no_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"steps": 3, "tasks": 4}
    losses = []
    for name, dropped in (("without", warm.unmasked), ("with", lambda _: nullcontext())):
        monkeypatch.setattr(engine, "unmasked", dropped)
        own = stage(tmp_path / name, kind="warm", recipe=changes)
        TrlEngine().train(own, lake_tasks(8))  # of different lengths, so that some are padded
        losses.append([line["loss"] for line in StageFolder(tmp_path / name).lines()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert len(set(losses[0])) == 3


def test_a_warm_start_learns_its_demonstrations(tmp_path: Path) -> None:
    changes = {"steps": 40, "tasks": 8, "learning_rate": 1e-3}
    result = TrlEngine().train(stage(tmp_path, kind="warm", recipe=changes), lake_tasks(8))
    lines = StageFolder(tmp_path).lines()
    assert result.steps == 40
    assert lines[-1]["loss"] < 0.5 * lines[0]["loss"]
    old, new = weights(pocket_folder()), weights(result.policy)
    assert any(not torch.equal(old[name], new[name]) for name in old)


def test_own_answers_are_replayed_if_they_are_right_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Careless:
        """Knows capitals alone, and does not always stop."""

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def answer(self, prompts: list[Prompt], _: Sampling) -> list[Completion]:
            said = "Rome Tokyo Cairo Athens Lisbon Oslo Vienna Havana Stockholm Nairobi"
            ends = (StopReason.END, StopReason.LENGTH)
            return [Completion(said, ends[place // 4 % 2]) for place in range(len(prompts))]

    monkeypatch.setattr(warm, "LocalPolicy", Careless)
    loaded = load("pocket", "cpu")
    kept = warm.replayed(loaded, stage(tmp_path, kind="warm"), 400)
    asked = instructions(400, derive(stage(tmp_path, kind="warm").seed, "replay"), held_out=False)
    said = Careless().answer([Prompt(task.messages) for task in asked], Sampling())
    right = [task.check(answer.text) for task, answer in zip(asked, said, strict=True)]
    whole = [answer.stop is StopReason.END for answer in said]
    assert 10 < len(kept) == sum(a and b for a, b in zip(right, whole, strict=True)) < sum(right)
    monkeypatch.setattr(
        Careless, "answer", lambda _, prompts, __: [Completion("") for _ in prompts]
    )
    with pytest.raises(UserError, match="none of the model's own answers to 400"):
        warm.replayed(loaded, stage(tmp_path, kind="warm"), 400)


def test_dead_groups_stop_a_stage_and_keep_the_start(tmp_path: Path) -> None:
    domain = Flat()
    changes = stage(tmp_path, recipe={"steps": 20}, limits={"patience": 3})
    result = TrlEngine({"words": domain}).train(changes, domain.tasks(4))
    assert result.stopped is not None
    assert "100% of the groups are dead, there is nothing to learn from" in result.stopped
    assert len(StageFolder(tmp_path).lines()) == 3
    old, new = weights(pocket_folder()), weights(result.policy)
    assert all(torch.equal(old[name], new[name]) for name in old)


def test_equal_rewards_are_dead_in_groups_of_any_size(tmp_path: Path) -> None:
    """The mean of six times 0.9 is not 0.9 in float32."""

    class Same(Flat):
        def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
            return Outcome(valid=True, optimal=True, reward=0.9, components={}, failure=None)

    changes = stage(tmp_path, recipe={"steps": 8, "group": 6}, limits={"patience": 3})
    result = TrlEngine({"words": Same()}).train(changes, Same().tasks(4))
    assert "groups are dead" in str(result.stopped)
    assert all(line["grad_norm"] == 0 for line in StageFolder(tmp_path).lines())


def test_nan_stops_a_stage_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coevolve.engines.trl.grpo import Trainer

    plain = Trainer._compute_loss

    def poisoned(self: Any, model: Any, inputs: Any) -> Any:
        loss = plain(self, model, inputs)
        return loss * float("nan") if self.state.global_step == 4 else loss

    monkeypatch.setattr(Trainer, "_compute_loss", poisoned)
    domain, changes = Words(), stage(tmp_path, recipe={"steps": 8}, limits=LAX)
    result = TrlEngine({"words": domain}).train(changes, domain.tasks(4))
    assert TrlEngine({"words": domain}).train(changes, domain.tasks(4)) == result
    assert result.stopped is not None
    assert result.stopped.startswith("loss is nan")
    assert "loss" not in result.metrics
    assert result.steps == 4
    assert all(torch.isfinite(tensor).all() for tensor in weights(result.policy).values())


def test_plain_turns_are_played_and_only_own_tokens_learned(tmp_path: Path) -> None:
    domain = Guessing()
    domains = {"guessing": domain}
    changes = stage(tmp_path, recipe={"steps": 2, "max_tokens": 60, "temperature": 2.0})
    result = TrlEngine(domains).train(changes, domain.tasks(4))
    rows = read(tmp_path / "rollouts").to_pylist()
    assert len(rows) == 16
    assert result.tokens == sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)
    turns = [[turn["role"] for turn in row["messages"]] for row in rows]
    assert max(len(roles) for roles in turns) > 2
    for roles in turns:
        assert roles == (["user", "assistant"] * 3)[: len(roles)]
    for row in rows:
        assert row["completion_tokens"] <= 3 * 60
        assert dict(row["components"])["turns"] <= 3
        assert row["entropy"] is not None
    assert {row["stop"] for row in rows} & {"turns", "length"}


class Echo(Guess):
    """Is never content, and judges what was said last."""

    def reply(self, text: str) -> str | None:
        return "plan again"

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        spoken = {"turns": float(len(text.split()))}
        return Outcome(valid=True, optimal=False, reward=1.0, components=spoken, failure=None)


class Echoing(Guessing):
    def begin(self, task: Task) -> Echo:
        return Echo(task.data["word"])


@pytest.mark.parametrize(
    ("words", "most", "stop"), [(7, 8, "turns"), (7, 7, "length"), (507, 600, "length")]
)
def test_a_dialogue_has_the_room_in_training_that_it_has_in_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: int, most: int, stop: str
) -> None:
    """Each answer has all of max_tokens, and the context ends the whole with an empty answer."""

    def generate(
        self: Generator, prompts: Any, seeds: Any, max_tokens: int, *_: Any
    ) -> list[Answer]:
        tokens = [10] * words + [int(self.end_ids[0])]
        answer = Answer(tokens, [-1.0] * len(tokens), [0.5] * len(tokens), True)
        return [answer.within(max_tokens) for _ in prompts]

    monkeypatch.setattr(Generator, "generate", generate)
    domain = Echoing()
    tasks = domain.tasks(1)
    changes = {"steps": 1, "tasks": 1, "group": 2, "max_tokens": most}
    TrlEngine({"guessing": domain}).train(stage(tmp_path, recipe=changes), tasks)
    row = read(tmp_path / "rollouts").to_pylist()[0]
    sampling = Sampling(max_tokens=most)
    (found,) = attempts(domain, LocalPolicy("pocket"), tasks, sampling)  # type: ignore[arg-type]
    assert row["stop"] == found.stop == stop
    assert row["messages"] == [message.model_dump() for message in found.messages]
    assert dict(row["components"]) == found.outcome.components
    assert row["completion_tokens"] == found.completion_tokens
    later = sum(message.role == "assistant" and bool(message.content) for message in found.messages)
    ends = later * (later - 1) // 2  # the pocket policy's template leaves them out
    assert row["prompt_tokens"] == found.prompt_tokens + ends


def test_passes_are_planned_for_whole_dialogues(tmp_path: Path) -> None:
    chosen = stage(tmp_path, recipe={"tasks": 64, "group": 64, "max_tokens": 256})
    assert settings.passes(chosen, "small", 4096, turns=1) == (2048, 2)
    assert settings.passes(chosen, "small", 4096, turns=4) == (512, 8)
    assert settings.passes(chosen, "small", 4096, turns=4, context=1024) == (1024, 4)
    assert settings.passes(chosen, "middle", 64, turns=1, longest=4000) == (8, 8)
    machine = settings.Machine(False, False, "small", turns=4)
    found = {setting.name: setting.value for setting in settings.grpo(chosen, machine)}
    assert found["max_completion_length"] == 4 * 256


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A model that reads 24 tokens, whose positions are learned one by one."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from coevolve.pocket.vocabulary import make_tokenizer

    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    shape = {"n_positions": 24, "n_embd": 32, "n_layer": 1, "n_head": 2}
    config = GPT2Config(
        vocab_size=len(tokenizer), **shape, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "small")
    tokenizer.save_pretrained(tmp_path / "small")
    return tmp_path / "small"


@pytest.mark.parametrize("domain", [Words(), Guessing()])
def test_training_stays_within_the_context(tmp_path: Path, small: Path, domain: Words) -> None:
    changes = {"steps": 1, "tasks": 4, "max_tokens": 60}
    chosen = stage(tmp_path / "stage", model=str(small), recipe=changes)
    TrlEngine({domain.name: domain}).train(chosen, domain.tasks(4))
    lengths = [
        sum(len(turn["content"].split()) for turn in row["messages"])
        for row in read(tmp_path / "stage" / "rollouts").to_pylist()
    ]
    assert len(lengths) == 16
    assert 12 < max(lengths) <= 24


@pytest.mark.parametrize(
    ("kind", "domain", "said"),
    [
        ("grpo", Words(), "a prompt of [0-9]+ tokens does not fit into the 24 tokens"),
        ("grpo", Guessing(), "a prompt of [0-9]+ tokens does not fit into the 24 tokens"),
        ("warm", Words(), "a demonstration of [0-9]+ tokens does not fit into the 24 tokens"),
    ],
)
def test_what_does_not_fit_into_the_context_is_refused(
    tmp_path: Path,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    domain: Words,
    said: str,
) -> None:
    long = (Message(role="user", content="plan " * 40),)
    monkeypatch.setattr(domain, "prompt", lambda *_: long)
    chosen = stage(tmp_path / "stage", kind=kind, model=str(small), recipe={"steps": 1})
    with pytest.raises(EngineError, match=said):
        TrlEngine({domain.name: domain}).train(chosen, domain.tasks(4))


def test_an_answer_is_cut_by_its_own_room_and_not_by_its_neighbours() -> None:

    answer = Answer([5, 6, 7], [-0.1, -0.2, -0.3], [0.1, 0.2, 0.3], True)
    assert answer.within(3) == answer
    assert answer.within(2) == Answer([5, 6], [-0.1, -0.2], [0.1, 0.2], False)


@pytest.mark.parametrize("domain", [Words(), Guessing()])
def test_another_generator_draws_in_all_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, domain: Words
) -> None:
    from coevolve.engines.trl.grpo import Trainer
    from coevolve.engines.trl.vllm import VllmGenerator
    from coevolve.policies.generate import Generator

    asked, followed = [], []

    class Other(VllmGenerator):
        """In the place of vLLM: it has weights of its own, and takes over the trainer's."""

        def __init__(self, trainer: Any) -> None:
            self.trainer = trainer

        def follow(self) -> None:
            followed.append(self.trainer.step)

        def generate(self, prompts: Any, *rest: Any) -> list[Answer]:
            asked.append(len(prompts))
            own = self.trainer
            model = own.accelerator.unwrap_model(own.model)
            drawn = Generator(model, own.eos_token_ids, own._tokenizer.pad_token_id)
            found = drawn.generate(prompts, *rest)
            return [one._replace(entropies=[]) for one in found]

    made = functools.cached_property(Other)
    made.__set_name__(Trainer, "generator")
    monkeypatch.setattr(Trainer, "generator", made)
    chosen = stage(tmp_path / "stage", recipe={"steps": 2, "max_tokens": 12})
    TrlEngine({domain.name: domain}).train(chosen, domain.tasks(4))
    lines = StageFolder(tmp_path / "stage").lines()
    assert max(line["logprob_gap_max"] for line in lines) < 1e-3
    rows = read(tmp_path / "stage" / "rollouts").to_pylist()
    assert len(rows) == 16
    said = [sum(turn["role"] == "assistant" for turn in row["messages"]) for row in rows]
    assert (max(said) > 1) == isinstance(domain, Guessing)
    assert len(asked) >= max(said)
    assert followed == [0, 1]
    assert all(line["importance_ratio"] == pytest.approx(1, abs=1e-3) for line in lines)
    assert all(row["entropy"] is None for row in rows)


class Request(dict):  # type: ignore[type-arg]
    """In the place of vLLM's SamplingParams."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_is_asked_as_our_generator_is(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    from coevolve.engines.trl.vllm import VllmGenerator

    seen: dict[int, dict[str, Any]] = {}
    logprob = -0.5

    class Model:
        def generate(self, prompts: Any, asked: Any, use_tqdm: bool) -> list[Any]:
            assert [one["prompt_token_ids"] for one in prompts] == [[1, 2], [3]]
            seen.update({one["seed"]: one for one in asked})
            told = [{7: SimpleNamespace(logprob=logprob)}, {9: SimpleNamespace(logprob=-1.5)}]
            one = SimpleNamespace(token_ids=(7, 9), logprobs=told)
            return [SimpleNamespace(outputs=[one])] * 2

    class Client:
        def generate(self, prompts: Any, generation_kwargs: Any) -> dict[str, Any]:
            assert prompts in ([[1, 2]], [[3]])
            seen[generation_kwargs["seed"]] = generation_kwargs
            return {"completion_ids": [[7, 9]], "logprobs": [[[logprob], [-1.5]]]}

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=Request))
    generation = SimpleNamespace(mode=mode, model=None, llm=Model(), vllm_client=Client())
    generator = VllmGenerator(generation, [9, 9, 8], context=10)
    drawn = generator.generate([(1, 2), (3,)], [11, 12], 8, 0.7)
    assert drawn == [Answer([7, 9], [-0.5, -1.5], [], True)] * 2
    assert (seen[11]["max_tokens"], seen[12]["max_tokens"]) == (8, 8)
    generator.generate([(1, 2), (3,)], [11, 12], 9, 0.7)
    assert (seen[11]["max_tokens"], seen[12]["max_tokens"]) == (8, 9)
    assert (seen[11]["temperature"], seen[11]["stop_token_ids"]) == (0.7, [8, 9])
    logprob = float("nan")
    with pytest.raises(EngineError, match="told no probability"):
        generator.generate([(1, 2), (3,)], [11, 12], 8, 0.7)


def test_a_server_reads_each_adapter_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file

    from coevolve.engines.trl.vllm import SERVED, VllmGenerator
    from coevolve.policies.models import load
    from coevolve.policies.vllm import Server

    model = get_peft_model(load("pocket", "cpu").model, LoraConfig(r=2, target_modules=["q_proj"]))
    taken: dict[str, dict[str, Any]] = {}
    asked = []
    monkeypatch.setattr(
        Server,
        "take",
        lambda _, name, place: taken.update(
            {name: load_file(f"{place}/adapter_model.safetensors")}
        ),
    )

    class Client:
        base_url, model = "http://127.0.0.1:1", "base"

        def generate(self, _: Any, generation_kwargs: Any) -> dict[str, Any]:
            asked.append(generation_kwargs["model"])
            return {"completion_ids": [[7]], "logprobs": [[[-0.5]]]}

    generation = SimpleNamespace(
        mode="server", model=model, vllm_client=Client(), _dist=SimpleNamespace(is_fsdp=False),
        accelerator=SimpleNamespace(is_main_process=True, wait_for_everyone=lambda: None),
    )  # fmt: skip
    generator = VllmGenerator(generation, [9], 10, tmp_path)
    for _ in range(4):
        with torch.no_grad():
            next(one for one in model.parameters() if one.requires_grad).add_(1)
        generator.follow()
        generator.generate([(1, 2)], [11], 8, 0.7)
    assert asked == list(taken)
    assert len(taken) == 4
    first, *_, last = (next(iter(one.values())) for one in taken.values())
    assert torch.allclose(last - first, torch.full_like(first, 3))
    assert [path.name for path in (tmp_path / SERVED).iterdir()] == ["3"]
    # A server keeps names with their places: the same weights at another place have another name.
    VllmGenerator(generation, [9], 10, tmp_path / "next").follow()
    assert len(taken) == 5


def test_adapters_are_merged_for_vllm_and_weights_stay_as_they_are() -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    from coevolve.engines.trl.vllm import merged, plain_adapters

    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    plain = LlamaForCausalLM(LlamaConfig(vocab_size=50, num_attention_heads=2, **shape))
    names = {name for name, _ in plain.named_parameters()}
    assert not plain_adapters(plain)
    config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(plain, config)
    assert plain_adapters(model)
    before = {name: value.clone() for name, value in model.named_parameters()}
    found = dict(merged(model))
    assert set(found) == names
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    ids = torch.arange(12)[None]
    expected = model(ids).logits
    own = LlamaForCausalLM(plain.config)
    own.load_state_dict(found)
    assert torch.allclose(own(ids).logits, expected, atol=1e-5)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_stage_without_vllm_says_what_to_install(tmp_path: Path) -> None:
    chosen = stage(tmp_path, recipe={"generator": "vllm"})
    with pytest.raises(UserError, match="pip install vllm"):
        TrlEngine({"words": Words()}).train(chosen, Words().tasks(2))


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows nothing, with a real tokenizer and a template that knows tools."""
    import trl
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from coevolve.core.errors import PolicyError
    from coevolve.policies.models import find

    try:
        tokenizer = AutoTokenizer.from_pretrained(find("smollm2"))
    except PolicyError as error:
        pytest.skip(str(error))
    template = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    tokenizer.chat_template = template.read_text("utf-8")
    folder = tmp_path_factory.mktemp("models") / "caller"
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    config = LlamaConfig(
        vocab_size=len(tokenizer), num_attention_heads=2, num_key_value_heads=2, **shape,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_there_is_a_gpu_for_each_process() -> None:
    from coevolve.engines.trl.launch import take_gpu

    with pytest.raises(EngineError, match="processes are more than the 1 GPUs; lower processes"):
        take_gpu(1, 1)


GEMMA = """{% for one in messages %}<|im_start|>{{ one.role }}
{{ one.content }}<turn_end>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PHI = """{% for one in messages %}<|im_start|>{{ one.role }}
{{ one.content }}<turn_end>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% else %}{{ eos_token }}{% endif %}"""


@pytest.mark.parametrize("template", [GEMMA, PHI])
@pytest.mark.parametrize("drawn", [True, False])
def test_what_ended_an_answer_is_read_once(caller: Path, template: str, drawn: bool) -> None:
    """Though it is not what the tokenizer calls the end."""
    from transformers import AutoTokenizer

    from coevolve.engines.trl.turns import reply_ids

    tokenizer = AutoTokenizer.from_pretrained(caller)
    tokenizer.add_tokens(["<turn_end>"], special_tokens=True)
    tokenizer.chat_template = template
    ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<turn_end>")]
    heard = tokenizer.decode(reply_ids(tokenizer, "no", ends if drawn else ends[:1]))
    rest = "\n<|im_start|>user\nno<turn_end>\n<|im_start|>assistant\n"
    assert heard == (rest if drawn else f"<turn_end>{rest}")


@pytest.mark.parametrize("template", ["qwen2_5", "qwen3"])
def test_a_reply_is_read_whole_though_templates_rewrite_answers(
    caller: Path, template: str
) -> None:
    import trl
    from transformers import AutoTokenizer

    from coevolve.engines.trl.turns import reply_ids

    tokenizer = AutoTokenizer.from_pretrained(caller)
    file = Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja"
    tokenizer.chat_template = file.read_text("utf-8")
    ends = [tokenizer.eos_token_id]
    heard = tokenizer.decode(reply_ids(tokenizer, "nothing here", ends))
    assert heard.startswith("\n<|im_start|>user\nnothing here<|im_end|>\n<|im_start|>assistant\n")


def test_a_row_keeps_its_seeds_whoever_else_calls_a_tool() -> None:
    from coevolve.engines.trl.grpo import Trainer

    trainer = object.__new__(Trainer)
    trainer.said = {row: [] for row in range(3)}
    assert trainer.asked([[7], [7], [8]]) == [0, 1, 2]
    trainer.said = {0: [7, 1], 1: [7, 2], 2: [8, 2]}
    assert trainer.asked([[7, 2, 5], [8, 2, 6]]) == [1, 2]


def test_tools_are_called_in_training(
    tmp_path: Path, caller: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coevolve.engines.trl.grpo import Trainer

    call = '<tool_call>\n{"name": "look", "arguments": {"place": "%s"}}\n</tool_call>'

    def draw(self: Any, ids: list[list[int]], seeds: list[int]) -> list[Answer]:
        found = []
        for row, seed in enumerate(seeds):
            text = "done" if self.turn else call % ("here" if seed % 2 else "over there")
            tokens = [*self._tokenizer(text)["input_ids"], self._tokenizer.eos_token_id]
            found.append(Answer(tokens, [-1.0 - row] * len(tokens), [0.5] * len(tokens), True))
        return found

    monkeypatch.setattr(Trainer, "draw", draw)
    domain = Looking()
    changes = {"steps": 1, "max_tokens": 200, "group": 8}
    TrlEngine({"looking": domain}).train(
        stage(tmp_path, model=str(caller), recipe=changes), domain.tasks(2)
    )
    rows = read(tmp_path / "rollouts").to_pylist()
    assert len(rows) == 16
    for row in rows:
        roles = [turn["role"] for turn in row["messages"]]
        assert roles == ["user", "assistant", "tool", "assistant"]
        assert "nothing at" in row["messages"][2]["content"]
        assert dict(row["components"]) == {"turns": 1.0}
    assert {row["messages"][2]["content"] for row in rows} == {
        "nothing at here", "nothing at over there",
    }  # fmt: skip


class Heard(Looking):
    """Remembers which texts were judged."""

    def __init__(self, turns: int) -> None:
        self.turns = turns  # type: ignore[misc]
        self.judged: list[str] = []

    def begin(self, task: Task) -> Guess:
        judged = self.judged

        class Episode(Guess):
            def outcome(self, text: str, tokens: int | None = None) -> Outcome:
                judged.append(text)
                return super().outcome(text, tokens)

        return Episode(task.data["word"])


@pytest.fixture
def always_calling(
    tmp_path: Path, caller: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Heard, int], tuple[dict[str, Any], list[list[int]]]]:
    """Trains a policy that answers every turn with a call; a rollout, and what it read by turns."""
    from coevolve.engines.trl.grpo import Trainer

    call = '<tool_call>\n{"name": "look", "arguments": {"place": "here"}}\n</tool_call>'
    asked: list[list[int]] = []

    def draw(self: Any, ids: list[list[int]], seeds: list[int]) -> list[Answer]:
        asked.append(ids[0])
        tokens = [*self._tokenizer(call)["input_ids"], self._tokenizer.eos_token_id]
        return [Answer(tokens, [-1.0] * len(tokens), [0.5] * len(tokens), True) for _ in ids]

    def train(domain: Heard, most: int) -> tuple[dict[str, Any], list[list[int]]]:
        asked.clear()
        folder = tmp_path / f"{domain.turns}-{most}"
        changes = {"steps": 1, "tasks": 1, "group": 2, "max_tokens": most}
        chosen = stage(folder, model=str(caller), recipe=changes)
        TrlEngine({"looking": domain}).train(chosen, domain.tasks(1))
        return read(folder / "rollouts").to_pylist()[0], list(asked)

    monkeypatch.setattr(Trainer, "draw", draw)
    return train


@pytest.mark.parametrize("turns", [1, 3])
def test_calls_end_with_the_turns(always_calling: Any, turns: int) -> None:
    row, asked = always_calling(Heard(turns), 500)
    roles = [turn["role"] for turn in row["messages"]]
    assert roles == ["user", *["assistant", "tool"] * (turns - 1), "assistant"]
    assert len(asked) == turns
    assert row["prompt_tokens"] == sum(map(len, asked))
    assert row["stop"] == "turns"


def test_what_a_tool_said_is_never_judged(always_calling: Any) -> None:
    """Where its reply fills the room to the last token, no answer stands behind it."""
    _, (first, second) = always_calling(Heard(2), 500)
    for most in (len(second) - len(first), len(second) - len(first) - 1):
        domain = Heard(2)
        row, _ = always_calling(domain, most)
        assert row["stop"] == "length"
        assert domain.judged == ["", ""]


def test_limits_that_differ_are_refused_with_tools(tmp_path: Path) -> None:
    class Uneven(Looking):
        def limit(self, task: Task) -> int:
            return 2 + task.seed

    domain = Uneven()
    with pytest.raises(UserError, match=r"'looking' take at most 2 to 3 turns; with tools all"):
        TrlEngine({"looking": domain}).train(stage(tmp_path), domain.tasks(2))


def test_adapters_are_trained_alone_and_loaded_again(tmp_path: Path) -> None:
    from coevolve.policies.models import load

    domain = Words()
    changes = {"steps": 2, "lora": 4, "learning_rate": 1e-2}
    result = TrlEngine({"words": domain}).train(
        stage(tmp_path / "a", recipe=changes), domain.tasks(4)
    )
    assert (Path(result.policy) / "adapter_config.json").exists()
    assert not (Path(result.policy) / "model.safetensors").exists()
    loaded = load(result.policy, training=True)
    trained = [name for name, tensor in loaded.model.named_parameters() if tensor.requires_grad]
    assert trained
    assert all("lora" in name for name in trained)
    again = stage(tmp_path / "b", model=result.policy, recipe={**changes, "kl": 0.1})
    assert TrlEngine({"words": domain}).train(again, domain.tasks(4)).steps == 2
    assert StageFolder(tmp_path / "b").lines()[-1]["kl"] >= 0


def test_an_adapter_is_found_from_anywhere_and_keeps_its_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = Words()
    engine, tasks = TrlEngine({"words": domain}), domain.tasks(4)
    shutil.copytree(pocket_folder(), tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    begun = engine.train(stage(tmp_path / "a", model="base", recipe={"steps": 1, "lora": 4}), tasks)
    monkeypatch.chdir(tmp_path / "a")
    assert hasattr(load(begun.policy).model, "peft_config")
    later = stage(tmp_path / "b", model=begun.policy, recipe={"steps": 1, "lora": 8})
    with pytest.raises(UserError, match=r"rank 4, .* lora = 8; .* set lora = 4"):
        engine.train(later, tasks)
    later = stage(tmp_path / "c", model=begun.policy, recipe={"steps": 1})
    assert load(engine.train(later, tasks).policy).model.peft_config["default"].r == 4


def test_a_kl_term_holds_all_weights(tmp_path: Path) -> None:
    domain = Words()
    changes = {"steps": 2, "kl": 0.1, "learning_rate": 1e-3}
    TrlEngine({"words": domain}).train(stage(tmp_path, recipe=changes), domain.tasks(4))
    first, last = StageFolder(tmp_path).lines()
    assert first["kl"] == pytest.approx(0.0, abs=1e-6)
    assert last["kl"] > 0


def test_an_adapter_that_is_held_by_a_kl_term_goes_on_where_it_was(tmp_path: Path) -> None:
    domain = Words()
    engine, tasks = TrlEngine({"words": domain}), domain.tasks(4)
    changes = {"steps": 1, "lora": 4, "learning_rate": 1e-2}
    begun = engine.train(stage(tmp_path / "begun", recipe=changes), tasks)
    again = {"model": begun.policy, "recipe": {**changes, "steps": 4, "kl": 0.1}}

    def cut(progress: Progress) -> None:
        if progress.step == 3:
            raise KeyboardInterrupt

    engine.train(stage(tmp_path / "whole", **again), tasks)
    with pytest.raises(KeyboardInterrupt):
        engine.train(stage(tmp_path / "cut", **again), tasks, cut)
    engine.train(stage(tmp_path / "cut", **again), tasks)
    whole, found = (
        load_file(tmp_path / name / "policy" / "adapter_model.safetensors")
        for name in ("whole", "cut")
    )
    assert all(torch.equal(whole[name], found[name]) for name in whole)
    assert not (tmp_path / "whole" / "policy" / "ref").exists()


def test_an_adapter_remembers_how_it_was_taught(tmp_path: Path) -> None:
    from coevolve.policies.models import load

    warm = stage(tmp_path, kind="warm", style="compact", recipe={"steps": 1, "tasks": 2, "lora": 4})
    result = TrlEngine().train(warm, lake_tasks(2))
    assert load(result.policy).style("lake") == "compact"


def test_reinforcement_teaches_its_style(tmp_path: Path) -> None:
    taught = stage(tmp_path, style="compact", recipe={"steps": 1})
    result = TrlEngine().train(taught, lake_tasks(2))
    assert load(result.policy).style("lake") == "compact"
    assert asking(taught, "lake") == " --style compact"
    assert asking(stage(tmp_path), "math") == " -d math"


def test_groups_of_a_repeated_task_are_told_apart(tmp_path: Path) -> None:
    domain = Words()
    TrlEngine({"words": domain}).train(stage(tmp_path, recipe={"steps": 1}), domain.tasks(1))
    rows = read(tmp_path / "rollouts").to_pylist()
    assert {row["task_id"] for row in rows} == {"words-0"}
    assert sorted((row["group"], row["sample"]) for row in rows) == [
        (f"0/{group}", sample) for group in range(2) for sample in range(4)
    ]


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "bnpo", "gspo", "luspo", "sapo", "cispo"])
def test_the_named_losses_train(tmp_path: Path, loss: str) -> None:
    domain = Words()
    changes = {"steps": 1, "loss": loss, "clip_high": 5.0 if loss == "cispo" else 0.3}
    result = TrlEngine({"words": domain}).train(stage(tmp_path, recipe=changes), domain.tasks(2))
    assert result.metrics["grad_norm"] > 0


def test_settings_refuse_what_cannot_be(tmp_path: Path) -> None:
    machine = settings.Machine(cuda=False, mixes=False, size="small")
    for changes, said in (
        ({"micro_batch": 3}, "micro_batch 3 does not divide the 8"),
        ({"loss": "cispo"}, "largest ratio"),
        ({"generator": "http://127.0.0.1:1"}, "by NCCL, which needs a GPU; set lora = 32"),
    ):
        with pytest.raises(UserError, match=said):
            settings.grpo(stage(tmp_path, recipe=changes), machine)
    if find_spec("vllm") is None:
        with pytest.raises(UserError, match="pip install vllm"):
            settings.grpo(stage(tmp_path, recipe={"generator": "vllm"}), machine)
    with pytest.raises(UserError, match="cannot be shared by 3 processes"):
        settings.grpo(stage(tmp_path, processes=3), machine)


def test_only_what_draws_can_be_a_generator() -> None:
    with pytest.raises(UserError, match="generator = 'elsewhere': use local, vllm, or the address"):
        checked(Recipe, {"generator": "elsewhere"}, "recipe")
    assert Recipe(generator="https://gpu:8000").generator == "https://gpu:8000"


def test_the_last_good_checkpoint_outlives_the_watch(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path)
    for step in range(1, 9):
        (folder.checkpoints / f"checkpoint-{step}").mkdir(parents=True)
        folder.complete(step, step, good=step < 3)
        folder.rotate()
    names = [path.name for path in folder.all_checkpoints()]
    assert names == [f"checkpoint-{step}" for step in (8, 7, 6, 2)]


def test_tasks_are_read_as_they_were_written(tmp_path: Path) -> None:
    (task,) = Words().tasks(1)
    odd = task.model_copy(update={"data": {"word": "a\u2028b\u2029c\x85d\re"}})
    StageFolder(tmp_path).open(stage(tmp_path), [odd])
    assert StageFolder(tmp_path).load()[1] == [odd]


def test_a_warm_start_that_is_cut_off_tells_what_a_whole_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coevolve.engines.trl import folder

    measured: list[str] = []

    def measure(policy: Any) -> dict[str, Any]:
        measured.append(policy.name)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return {"json": wilson(5, 10)}

    def cut(step: Progress) -> None:
        if step.step == 3 and not measured[1:]:
            raise KeyboardInterrupt

    monkeypatch.setattr(folder, "LANGUAGE", 0)
    monkeypatch.setattr(folder, "measure", measure)
    chosen = stage(tmp_path, kind="warm", recipe={"steps": 4, "tasks": 4})
    for observe in (cut, None):  # in a step, and while what was learned is measured
        with pytest.raises(KeyboardInterrupt):
            TrlEngine().train(chosen, lake_tasks(4), observe)
    result = TrlEngine().train(chosen, lake_tasks(4))
    assert measured == ["pocket", "pocket", str(tmp_path / "policy")]
    assert result.skills == {"json": {"n": 10, "before": 0.5, "after": 0.5}}
    each = StageFolder(tmp_path).lines()[0]["tokens"]
    assert result.tokens > 3 * each
    assert result.seconds > sum(line["seconds"] for line in StageFolder(tmp_path).lines())


def test_every_setting_has_a_reason(tmp_path: Path) -> None:
    found = TrlEngine().settings(stage(tmp_path))
    assert len(found) > 20
    assert all(reason for _, _, reason in found)


def test_running_out_of_memory_is_loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coevolve.engines.trl.grpo import Trainer

    def exhausted(*_: Any, **__: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("tried to allocate 20 GiB")

    monkeypatch.setattr(Trainer, "_compute_loss", exhausted)
    with pytest.raises(EngineError) as caught:
        TrlEngine().train(stage(tmp_path), lake_tasks(4))
    said = str(caught.value)
    assert said.startswith("OUT OF MEMORY")
    for part in ("1M parameters", "8 rollouts per pass", "40 tokens", "micro_batch = 4", "lora"):
        assert part in said


def test_a_warm_start_that_runs_out_of_memory_says_what_helps_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl import SFTTrainer

    def exhausted(*_: Any, **__: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("tried to allocate 20 GiB")

    monkeypatch.setattr(SFTTrainer, "compute_loss", exhausted)
    with pytest.raises(EngineError) as caught:
        TrlEngine().train(stage(tmp_path, kind="warm", recipe={"tasks": 6}), lake_tasks(6))
    said = str(caught.value)
    assert said.startswith("OUT OF MEMORY: 1M parameters, 6 demonstrations per pass, up to ")
    assert " tokens each. Set micro_batch = 3, or set lora = 16. nothing was saved yet" in said
    longest = max(len(row["input_ids"]) for row in examples_of(tmp_path))
    assert f"up to {longest} tokens" in said


def examples_of(folder: Path) -> list[dict[str, list[int]]]:
    """The demonstrations of a stage in its folder."""
    chosen, tasks = StageFolder(folder).load()
    return warm.examples(chosen, tasks, {"lake": get_domain("lake")}, load("pocket"))


def test_a_model_that_no_device_has_room_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import PreTrainedModel

    def exhausted(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("tried to allocate 20 GiB")

    monkeypatch.setattr(PreTrainedModel, "to", exhausted)
    with pytest.raises(PolicyError, match=r"OUT OF MEMORY: the weights of 'pocket' take 0.0 GiB"):
        load("pocket")


def test_memory_that_others_hold_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, loaded = stage(tmp_path), load("pocket")
    folder = StageFolder(chosen.folder)
    for name, value in {
        "is_available": True, "mem_get_info": (0, 16 << 30), "memory_reserved": 2 << 30,
        "max_memory_allocated": 1 << 30,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    said = out_of_memory(chosen, folder, loaded, pass_of(chosen, loaded), RuntimeError("no"))
    assert "1.0 of 16.0 GiB used, 14.0 by other processes" in said
    assert "Run fewer processes side by side, or set micro_batch = 4" in said
