"""How processes of this machine stand, as tests see it."""

from pathlib import Path


def state(pid: int) -> str:
    """State of a process in the kernel's letters (T = stopped, Z = ended, not yet awaited); "" = there is
    none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid: int) -> bool:
    """Whether a process runs, or stands still."""
    return state(pid) not in ("", "Z")


def children(pid: int) -> list[int]:
    """The processes that its first thread started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
