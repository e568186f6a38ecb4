"""The lake's knobs: the paper's 24 numbers; beyond them more sizes, agents, lengths, detours."""

import math

from coevolve.domains.knobs import Knob, KnobSpace

SIZES = range(3, 33)
PAPER_SIZES = range(3, 11)
AGENTS = range(1, 9)
ALL_LENGTHS = 1000
CROWDED = 0.2
"""Share of holes from which detours are common enough to be asked for."""


def slack(agents: int) -> int:
    """Free cells a board must have beyond its agents, so that they can get round each other.

    The generator uses it compiled.
    """
    return max(2, agents // 2)


def make_knobs() -> tuple[Knob, ...]:
    knobs = []
    for size in SIZES:
        share = 1 / len(PAPER_SIZES) if size in PAPER_SIZES else 0.0
        board = f"{size}x{size} boards"
        knobs += [
            Knob(
                f"size{size}.data_ratio", 0, 1, share, "share of tasks",
                f"share of tasks with {board}", group="sizes", label=("size", size),
            ),
            Knob(
                f"size{size}.hole_ratio", 0, 0.5, 0.2, "share of cells",
                f"mean share of cells that are holes on {board}", harder=1, shown=True,
            ),
            Knob(
                f"size{size}.wait_ratio", 0, 1, 0.5, "share of tasks",
                f"share of {board} where some agent must wait for another", harder=1, shown=True,
            ),
        ]  # fmt: skip
    for agents in AGENTS:
        knobs.append(
            Knob(
                f"agents{agents}.share", 0, 1, float(agents == 2), "share of tasks",
                f"share of tasks with {agents} agent{'s' * (agents > 1)}", group="agents",
                label=("agents", agents),
            )
        )  # fmt: skip
    knobs += [
        Knob(
            "path_length.min", 1, 60, 1, "moves",
            "least distance from start to goal of any agent", integer=True,
        ),
        Knob(
            "path_length.max", 1, ALL_LENGTHS, ALL_LENGTHS, "moves",
            "greatest distance from start to goal of any agent", integer=True,
        ),
        Knob(
            "detour.min", 0, 2, 0, "moves",
            "least excess of the optimal cost over the sum of distances", integer=True,
        ),
        Knob(
            "detour.max", 0, 64, 12, "moves",
            "greatest excess of the optimal cost over the sum of distances", integer=True,
        ),
    ]  # fmt: skip
    return tuple(knobs)


def sizes_in_use(values: dict[str, float]) -> list[int]:
    return [size for size in SIZES if values[f"size{size}.data_ratio"] > 0]


def agents_in_use(values: dict[str, float]) -> list[int]:
    return [agents for agents in AGENTS if values[f"agents{agents}.share"] > 0]


def most_holes(size: int, agents: int) -> int:
    """Holes a board may have so that its agents still have room; negative if it is too small.

    Many agents on a small board also need it to hang together.
    """
    room = size * size - agents - slack(agents)
    return min(room, int(0.4 * size * size)) if agents > 6 and size <= 6 else room


def rule(values: dict[str, float]) -> str | None:
    """Why a combination cannot exist, naming bucket, value and the nearest that can."""
    for low, high in (("path_length.min", "path_length.max"), ("detour.min", "detour.max")):
        if values[low] > values[high]:
            return (
                f"{low} = {values[low]:g} is above {high} = {values[high]:g}; "
                f"raise {high} to {values[low]:g} or lower {low}"
            )
    if values["detour.min"] > 0 and values["agents1.share"] > 0:
        return (
            f"detour.min = {values['detour.min']:g} cannot be met by a single agent "
            f"(agents1.share = {values['agents1.share']:g}); use detour.min = 0 or two agents"
        )
    agents = max(agents_in_use(values))
    for size in sizes_in_use(values):
        holes, room = f"size{size}.hole_ratio", most_holes(size, agents)
        if room < 0:
            fitting = max(k for k in AGENTS if most_holes(size, k) >= 0)
            return (
                f"{agents} agents (agents{agents}.share = {values[f'agents{agents}.share']:g}) do "
                f"not fit on {size}x{size} boards; use at most {fitting} agents or set "
                f"size{size}.data_ratio = 0"
            )
        if math.ceil(values[holes] * size * size - 1e-9) > room:
            return (
                f"{holes} = {values[holes]:g} leaves no room for {agents} agents on {size}x{size} "
                f"(they need {size * size - room} free cells of {size * size}); "
                f"use {holes} = {room / size**2:.3g} or less, or fewer agents"
            )
        if values["detour.min"] > 0 and values[holes] < CROWDED:
            return (
                f"detour.min = {values['detour.min']:g} cannot be met on open ice "
                f"({holes} = {values[holes]:g}); use {holes} = {CROWDED:g} or more"
            )
        wait = f"size{size}.wait_ratio"
        if values[wait] > 1 - values["agents1.share"] + 1e-9:
            return (
                f"{wait} = {values[wait]:g} cannot be met: a single agent never has to wait and "
                f"agents1.share = {values['agents1.share']:g}; use {wait} = "
                f"{1 - values['agents1.share']:.3g} or less"
            )
        if values[wait] > 0 and values["detour.max"] < 1:
            return (
                f"{wait} = {values[wait]:g} cannot be met with detour.max = 0, since every wait "
                f"costs a move; use detour.max = 1 or more, or {wait} = 0"
            )
    return None


def mend(values: dict[str, float]) -> None:
    """Move values to the nearest combination that can exist."""
    sizes = sizes_in_use(values)
    for agents in AGENTS:
        if all(most_holes(size, agents) < 0 for size in sizes):
            values[f"agents{agents}.share"] = 0.0
    if not agents_in_use(values):
        values["agents2.share"] = 1.0
    agents = max(agents_in_use(values))
    for size in sizes:
        room = most_holes(size, agents)
        if room < 0:
            values[f"size{size}.data_ratio"] = 0.0
            continue
        holes, wait = f"size{size}.hole_ratio", f"size{size}.wait_ratio"
        if room / size**2 < CROWDED or values["agents1.share"] > 0:
            values["detour.min"] = 0.0
        values[holes] = min(values[holes], room / size**2)
        alone = values["agents1.share"] / sum(values[f"agents{k}.share"] for k in AGENTS)
        values[wait] = min(values[wait], 1 - alone)
        if values[wait] > 0:
            values["detour.max"] = max(values["detour.max"], 1.0)
    if values["detour.min"] > 0:
        for size in sizes_in_use(values):
            values[f"size{size}.hole_ratio"] = max(values[f"size{size}.hole_ratio"], CROWDED)
    shortest_side = min(sizes_in_use(values))
    values["path_length.min"] = min(values["path_length.min"], float(shortest_side - 1))
    values["path_length.max"] = max(values["path_length.max"], values["path_length.min"] + 2)
    values["detour.max"] = max(values["detour.max"], values["detour.min"])


SPACE = KnobSpace(make_knobs(), rule, mend)
