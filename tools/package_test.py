"""Install the wheel with each extra into a fresh environment, and run the tests that need no more.

    python3 tools/package_test.py [EXTRA ...]

The tests come from the sdist, without its `src`: what runs is the wheel. "base" stands for no extra.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from environment import ROOT, python_of

EVERYWHERE = ["tests/docs/test_first_hours.py"]  # each script needs the extra that it installs
TOOLS = ("pytest", "pytest-xdist", "beartype", "hypothesis", "threadpoolctl")
MORE_TOOLS = {"hf": ["tensorboard"], "notebook": ["scikit-learn"]}
PARTS = {
    "base": [
        "tests/core/masks/test_masks.py",
        "tests/core/evidence/test_curve.py",
        "tests/tables/gaussian/test_gaussian.py",
        "tests/tables/latent/test_vae.py",
    ],
    "hf": ["tests/bridges/huggingface/test_collator.py", "tests/bridges/huggingface/test_trainer.py"],
    "sklearn": ["tests/bridges/sklearn/test_sklearn_estimators.py"],
    "plots": ["tests/paper/test_table_1.py", "tests/paper/test_figures.py"],
    "notebook": ["tests/core/show/test_frames.py"],
    "arviz": ["tests/core/show/test_arviz.py"],
    "ray": ["tests/bridges/ray/test_ray.py"],
    "lm-eval": ["tests/bridges/lm_eval/test_lm_eval.py"],
    "xlsx": ["tests/tables/reading/test_layout.py"],
}


def only(pattern: str) -> Path:
    """The one file in `dist` that matches; `make package` writes it."""
    found = sorted((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"dist/ has {len(found)} files like {pattern}; run `make package` first")
    return found[0]


def install(python: str, packages: list[str]) -> None:
    """Install packages by uv, or by pip where there is no uv, or it cannot do it."""
    if (uv := shutil.which("uv")) is not None:
        command = [uv, "pip", "install", "--quiet", "--python", python, "--torch-backend", "cpu", *packages]
        if subprocess.run(command, check=False).returncode == 0:
            return
        print("uv could not do it, see above; pip tries", flush=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)


def test(extra: str, folder: Path) -> bool:
    """Whether the tests of an extra pass in an environment with the wheel and this extra alone."""
    environment = folder / extra
    wheel = f"{only('*.whl')}{'' if extra == 'base' else f'[{extra}]'}"
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(python_of(environment))
    packages = [*constraints, wheel, *TOOLS, *MORE_TOOLS.get(extra, [])]
    install(python, packages)
    where = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    print(f"== the wheel with {extra}", flush=True)
    sources = next(folder.glob("maskevidence-*"))
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PARTS[extra], *EVERYWHERE]
    return subprocess.run(command, cwd=sources, env=where).returncode == 0


def main() -> None:
    extras = sys.argv[1:] or list(PARTS)
    if unknown := set(extras) - PARTS.keys():
        sys.exit(f"unknown extra {sorted(unknown)[0]!r}; known are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with tarfile.open(only("*.tar.gz")) as archive:
            archive.extractall(folder, filter="data")
        shutil.rmtree(next(folder.glob("maskevidence-*")) / "src")
        failed = [extra for extra in extras if not test(extra, folder)]
    if failed:
        sys.exit(f"failed with the wheel and the extra: {', '.join(failed)}")
    print(f"The wheel passes its tests with {', '.join(extras)}.")


if __name__ == "__main__":
    main()
