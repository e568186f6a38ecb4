"""All policies by name: a domain's scripts, models on this machine, files and addresses."""

from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.domains.base import Domain
from coevolve.policies.base import Policy


def get_policy(name: str, domain: Domain, style: str = "", device: str = "") -> tuple[Policy, str]:
    """The policy that a name stands for, and the prompt style it is asked in."""
    if name in domain.scripts:
        from coevolve.policies.scripted import ScriptedPolicy

        return ScriptedPolicy(domain, name, style), style
    if name.startswith(("http://", "https://")):
        from coevolve.policies.endpoint import EndpointPolicy
        from coevolve.policies.models import cache_folder

        address, _, model = name.partition("#")
        if not model:
            raise UserError(f"'{name}' names no model; write {name}#MODEL")
        return EndpointPolicy(address, model, cache=cache_folder().parent / "answers.db"), style
    if name.endswith(".gguf"):
        from coevolve.policies.gguf import GgufPolicy

        return GgufPolicy(Path(name)), style
    from coevolve.policies.models import find

    try:
        find(name)  # before torch is loaded
    except UserError as error:
        raise UserError(f"{error}; scripts of {domain.name}: {', '.join(domain.scripts)}") from None
    from coevolve.policies.local import LocalPolicy

    policy = LocalPolicy(name, device)
    return policy, policy.loaded.style(domain.name, style)
