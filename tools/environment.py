"""Make `.venv` with everything that the tests need, and say all the while what is going on.

    python3 tools/environment.py EXTRA[,EXTRA...]

It needs the standard library alone. `uv` does the work where it is installed, and pip elsewhere.
"""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
OLDEST = (3, 11)
COLLECTING = re.compile(r"^(?:Collecting|Obtaining) ([\w.\-]+)")
FOR_GPUS = ("nvidia-", "cuda-", "triton")  # how the packages begin that torch for GPUs needs
GIB = 1024**3
INSTALLING = re.compile(r"^Installing collected packages: (.*)")
USES = (
    ("source .venv/bin/activate", "then type `maskevidence --help`"),
    (".venv/bin/maskevidence --help", "without activating anything"),
    ("uv run --no-sync maskevidence --help", "if you use uv"),
)
TORCH_FOR_GPUS = (
    "pip finds torch for GPUs alone: 5.6 to 6.3 GB of disk, and a download of 3 GB.\n"
    "For the smaller torch for CPUs install uv, or let pip find its wheel (PIP_FIND_LINKS); then start again."
)
FREE, FREE_FOR_GPUS = 3, 10  # GiB that an installation needs, with what is downloaded
ADDRESSES, ADDRESSES_FOR_GPUS = 3, 7  # GiB that a process maps with either torch, 6.3 measured for GPUs
EVERY = 15.0  # seconds between two lines where the output is no terminal


class Progress:
    """One line that changes on a terminal, and a new line now and then elsewhere."""

    def __init__(self) -> None:
        self.start = self.said = time.monotonic()

    def say(self, text: str, *, now: bool = False) -> None:
        """Show what is going on, with the time since the start."""
        line = f"  {time.monotonic() - self.start:4.0f} s  {text}"
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{line[:width]}", end="", flush=True)
        elif now or time.monotonic() - self.said >= EVERY:
            self.said = time.monotonic()
            print(line, flush=True)

    def note(self, text: str) -> None:
        """A line that stays."""
        self.end()
        print(text, flush=True)

    def end(self) -> None:
        """Leave the line as it is."""
        if sys.stdout.isatty():
            print()


def run(command: list[str], progress: Progress) -> None:
    """Run pip, and say which package it is at; all of its output is shown if it fails.

    Raises:
        SystemExit: the command failed.
    """
    seen: list[str] = []
    packages, for_gpus = 0, False
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(line)
            if match := COLLECTING.match(line):
                if not for_gpus and match[1].startswith(FOR_GPUS):
                    for_gpus = True
                    progress.note(TORCH_FOR_GPUS)
                    if reason := too_little(FREE_FOR_GPUS) or too_few_addresses(ADDRESSES_FOR_GPUS):
                        process.terminate()
                        sys.exit(reason)
                packages += 1
                progress.say(f"package {packages}: {match[1]}")
            elif line.lstrip().startswith("Downloading") and len(parts := line.split()) > 2:
                progress.say(f"package {packages}: {' '.join(parts)}")
            elif match := INSTALLING.match(line):
                watch = Thread(target=watch_unpacking, args=(len(match[1].split(",")), progress), daemon=True)
                watch.start()
    if process.returncode:
        progress.end()
        sys.exit(
            f"{''.join(seen)}\n{' '.join(command)} failed with exit code {process.returncode}, see above"
        )


def unpacked() -> int:
    """The number of packages in the environment."""
    folders = [*ENVIRONMENT.glob("lib/*/site-packages"), ENVIRONMENT / "Lib" / "site-packages"]
    return len({path.name for folder in folders for path in folder.glob("*.dist-info")})


def watch_unpacking(n_packages: int, progress: Progress) -> None:
    """Say how many packages are unpacked until all are; pip itself is silent meanwhile."""
    before = unpacked()
    progress.say(f"unpacking {n_packages} packages", now=True)
    while (done := unpacked() - before) < n_packages:
        time.sleep(2)
        progress.say(f"unpacked {max(0, done)} of {n_packages} packages")


def too_little(needed: int) -> str | None:
    """What to do if less space is free, in GiB; None if that is enough."""
    free = shutil.disk_usage(ROOT).free / GIB
    if free >= needed:
        return None
    return (
        f"setting up needs {needed} GB of free disk, and {ROOT} has {free:.1f} GB; free some, and start again"
    )


def too_few_addresses(needed: int) -> str | None:
    """What to do if this shell lets a process map less, in GiB; None if that is enough or cannot be known."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or limit >= needed * GIB:
        return None
    return (
        f"torch maps {needed} GB of address space, and this shell allows {limit / GIB:.1f} GB (`ulimit -v`); "
        "lift the limit, or use torch for CPUs, which needs "
        f"{ADDRESSES} GB, and start again"
    )


def python_of(environment: Path) -> Path:
    """The interpreter in an environment."""
    windows = environment / "Scripts" / "python.exe"
    return windows if windows.exists() else environment / "bin" / "python"


def install(extras: str) -> str:
    """Make the environment, and return the name of the tool that did it."""
    wanted, constraints = f".[{extras}]", ["--constraint", "constraints.txt"]
    if (uv := shutil.which("uv")) is not None:  # it shows its own progress
        python = ["--python", sys.executable]
        subprocess.run([uv, "venv", "--quiet", "--allow-existing", *python, str(ENVIRONMENT)], check=True)
        target = ["--python", str(python_of(ENVIRONMENT)), "--torch-backend", "cpu"]
        command = [uv, "pip", "install", *target, *constraints, "--editable", wanted]
        if subprocess.run(command, cwd=ROOT, check=False).returncode == 0:
            return "uv"
        print("uv could not do it, see above; pip tries", flush=True)
    progress = Progress()
    progress.say("making the environment", now=True)
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(python_of(ENVIRONMENT)), "-m", "pip", "install", "--disable-pip-version-check", *constraints]
    progress.say("torch, the largest package", now=True)
    # First and pinned: what is said of it comes before everything else is looked for.
    run([*pip, pinned("torch")], progress)
    progress.say(f"everything else: {extras.replace(',', ', ')}", now=True)
    run([*pip, "--editable", wanted], progress)
    progress.end()
    return "pip"


def pinned(name: str) -> str:
    """The line of `constraints.txt` for a package."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def main() -> None:
    if sys.version_info < OLDEST:
        sys.exit(
            f"maskevidence needs Python {OLDEST[0]}.{OLDEST[1]} or newer, this is {sys.version.split()[0]}; "
            "name another with make PYTHON=..."
        )
    start = time.monotonic()
    print(f"Setting up .venv for {sys.argv[1].replace(',', ', ')}", flush=True)
    if not ENVIRONMENT.exists():
        if reason := too_little(FREE) or too_few_addresses(ADDRESSES):
            sys.exit(reason)
        print(
            "The first time this takes 1 to 6 minutes; 1.9 to 2.6 GB of disk with torch for CPUs, "
            "5.6 to 6.3 GB with torch for GPUs.",
            flush=True,
        )
    try:
        tool = install(sys.argv[1])
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"setting up failed: {' '.join(error.cmd)} ended with exit code {error.returncode}, see above"
        )
    print(f"Done by {tool} in {time.monotonic() - start:.0f} s. To use it, do one of these:", flush=True)
    for use, what in USES:
        print(f"  {use:42} {what}", flush=True)


if __name__ == "__main__":
    main()
