"""Commands run in forks of a warm process, with a watchdog, and a look at what they leave behind."""

import contextlib
import gc
import os
import re
import resource
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

CPU_SECONDS, WALL_SECONDS = 20, 90  # a command that computes longer, or waits longer, hangs
MEMORY = 6 * 2**30  # what a command may ask for, beside what is loaded before the fork
# Known only after the work has begun: a training that diverges keeps its folder, and a disk becomes full.
_BEGUN = re.compile("the loss is .* at step|no space is left")
_INTERNAL = re.compile(r"Traceback \(most recent|internal error, please report")


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: the exit code; negative for a signal; None if it had to be killed.
        out: its standard output.
        err: its error output.
        seconds: until it ended.
        changed: the paths that it created, changed or removed, relative to its world.
        alive: whether it left a process behind.
    """

    code: int | None
    out: str
    err: str
    seconds: float
    changed: tuple[str, ...]
    alive: bool

    def fault(self, targets: Sequence[str]) -> str | None:
        """What is wrong, in a few words: neither a success nor a refusal in one line; None if nothing is.

        Args:
            targets: the paths into which the command may write, relative to its world.
        """
        if self.code is None:
            return "hangs"
        if self.alive:
            return "leaves a process behind"
        if _INTERNAL.search(self.err):
            return "internal error"
        if self.code not in (0, 2):
            return f"exit code {self.code}"
        lines = self.err.splitlines()
        if self.code == 2:
            notes = [line for line in lines if not line.startswith("note: ")]
            if len(notes) != 1 or not notes[0].startswith("error: "):
                return "not one line"
            if self.out and not _BEGUN.search(self.err):
                return "output before a refusal"
            if not set(self.changed) <= _locks(targets) and not _BEGUN.search(self.err):
                return "leaves something behind"
        if any("Warning" in line for line in lines):
            return "a bare warning"
        outside = [path for path in self.changed if not any(_within(path, target) for target in targets)]
        return "changes something outside" if outside else None


def _locks(targets: Sequence[str]) -> set[str]:
    """The files that hold a folder for one process, which stay in a folder that was there before."""
    return {f"{target}/{name}" for target in targets for name in (".lock", ".lock.pid")}


def _within(path: str, target: str) -> bool:
    return (
        target == "."
        or path == target
        or path.startswith(target.rstrip("/") + "/")
        or target.startswith(path + "/")
    )


def fork(act: Callable[[], object]) -> int:
    """Call a function in a forked process, whose id is returned; an error is printed, with exit code 1."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    """The exit code of a forked process, once it has ended; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_forked(words: Sequence[str], world: Path) -> Outcome:
    """Run one command in a fork of this process, inside a folder.

    Everything that the command needs should be imported before. The folders `home` and `temporary` of the
    world are the command's own, so that what is left in them is seen.

    Args:
        words: after the program's name.
        world: the working directory.
    """
    before = snapshot(world)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_the_command(words, world, out.fileno(), err.fileno())
        code = _wait(child, start)
        seconds = time.monotonic() - start
        alive = _kill_what_is_left(child)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
    after = snapshot(world)
    changed = sorted(path for path in before | after if before.get(path) != after.get(path))
    return Outcome(code, texts[0], texts[1], seconds, tuple(changed), alive)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Kind, size and time of everything in a folder, by its path; of folders the kind alone."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(root, name)
            status = os.lstat(path)
            plain = stat.S_ISREG(status.st_mode)
            found[os.path.relpath(path, folder)] = (
                stat.S_IFMT(status.st_mode),
                status.st_size if plain else 0,
                status.st_mtime_ns if plain else 0,
            )
    return found


def _be_the_command(words: Sequence[str], world: Path, out: int, err: int) -> None:
    """In the fork: run the command, and end with its exit code."""
    code = 99
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, stream in ((0, nothing), (1, out), (2, err)):
            os.dup2(stream, number)
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, in_use + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 2))
        os.chdir(world)
        os.environ["HOME"] = str(world / "home")
        os.environ["TMPDIR"] = str(world / "temporary")
        tempfile.tempdir = None
        sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.argv = ["maskevidence", *words]
        torch.set_num_threads(1)
        from maskevidence.commands.app import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait(child: int, start: float) -> int | None:
    """The exit code of a child; None after it was killed for hanging."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code
        if time.monotonic() - start > WALL_SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.005)


def _kill_what_is_left(session: int) -> bool:
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def warm_up() -> None:
    """Import what the commands import, so that a fork starts at once."""
    import importlib
    import pkgutil

    import maskevidence

    for module in pkgutil.walk_packages(maskevidence.__path__, "maskevidence."):
        importlib.import_module(module.name)
    for name in (
        *(
            "matplotlib.pyplot",
            "jinja2",
            "PIL.Image",
            "pyarrow.csv",
            "pyarrow.parquet",
        ),
        *("transformers", "transformers.models.bert.modeling_bert", "transformers.trainer", "datasets"),
        *("transformers.models.vit_mae.modeling_vit_mae", "sklearn.datasets", "accelerate"),
    ):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a fork does not copy what the collector would touch
