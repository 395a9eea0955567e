"""A filter of system calls for sandboxes: what no policy needs and what has opened kernels before is refused."""

from __future__ import annotations

import errno
import platform
import struct

ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000  # what a filter answers; a refusal carries its errno
LOAD, EQUAL, AT_LEAST, ANY_BIT, ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06  # the filter machine's words
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # where it finds them
NEW_NAMESPACES = 0x7E020000  # the flags of clone that make one of any kind
OTHER_ABI = 0x40000000  # x32's numbers begin here
# namespaces, mounts, other processes' memory, keys, kernel modules and programs, handles past the file system's tree
X86_64 = (272, 308, 165, 166, 155, 101, 310, 311, 250, 248, 249, 175, 313, 176, 246, 320, 321, 298, 323, 304)
AARCH64 = (97, 268, 40, 39, 41, 117, 270, 271, 219, 217, 218, 105, 273, 106, 104, 294, 280, 241, 282, 265)
EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)  # io_uring, and mounts again
CLONE3 = 435
MACHINES = {"x86_64": (0xC000003E, X86_64, 56), "aarch64": (0xC00000B7, AARCH64, 220)}


def program(machine: str | None = None) -> bytes | None:
    """The filter as the kernel reads it; None for a kind of machine that it is not written for."""
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    architecture, refused, clone = known
    numbers = (*refused, *EVERYWHERE)
    # the last four words answer: refuse, not there (so that libc falls back to clone), allow, kill
    size = 4 + len(numbers) + 2 + 3 + 4
    refuse, absent, allow, kill = range(size - 4, size)
    words: list[tuple[int, int, int, int]] = []

    def to(target: int) -> int:
        return target - len(words) - 1

    words.append((LOAD, 0, 0, ARCHITECTURE))
    words.append((EQUAL, 0, to(kill), architecture))
    words.append((LOAD, 0, 0, NUMBER))
    words.append((AT_LEAST, to(refuse), 0, OTHER_ABI))
    for number in numbers:
        words.append((EQUAL, to(refuse), 0, number))
    words.append((EQUAL, to(absent), 0, CLONE3))
    words.append((EQUAL, 0, to(allow), clone))
    words.append((LOAD, 0, 0, FIRST_ARGUMENT))
    words.append((ANY_BIT, to(refuse), 0, NEW_NAMESPACES))
    words.append((EQUAL, to(allow), to(allow), 0))
    words += [(ANSWER, 0, 0, REFUSE | errno.EPERM), (ANSWER, 0, 0, REFUSE | errno.ENOSYS)]
    words += [(ANSWER, 0, 0, ALLOW), (ANSWER, 0, 0, KILL)]
    return b"".join(struct.pack("=HBBI", *word) for word in words)
