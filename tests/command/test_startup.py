"""What the command line loads before it has anything to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "torch",
    "numpy",
    "pandas",
    "pyarrow",
    "transformers",
    "maskevidence.runs",
    "maskevidence.tables.base",
    "maskevidence.core.show.parts",
    "maskevidence.core.show.terminal",
    "maskevidence.core.support.files",
)
PROGRAM = f"""
import sys
from maskevidence.command.app import main
try:
    main()
finally:
    print("loaded:", *(module for module in {HEAVY} if module in sys.modules), file=sys.stderr)
"""
HELP = [
    *(
        "--version",
        "--help",
        "-h",
        "score --help",
        "train --help",
        "score ppca:8 --help",
        "train masked-lm --help",
    ),
    *(f"{command} -h" for command in ("score", "check", "summarize", "compare", "report", "train")),
]
REFUSED = [
    *("score ppcaa:2 digits", "score ppca:2 digits --design all-sizes", "check ppca digits"),
    *(
        "score ppca:2 nothing.csv",
        "impute gaussian nothing.csv --out a.csv",
        "select gaussian,ppca nothing.csv",
    ),
    "train masked-net:x digits --out a",
]


def one_after_the_other(commands: list[str]) -> list[tuple[str, int, str, str, set[str]]]:
    """Of commands in one process: words, exit code, both outputs, and what is loaded after each."""
    program = f"""
import contextlib, io, json, sys
from maskevidence.command.app import main
seen = []
for words in {commands}:
    sys.argv, out, err, code = ["maskevidence", *words.split()], io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    loaded = [module for module in {HEAVY} if module in sys.modules]
    seen.append([words, code, out.getvalue(), err.getvalue(), loaded])
print(json.dumps(seen))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [(*told, set(loaded)) for *told, loaded in json.loads(done.stdout)]


def test_help_and_version_load_no_torch_and_nothing_that_reads_or_prints_results() -> None:
    for words, code, out, err, loaded in one_after_the_other(HELP):
        assert (code, err, loaded) == (0, "", set()), words
        assert "Usage" in out or words == "--version", words


def test_unknown_words_and_files_are_refused_before_torch_is_loaded() -> None:
    for words, code, _, err, loaded in one_after_the_other(REFUSED):
        assert (code, err.count("\n"), err[:7]) == (2, 1, "error: "), words
        assert not {"torch", "pandas"} & loaded, words


def test_a_score_of_rows_loads_no_library_or_kind_that_it_does_not_need(tmp_path: Path) -> None:
    rows = "".join(f"{k % 7}.5,{k * k % 5},{'' if k == 3 else k % 3}\n" for k in range(40))
    (tmp_path / "t.csv").write_text(f"a,b,c\n{rows}")
    unused = ("pandas", "scipy", "maskevidence.images.image_files", "maskevidence.texts.texts")
    words = ["maskevidence", "score", "ppca:1", str(tmp_path / "t.csv"), "--out", str(tmp_path / "run")]
    program = PROGRAM.replace(str(HEAVY), str(unused)).replace(
        "import sys\n", f"import sys\nsys.argv = {words}\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "per row" in done.stdout
    assert done.stderr.splitlines()[-1] == "loaded:"


def test_threads_that_wait_sleep_unless_the_user_says_otherwise() -> None:
    """Threads that spin took four times the seconds beside other work."""
    program = PROGRAM.replace("import sys\n", "import os, sys\nsys.argv = ['maskevidence', '--version']\n")
    program = program.replace('print("loaded:"', 'print(os.environ["OMP_WAIT_POLICY"], "loaded:"')
    unset = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for given, policy in ((unset, "PASSIVE"), (unset | {"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True)
        assert done.stderr.startswith(policy)


@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", "sc"), ("zsh", "score --density"), ("fish", "score ppca:8 digits --den")],
)
def test_the_shell_completes_commands_and_options_of_all_kinds(shell: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("main()\n", "sys.argv[0] = 'maskevidence'; main()\n", 1)],
        env=os.environ
        | {
            "_MASKEVIDENCE_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": f"maskevidence {words}",
            "COMP_CWORD": str(len(words.split())),
            "_TYPER_COMPLETE_ARGS": f"maskevidence {words}",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
    )
    assert ("score" if words == "sc" else "--density") in done.stdout
    assert done.stderr == "loaded:\n"
