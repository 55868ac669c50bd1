"""Wrong cells of tables of words: three public tables with known errors, and drawn ones with typing errors.

    MASKEVIDENCE_DATA=... python benchmarks/dirty_tables.py

No label is used. Average precision of the order of all cells that are not blank, the best F1 along it, and
the calls at a rate of 10 %. The anchors: the frequency of the value alone; pairs of columns of which one
determines the other nearly always, and the cells that break this; the tails of each column (as ECOD does:
letters by frequency); an isolation forest of the rows, codes for words; a robust z-score. beers is without
its column of ounces, which is wrong throughout, and without its two indices, hospital without its index.

`--parts rates` draws tables whose wrong words are known: typing errors of 1 to 10 % of the cells among words
that recur, words with a long tail, and a column of names; swapped words; a code that a share of the rows
writes with a full stop; one code in rows of all kinds, which is wrong, or is right and stands for no code;
no errors; names of places that are one edit apart, numbered or lettered, two to an area, in tables of 400 and
2,000 rows with two and five other columns; goods with prices, numbers and totals, of which some are ten times
as large or small. `--parts speed` times a table of 100,000 × 15.
"""

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from _timing import Target, arguments, data, finish, machine, mean_and_se, show

# isort: split
import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, precision_recall_curve

import maskevidence as me

RATE = 0.1
MODEL = "mixture-transition"
BLANK = ("", "N/A", "nan", "NaN")
DROPPED = {"hospital": ["index"], "beers": ["index", "id", "ounces"], "tax": []}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
KINDS = ("recurring", "long tail", "names")
NEIGHBOURS = {  # names that differ by a digit, or by a letter
    "numbered names": ("town {} x", "Room {}", "item_{:04d}", "{:05d}", "v2.{}", "MTL{}-7"),
    "lettered names": ("Gate {}", "unit-{}", "{}", "north {} road", "{}X", "class {}1"),
}
INDEPENDENT = "independent names"
GOODS = "goods"
OTHERS = (*NEIGHBOURS, INDEPENDENT, GOODS)  # drawn clean, too
WAYS = (
    ("typing", 0.0),
    ("typing", 0.01),
    ("typing", 0.03),
    ("typing", 0.1),
    ("swapped", 0.02),
    ("second writing", 0.3),
    ("one code everywhere", 0.02),
    ("no code", 0.02),
)


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A dirty table, numbers where all cells are, None for blank cells; and which cells are wrong."""
    dirty, clean = (
        pd.read_csv(data("dirty", f"{name}.{kind}.csv"), dtype=str, keep_default_na=False)
        for kind in ("dirty", "clean")
    )
    clean.columns = dirty.columns
    dirty, clean = (frame.drop(columns=DROPPED[name]) for frame in (dirty, clean))
    blank = dirty.isin(BLANK)

    def plain(word: str) -> str:
        try:
            return str(float(word))
        except ValueError:
            return word

    wrong = (dirty.map(plain) != clean.map(plain)).to_numpy() & ~blank.to_numpy()
    columns = {}
    for column in dirty:
        cells = dirty[column].astype(object).where(~blank[column], None)
        numbers = pd.to_numeric(cells, errors="coerce")
        columns[column] = numbers if numbers.notna().sum() == cells.notna().sum() else cells
    return pd.DataFrame(columns), wrong


def codes_of(frame: pd.DataFrame) -> np.ndarray:
    """Each column as codes, -1 for blank cells."""
    return np.column_stack([pd.factorize(frame[column])[0] for column in frame])


def frequency(frame: pd.DataFrame) -> np.ndarray:
    """Minus the log frequency of each value in its column."""
    every = codes_of(frame).T
    counts = [np.bincount(codes[codes >= 0])[np.maximum(codes, 0)] for codes in every]
    return -np.log(np.column_stack(counts) / len(frame))


def dependencies(frame: pd.DataFrame) -> np.ndarray:
    """For each cell, in how many pairs of columns it breaks what at least 90 % of the other cells keep."""
    codes = codes_of(frame)
    score = np.zeros(codes.shape)
    for a in range(codes.shape[1]):
        for b in range(codes.shape[1]):
            both = (codes[:, a] >= 0) & (codes[:, b] >= 0)
            if a == b or not both.any():
                continue
            pairs = pd.DataFrame({"a": codes[both, a], "b": codes[both, b]})
            n_pair = pairs.groupby(["a", "b"])["b"].transform("size").to_numpy()
            n_a = pairs.groupby("a")["b"].transform("size").to_numpy()
            most = pairs.assign(n=n_pair).groupby("a")["n"].transform("max").to_numpy()
            known = n_a > 1
            if known.sum() < 0.5 * len(codes) or (n_pair == most)[known].mean() < 0.9:
                continue
            breaks = np.where(known & (n_pair < most), 1 - n_pair / n_a, 0.0)
            score[both, b] += breaks
    return score


def tails(frame: pd.DataFrame) -> np.ndarray:
    """Minus the log of the smaller tail of a number; of a word, of all words as rare."""
    out = np.zeros(frame.shape)
    for j, column in enumerate(frame):
        if frame[column].dtype == object:
            counts = frame[column].map(frame[column].value_counts()).fillna(len(frame)).to_numpy()
            rank = np.searchsorted(np.sort(counts), counts, "right")
        else:
            x = frame[column].fillna(frame[column].median()).to_numpy()
            low = np.searchsorted(np.sort(x), x, "right")
            rank = np.minimum(low, len(x) - np.searchsorted(np.sort(x), x) + 0)
        out[:, j] = -np.log(np.maximum(rank, 1) / len(frame))
    return out


def z_score(frame: pd.DataFrame) -> np.ndarray:
    """|x - median| in median absolute deviations; of words by the log of their frequency."""
    x = np.column_stack(
        [
            frequency(frame[[column]])[:, 0] if frame[column].dtype == object else frame[column]
            for column in frame
        ]
    ).astype(float)
    median = np.nanmedian(x, axis=0)
    spread = np.nanmedian(np.abs(x - median), axis=0) + 1e-3 * np.nanstd(x, axis=0) + 1e-12
    return np.abs(np.where(np.isnan(x), median, x) - median) / spread


def forest(frame: pd.DataFrame) -> np.ndarray:
    """The isolation of each row, and within a row the z-score."""
    codes = codes_of(frame)
    of_rows = -IsolationForest(random_state=0).fit(codes).score_samples(codes)
    return of_rows[:, None] + 1e-6 * z_score(frame)


ANCHORS = {
    "frequency": frequency,
    "dependencies": dependencies,
    "tails": tails,
    "IsolationForest": forest,
    "z-score": z_score,
}


def quality(wrong: np.ndarray, score: np.ndarray) -> tuple[float, float]:
    """Average precision and the best F1."""
    precision, recall, _ = precision_recall_curve(wrong, score)
    best = np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))
    return float(average_precision_score(wrong, score)), float(best)


def real(names: list[str]) -> tuple[dict[str, Any], list[Target]]:
    """All methods on each table."""
    numbers, rows, targets = {}, [], []
    for name in names:
        frame, wrong = load(name)
        seen = frame.notna().to_numpy()
        of_table: dict[str, Any] = {}
        start = time.process_time()
        found = me.wrong_cells(MODEL, frame, rate=RATE)
        seconds = time.process_time() - start
        precision, f1 = quality(wrong[seen], found.suspicion[seen])
        n_called, n_true = int(found.called.sum()), int((found.called & wrong).sum())
        place = {column: j for j, column in enumerate(frame.columns)}
        of_table["ours"] = {
            "ap": precision,
            "f1": f1,
            "seconds": seconds,
            "called": n_called,
            "false": 1 - n_true / n_called if n_called else 0.0,
            "recall": n_true / int(wrong.sum()),
            "listed": float(
                sum(wrong[cell.row, place[cell.column]] for cell in found.cells) / int(wrong.sum())
            ),
        }
        ours = of_table["ours"]
        said = f"{n_called} called, {ours['false']:.3f} false, recall {ours['recall']:.3f}"
        rows.append((name, "ours", f"{precision:.3f}", f"{f1:.2f}", f"{seconds:.1f}", said))
        for anchor, judge in ANCHORS.items():
            start = time.process_time()
            score = judge(frame)
            seconds = time.process_time() - start
            ap, f1 = quality(wrong[seen], score[seen])
            of_table[anchor] = {"ap": ap, "f1": f1, "seconds": seconds}
            rows.append((name, anchor, f"{ap:.3f}", f"{f1:.2f}", f"{seconds:.1f}", ""))
        numbers[name] = of_table
    show(
        "Wrong cells without labels",
        ("table", "method", "average precision", "best F1", "CPU s", f"calls at a rate of {RATE:g}"),
        rows,
    )
    if "hospital" in numbers:
        of = numbers["hospital"]["ours"]
        targets += [
            Target("hospital, average precision", of["ap"], low=0.93),
            Target("hospital, false calls", of["false"], high=0.15),
            Target("hospital, recall of the calls", of["recall"], low=0.6),
            Target("hospital, CPU s", of["seconds"], high=5),
        ]
    if "beers" in numbers:
        targets.append(Target("beers, average precision", numbers["beers"]["ours"]["ap"], low=0.42))
    if "tax" in numbers:
        of = numbers["tax"]["ours"]
        targets += [
            Target("tax, average precision", of["ap"], low=0.35),
            Target("tax, false calls", of["false"], high=RATE),
            Target("tax, recall of the calls", of["recall"], low=0.2),
        ]
    return numbers, targets


def word(rng: np.random.Generator, n: int) -> str:
    """A word of about n letters."""
    pairs = (rng.choice(list("bcdfgklmnprst")) + rng.choice(list("aeiou")) for _ in range(n // 2 + 1))
    return "".join(pairs)[:n]


def vocabulary(rng: np.random.Generator, n: int) -> np.ndarray:
    """n different words."""
    found: set[str] = set()
    while len(found) < n:
        found.add(word(rng, int(rng.integers(4, 10))))
    return np.array(sorted(found))[rng.permutation(n)]


def drawn(rng: np.random.Generator, n: int, kind: str) -> pd.DataFrame:
    """Cities that determine a state and a few codes, a kind, a status, and makers or names."""
    k = {"recurring": 30, "long tail": 150, "names": 60}[kind]
    share = 1 / np.arange(1, k + 1) ** (0.5 if kind == "recurring" else 1.0)
    city = rng.choice(k, n, p=share / share.sum())
    state, n_codes = rng.integers(8, size=k), rng.integers(1, 4, size=k)
    codes = np.array([[f"z{rng.integers(10_000, 99_999)}" for _ in range(3)] for _ in range(k)])
    few = 1 / np.arange(1, 13)
    columns = {
        "city": vocabulary(rng, k)[city],
        "code": codes[city, rng.integers(3, size=n) % n_codes[city]],
        "state": vocabulary(rng, 8)[state[city]],
        "kind": vocabulary(rng, 12)[rng.choice(12, n, p=few / few.sum())],
        "status": np.where(rng.random(n) < 0.3 + 0.05 * state[city], "open", "closed"),
    }
    if kind == "long tail":
        many = 1 / np.arange(1, 401)
        columns["maker"] = vocabulary(rng, 400)[rng.choice(400, n, p=many / many.sum())]
    if kind == "names":
        columns["name"] = np.array([f"{word(rng, 8)} {word(rng, 6)}" for _ in range(n)])
    return pd.DataFrame({name: column.astype(object) for name, column in columns.items()})


def neighbouring(rng: np.random.Generator, n: int, kind: str, n_others: int) -> pd.DataFrame:
    """Places whose names are one edit apart, two to an area, in tables with two or five other columns."""
    k, form = 3 * n // 20, str(rng.choice(NEIGHBOURS[kind]))
    share = 1 / np.arange(1, k + 1) ** rng.choice([0.0, 0.5])
    place = rng.choice(rng.permutation(k), n, p=share / share.sum())
    letters = [one + two for one in ("", *LETTERS) for two in LETTERS]
    names = [form.format(of if kind == "numbered names" else letters[of]) for of in range(k)]
    few = 1 / np.arange(1, 13)
    columns = {
        "place": np.array(names)[place],
        "area": vocabulary(rng, k // 2 + 1)[place // 2],
        "day": np.array([f"{x:.2f}" for x in rng.normal(size=n)]),
        "code": np.array([f"z{code}" for code in rng.permutation(90_000)[:k] + 10_000])[place],
        "kind": vocabulary(rng, 12)[rng.choice(12, n, p=few / few.sum())],
        "status": np.where(rng.random(n) < 0.3, "open", "closed"),
    }
    return pd.DataFrame({name: columns[name].astype(object) for name in list(columns)[: 1 + n_others]})


def independent(rng: np.random.Generator, n: int, n_others: int) -> pd.DataFrame:
    """Names of falling frequency in columns that say nothing of one another."""
    columns = {}
    for name, k in [("buyer", 30), ("town", 60), ("seller", 30), ("maker", 100), ("street", 40)]:
        share = 1 / np.arange(1, k + 1)
        columns[name] = vocabulary(rng, k)[rng.choice(k, n, p=share / share.sum())].astype(object)
    columns = {name: columns[name] for name in list(columns)[:n_others]}
    return pd.DataFrame(columns | {"age": rng.integers(18, 90, size=n).astype(str).astype(object)})


def goods(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Goods whose prices overlap, and totals."""
    kind = rng.choice(6, n, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    price = (np.array([1.2, 2.5, 3.1, 4.5, 6.0, 7.5])[kind] * np.exp(rng.normal(0, 0.08, n))).round(2)
    number = 1 + rng.poisson(6, n)
    return pd.DataFrame(
        {
            "kind": vocabulary(rng, 6)[kind].astype(object),
            "shop": vocabulary(rng, 4)[rng.integers(4, size=n)].astype(object),
            "price": price,
            "number": number.astype(float),
            "total": (price * number * np.exp(rng.normal(0, 0.02, n))).round(2),
            "degrees": rng.normal(12, 5, n).round(1),
        }
    )


def mistyped(rng: np.random.Generator, text: str) -> str:
    """A word with another letter, one more, or one less."""
    k, how, letter = int(rng.integers(len(text))), rng.integers(3), rng.choice(list(LETTERS))
    if how == 2 and len(text) > 2:
        return text[:k] + text[k + 1 :]
    return text[:k] + letter + text[k + (how == 0) :]


def spoilt(rng: np.random.Generator, frame: pd.DataFrame, way: str, share: float) -> tuple[Any, np.ndarray]:
    """The table with a share of its cells wrong, and which are."""
    table, wrong = frame.copy(), np.zeros(frame.shape, dtype=bool)
    if way == "second writing":
        wrong[:, list(frame).index("code")] = rng.random(len(frame)) < share
        return frame.where(~wrong, frame + "."), wrong
    if way in ("one code everywhere", "no code"):
        wrong[:, list(frame).index("code")] = rng.random(len(frame)) < share
        code = "none" if way == "no code" else rng.choice(frame["code"])
        frame = frame.assign(mayor=frame["city"].str[::-1])  # by which the city is known without the code
        wrong = np.column_stack([wrong, np.zeros(len(frame), dtype=bool)])
        table = frame.where(~wrong, code)
        return table, (table != frame).to_numpy() & (way != "no code")
    if way == "tenfold":
        numbers = frame.select_dtypes("number")
        times = np.where(rng.random(numbers.shape) < 0.5, 10.0, 0.1)
        cells = rng.random(numbers.shape) < share
        table[numbers.columns] = numbers.where(~cells, (times * numbers).round(2))
        return table, (table != frame).to_numpy()
    for cell in rng.permutation(frame.size)[: round(share * frame.size)]:
        i, j = divmod(int(cell), frame.shape[1])
        other = frame.iat[int(rng.integers(len(frame))), j]
        table.iat[i, j] = mistyped(rng, frame.iat[i, j]) if way == "typing" else other
        wrong[i, j] = table.iat[i, j] != frame.iat[i, j]
    return table, wrong


class Setting(NamedTuple):
    """Drawn tables with errors of one kind."""

    name: str
    key: list[int]
    draw: Callable[[np.random.Generator], pd.DataFrame]
    way: str
    share: float


def settings(kind: str, n_rows: int) -> list[Setting]:
    """All settings of a kind of words."""
    if kind in KINDS:
        return [
            Setting(
                f"{kind}, {way} {100 * share:g} %",
                [KINDS.index(kind), round(1000 * share), len(way)],
                lambda rng: drawn(rng, n_rows, kind),
                way,
                share,
            )
            for way, share in WAYS
        ]
    if kind == GOODS:
        return [
            Setting(
                f"goods, {n} rows, tenfold {100 * share:g} %",
                [n, round(1000 * share)],
                draw,
                "tenfold",
                share,
            )
            for n, draw in ((n, partial(goods, n=n)) for n in (2 * n_rows // 5, 2 * n_rows))
            for share in (0.0, 0.003, 0.01)
        ]
    draw = independent if kind == INDEPENDENT else partial(neighbouring, kind=kind)
    return [
        Setting(
            f"{kind}, {n} x {1 + others}, typing {100 * share:g} %",
            [OTHERS.index(kind), n, others, round(1000 * share)],
            partial(draw, n=n, n_others=others),
            "typing",
            share,
        )
        for n in (2 * n_rows // 5, 2 * n_rows)
        for others in (2, 5)
        for share in (0.0, 0.03)
    ]


def rates(sets: int, n_rows: int, kinds: list[str]) -> tuple[dict[str, Any], list[Target]]:
    """False calls and power in each setting."""
    numbers, rows, targets = {}, [], []
    for kind in kinds:
        for name, key, draw, way, share in settings(kind, n_rows):
            false, power, order = [], [], []
            for seed in range(sets):
                rng = np.random.default_rng([seed, *key])
                table, wrong = spoilt(rng, draw(rng), way, share)
                found = me.wrong_cells(MODEL, table, rate=RATE)
                called = found.called
                order.append(quality(wrong.ravel(), found.suspicion.ravel())[0] if share else np.nan)
                false.append((called & ~wrong).sum() / max(1, called.sum()))
                power.append((called & wrong).sum() / max(1, wrong.sum()))
            numbers[name] = {"false": list(map(float, false)), "power": list(map(float, power))}
            rows.append((name, mean_and_se(false), mean_and_se(power), f"{np.mean(order):.3f}"))
            if kind in OTHERS or (share and way != "no code"):
                bound = RATE + 2 * float(np.std(false, ddof=1)) / len(false) ** 0.5
                targets.append(Target(f"false calls, {name}", float(np.mean(false)), high=float(bound)))
    show(f"Drawn tables, {sets} each, a rate of {RATE:g}", ("words, errors", "false", "power", "AP"), rows)
    return numbers, targets


def speed() -> tuple[float, list[Target]]:
    """CPU seconds of a table of 100,000 rows and 15 columns."""
    rng = np.random.default_rng(0)
    parts = [drawn(rng, 100_000, kind).add_suffix(f" {kind}") for kind in KINDS]
    table, _ = spoilt(rng, pd.concat(parts, axis=1).iloc[:, :15], "typing", 0.003)
    start = time.process_time()
    me.wrong_cells(MODEL, table, rate=RATE)
    seconds = time.process_time() - start
    return seconds, [Target("100,000 x 15, CPU s", seconds, high=60)]


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(DROPPED), help="names of tables between commas")
    parser.add_argument("--parts", default="tables,rates,speed", help="these, between commas")
    parser.add_argument(
        "--only", default=",".join([*KINDS, *OTHERS]), help="kinds of drawn tables between commas"
    )
    parser.add_argument("--sets", type=int, default=14, help="drawn tables of each of 54 settings")
    parser.add_argument(
        "--rows",
        type=int,
        default=1000,
        help="of each drawn table; of names one edit apart and independent ones .4 and 2 times",
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    numbers: dict[str, Any] = {}
    targets: list[Target] = []
    if "tables" in options.parts and not options.quick:
        numbers["tables"], targets = real(options.tables.split(","))
    if "rates" in options.parts:
        sets, n_rows = (2, 200) if options.quick else (options.sets, options.rows)
        numbers["rates"], more = rates(sets, n_rows, options.only.split(","))
        targets += more
    if "speed" in options.parts and not options.quick:
        numbers["speed"], more = speed()
        targets += more
    return finish(numbers, [] if options.quick else targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
