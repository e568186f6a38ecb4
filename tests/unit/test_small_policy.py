"""The small policies of the trees on math and code: what their tokenizer reads, it writes."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="models need the extra `train`")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(("name", "style"), [("math", "plain"), ("code", "")])
def test_a_small_policy_reads_and_writes_any_text(
    name: str, style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import small_policy

    from coevolve.core.rollout import Message
    from coevolve.core.splits import Split
    from coevolve.domains.registry import get_domain
    from coevolve.policies.local import render
    from coevolve.policies.models import load

    words = ["small_policy.py", "-d", name, "--style", style, "--count", "60", "--width", "32"]
    monkeypatch.setattr(sys, "argv", [*words, "-o", str(tmp_path / "policy")])
    small_policy.main()
    loaded = load(str(tmp_path / "policy"), device="cpu")
    domain = get_domain(name)
    tasks = domain.generate(domain.space.defaults(), 20, 7, Split.DEV)
    for text in (*(domain.oracle(task, style) for task in tasks), "12 Äpfel\n\n\t<end", "  7"):
        ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert loaded.tokenizer.decode(ids) == text
    asked = render(loaded.tokenizer, (Message(role="user", content="Compute 31 + 4."),))
    assert asked[-1] == loaded.tokenizer.convert_tokens_to_ids(small_policy.ANSWER)
    digits = [loaded.tokenizer.decode([one]) for one in asked]
    assert [one for one in digits if one.isdigit()] == ["3", "1", "4"]
