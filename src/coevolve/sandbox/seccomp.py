"""System calls that no program in a sandbox needs, refused by the kernel.

They are what gets around the other limits (memory shared under a key, which outlives every address
space), what lets a process make namespaces and mounts of its own, and rarely used, rarely checked
corners of the kernel. The filter is a classic BPF program, which bubblewrap installs.
"""

import platform
import struct
from functools import cache
from typing import NamedTuple

LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
"""Where they lie in what a filter is shown."""
NEW_NAMESPACES = 0x7E020080
"""The flags of `clone` that make a namespace."""
OTHER_TABLE = 0x40000000
"""From here on x86 counts the calls of its 32-bit programs."""


class Machine(NamedTuple):
    architecture: int
    clone: int
    clone3: int
    refused: tuple[int, ...]


NEW_MOUNTS = (428, 429, 430, 431, 432, 433, 442)
"""The same on all machines, as is io_uring below."""
MACHINES = {
    "x86_64": Machine(
        0xC000003E, 56, 435,
        (
            29, 30, 31, 64, 68, 240,  # shmget shmat shmctl semget msgget mq_open
            101, 310, 311,  # ptrace process_vm_readv process_vm_writev
            165, 166, 155, 161, 272, 308,  # mount umount2 pivot_root chroot unshare setns
            248, 249, 250, 321, 298, 323, 304,  # keys bpf perf userfaultfd open_by_handle_at
            425, 246, 175, 313, 169, 167, 163, 179, 300,  # io_uring modules reboot swap quota
            *NEW_MOUNTS,
        ),
    ),
    "aarch64": Machine(
        0xC00000B7, 220, 435,
        (
            194, 196, 195, 190, 186, 180,
            117, 270, 271,
            40, 39, 41, 51, 97, 268,
            217, 218, 219, 280, 241, 282, 265,
            425, 104, 105, 273, 142, 224, 89, 60, 262,
            *NEW_MOUNTS,
        ),
    ),
}  # fmt: skip


def instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


@cache
def program() -> bytes | None:
    """The filter for this machine, None for a kind of machine whose calls are not listed."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return None
    steps = [
        instruction(LOAD, ARCHITECTURE),
        instruction(JUMP_EQUAL, machine.architecture, yes=1),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER),
        instruction(JUMP_ABOVE, OTHER_TABLE, no=1),
        instruction(RETURN, REFUSE | ENOSYS),
        instruction(JUMP_EQUAL, machine.clone3, no=1),
        instruction(RETURN, REFUSE | ENOSYS),  # its flags lie in memory; `clone` is tried next
    ]
    for number in machine.refused:
        steps += [instruction(JUMP_EQUAL, number, no=1), instruction(RETURN, REFUSE | EPERM)]
    steps += [
        instruction(JUMP_EQUAL, machine.clone, no=3),
        instruction(LOAD, FIRST_ARGUMENT),
        instruction(JUMP_BITS, NEW_NAMESPACES, no=1),
        instruction(RETURN, REFUSE | EPERM),
        instruction(RETURN, ALLOW),
    ]
    return b"".join(steps)
