"""System calls that no program in a sandbox needs, refused by the kernel.

They are what gets around the other limits (memory that belongs to no address space, processes with
a clock of their own), what lets a process make namespaces and mounts, and rarely used, rarely
checked corners of the kernel. Filters are classic BPF programs: bubblewrap installs the first, a
worker adds a second to each program, since it needs some of those calls itself.
"""

import platform
import struct
from functools import cache
from typing import NamedTuple

LOAD, AND, JUMP_EQUAL, JUMP_ABOVE, JUMP_BITS, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, EAGAIN, ENOSYS, EAFNOSUPPORT = 1, 11, 38, 97
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, FOURTH_ARGUMENT = 0, 4, 16, 40
"""Where they lie in what a filter is shown."""
NEW_NAMESPACES = 0x7E020080
"""The flags of `clone` that make a namespace."""
THREAD = 0x00010000
"""The flag of `clone` that makes a thread and not a process."""
SHARED_ANONYMOUS = 0x21
"""The flags of `mmap` for memory that can outlast its addresses."""
UNIX, INTERNET, INTERNET_6 = 1, 2, 10
"""Families of sockets."""
OTHER_TABLE = 0x40000000
"""From here on x86 counts the calls of its 32-bit programs."""


class Machine(NamedTuple):
    """The numbers of system calls on one kind of machine."""

    architecture: int
    clone: int
    mmap: int
    socket: int
    socketpair: int
    memfd_create: int
    forks: tuple[int, ...]
    """Besides `clone`."""
    executes: tuple[int, ...]
    refused: tuple[int, ...]


CLONE3 = 435
SAME = (428, 429, 430, 431, 432, 433, 442, 425, 426, 427, 438, 440, 443, 447, 448)
"""The same on all machines: mounts, io_uring, pidfd_getfd, process_madvise, quotactl_fd,
memfd_secret, process_mrelease."""
MACHINES = {
    "x86_64": Machine(
        0xC000003E, 56, 9, 41, 53, 319, (57, 58), (59, 322),
        (
            29, 30, 31, 64, 68, 240,  # shmget shmat shmctl semget msgget mq_open
            101, 310, 311, 312, 278,  # ptrace process_vm_readv process_vm_writev kcmp vmsplice
            165, 166, 155, 161, 272, 308,  # mount umount2 pivot_root chroot unshare setns
            248, 249, 250, 321, 298, 323, 304,  # keys bpf perf userfaultfd open_by_handle_at
            246, 175, 313, 169, 167, 163, 179, 300,  # kexec modules reboot swap acct quota fanotify
            206, 216, 103, 135,  # io_setup remap_file_pages syslog personality
            *SAME,
        ),
    ),
    "aarch64": Machine(
        0xC00000B7, 220, 222, 198, 199, 279, (), (221, 281),
        (
            194, 196, 195, 190, 186, 180,
            117, 270, 271, 272, 75,
            40, 39, 41, 51, 97, 268,
            217, 218, 219, 280, 241, 282, 265,
            104, 105, 273, 142, 224, 89, 60, 262,
            0, 234, 116, 92,
            *SAME,
        ),
    ),
}  # fmt: skip
"""x86's call 216 and ARM's 234 are both `remap_file_pages`: the lists go side by side."""


def instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def refuse(error: int) -> bytes:
    return instruction(RETURN, REFUSE | error)


def if_call(number: int, *steps: bytes) -> list[bytes]:
    """Steps that are taken for one call only; whatever they do not refuse is allowed."""
    last = [] if len(steps) == 1 else [instruction(RETURN, ALLOW)]
    return [instruction(JUMP_EQUAL, number, no=len(steps) + len(last)), *steps, *last]


def families(number: int, *allowed: int) -> list[bytes]:
    """A call whose first argument must be one of these families of sockets."""
    checks = [
        instruction(JUMP_EQUAL, family, yes=len(allowed) - place)
        for place, family in enumerate(allowed)
    ]
    return if_call(number, instruction(LOAD, FIRST_ARGUMENT), *checks, refuse(EAFNOSUPPORT))


@cache
def machine() -> Machine | None:
    """The calls of this machine, None for a kind that is not listed."""
    return MACHINES.get(platform.machine())


def begin(known: Machine) -> list[bytes]:
    return [
        instruction(LOAD, ARCHITECTURE),
        instruction(JUMP_EQUAL, known.architecture, yes=1),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER),
        instruction(JUMP_ABOVE, OTHER_TABLE, no=1),
        refuse(ENOSYS),
    ]


@cache
def program() -> bytes | None:
    """The filter for all that lives in a sandbox; None where calls are not listed."""
    known = machine()
    if known is None:
        return None
    steps = begin(known)
    steps += if_call(CLONE3, refuse(ENOSYS))  # its flags lie in memory; `clone` is tried next
    for number in known.refused:
        steps += if_call(number, refuse(EPERM))
    steps += families(known.socket, UNIX, INTERNET, INTERNET_6)
    steps += families(known.socketpair, UNIX)
    steps += if_call(
        known.mmap,
        instruction(LOAD, FOURTH_ARGUMENT),
        instruction(AND, SHARED_ANONYMOUS),
        instruction(JUMP_EQUAL, SHARED_ANONYMOUS, no=1),
        refuse(EPERM),
    )
    steps += if_call(
        known.clone,
        instruction(LOAD, FIRST_ARGUMENT),
        instruction(JUMP_BITS, NEW_NAMESPACES, no=1),
        refuse(EPERM),
    )
    return b"".join([*steps, instruction(RETURN, ALLOW)])


@cache
def narrower(alone: bool) -> bytes:
    """What a program may not call besides; `alone`, it has threads but no other process, and no
    socket that leads anywhere. Empty where calls are not listed."""
    known = machine()
    if known is None:
        return b""
    steps = begin(known)
    steps += if_call(known.memfd_create, refuse(EPERM))
    if alone:
        for number in known.forks:
            steps += if_call(number, refuse(EAGAIN))
        for number in known.executes:
            steps += if_call(number, refuse(EPERM))
        steps += families(known.socket, UNIX)
        steps += if_call(
            known.clone,
            instruction(LOAD, FIRST_ARGUMENT),
            instruction(JUMP_BITS, THREAD, yes=1),
            refuse(EAGAIN),
        )
    return b"".join([*steps, instruction(RETURN, ALLOW)])
