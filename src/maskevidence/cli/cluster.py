"""The options of `score` that say where the model is called: in this process, or by workers of Ray."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from maskevidence.errors import InputError, import_extra
from maskevidence.runs import Engine, here
from maskevidence.tasks.prepare_rows import Prepared

_WHERE = "Many workers"
EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--engine",
        rich_help_panel=_WHERE,
        help="local: this process scores. ray: workers of Ray do, each with the model; needs --out.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT|auto",
        rich_help_panel=_WHERE,
        help="Of a Ray cluster; without it Ray is started on this machine.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, rich_help_panel=_WHERE, help="How many; by default as many as there is room for."
    ),
]
GpusPerWorker = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-worker",
        min=0.0,
        metavar="N",
        rich_help_panel=_WHERE,
        help="By default 0; 0.5 lets two workers share one.",
    ),
]


@dataclass(frozen=True)
class ClusterOptions:
    """The options that belong to workers elsewhere; None where not given."""

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = None
    gpus_per_worker: float | None = None

    def check(self, out: Path | None) -> None:
        """Raise where these options do not go together.

        Example:
            >>> ClusterOptions(workers=2).check(None)
            Traceback (most recent call last):
            ...
            maskevidence.errors.InputError: --workers belongs to --engine ray; add that
        """
        if self.engine == "ray":
            if out is None:
                raise InputError("--engine ray needs --out, a folder for the scores of the workers")
            import_extra("ray", "ray", "--engine ray")  # before a model is fitted or loaded
            return
        for name, value in vars(self).items():
            if name != "engine" and value is not None:
                raise InputError(f"--{name.replace('_', '-')} belongs to --engine ray; add that")

    def build(self, ready: Prepared, threads: int | None) -> Engine:
        """What calls the model; workers have one thread each unless `threads` says otherwise."""
        if self.engine == "local":
            return here
        from maskevidence.runs.ray import RayEngine

        return RayEngine(self.address, self.workers, self.gpus_per_worker or 0.0, threads or 1, ready.load)
