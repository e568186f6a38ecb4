"""The id `coevolve-taskset` of verifiers: any domain, named in its field `domain`.

A module of its own because verifiers finds a taskset by the name of a top-level module.
"""

from coevolve.domains.verifiers.taskset import ChatHarness, DomainEnv, DomainTaskset

__all__ = ["ChatHarness", "DomainEnv", "DomainTaskset"]
