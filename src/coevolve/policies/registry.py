"""All policies by name: a domain's scripts, models on this machine, files and addresses."""

from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.domains.base import Domain
from coevolve.policies.base import Policy

ADDRESS = ("http://", "https://")


def check_policy(name: str, domain: Domain) -> None:
    """Refuse a name that nothing stands for, without loading anything."""
    if name in domain.scripts:
        return
    if name.startswith(ADDRESS):
        if not name.partition("#")[2]:
            raise UserError(f"'{name}' names no model; write {name}#MODEL")
    elif name.startswith("vllm:"):
        from coevolve.policies.vllm import named, program

        if not named(name).is_up:
            program()
    elif name.endswith(".gguf"):
        if not Path(name).is_file():
            raise UserError(f"there is no file {name}")
    else:
        from coevolve.policies.models import find

        try:
            find(name)
        except UserError as error:
            scripts = ", ".join(domain.scripts)
            raise UserError(f"{error}; scripts of {domain.name}: {scripts}") from None


def get_policy(
    name: str,
    domain: Domain,
    style: str = "",
    device: str = "",
    prices: tuple[float, float] = (0.0, 0.0),
) -> tuple[Policy, str]:
    """The policy that a name stands for, and the prompt style it is asked in. Prices, per million
    tokens read and written, are those of a model behind an address."""
    check_policy(name, domain)
    if name in domain.scripts:
        from coevolve.policies.script import ScriptedPolicy

        return ScriptedPolicy(domain, name, style), style
    if name.startswith(ADDRESS):
        from coevolve.policies.endpoint import EndpointPolicy, is_local
        from coevolve.policies.models import cache_folder

        address, _, model = name.partition("#")
        # A server of one's own costs nothing, and may serve other weights by the same name.
        cache = None if is_local(address) else cache_folder().parent / "answers.db"
        endpoint = EndpointPolicy(
            address, model, cache=cache, price_in=prices[0], price_out=prices[1]
        )
        return endpoint, style
    if name.startswith("vllm:"):
        from coevolve.policies.vllm import VllmPolicy

        served = VllmPolicy(name)
        return served, served.style(domain.name, style)
    if name.endswith(".gguf"):
        from coevolve.policies.gguf import GgufPolicy

        return GgufPolicy(Path(name)), style
    from coevolve.policies.local import LocalPolicy

    policy = LocalPolicy(name, device)
    return policy, policy.loaded.style(domain.name, style)
