"""A small table as people write them, whose wrong cells and missing values are known."""

from typing import NamedTuple

import numpy as np
import pandas as pd


class Flats(NamedTuple):
    """A file of flats, and what is true of it."""

    text: str
    truth: pd.DataFrame
    given: pd.DataFrame  # the cells as text, "" for a hole
    wrong: set[tuple[int, str]]


def messy_flats() -> Flats:
    """140 flats: semicolons, decimal commas, a unit, dates, -999, spellings, a word among numbers, holes."""
    rng, n = np.random.default_rng(3), 140
    city = rng.choice(["Berlin", "Munich"], n)
    area = (rng.gamma(6, 14, n) + 20).round(1)
    rooms = np.clip(np.round(area / 27), 1, 6).astype(int)
    rent = (area * np.where(city == "Munich", 19, 12) * np.exp(rng.normal(0, 0.05, n))).round(2)
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    key = [f"K{1000 + k}" for k in range(n)]
    truth = pd.DataFrame({"key": key, "let": day, "city": city, "area": area, "rooms": rooms, "rent": rent})
    text = truth.assign(let=day.strftime("%d.%m.%Y")).astype(str)
    for name in ("area", "rent"):
        text[name] = [cell.replace(".", ",") for cell in text[name]]
    text.loc[10, "area"], text.loc[40, "rent"] = f"{10 * area[10]:.1f}".replace(".", ","), "1o50,00"
    text.loc[20:22, "area"] += " m²"
    text.loc[30, "city"], text.loc[31, "city"] = "Brelin", "munich "
    for name in ("let", "city", "area", "rooms", "rent"):
        text.loc[50 + rng.choice(80, 8, replace=False), name] = ""
    text.loc[[132, 133, 134], "rent"] = "-999"
    lines = [";".join(text.columns), *(";".join(row) for row in text.itertuples(index=False))]
    return Flats("\r\n".join(lines) + "\r\n", truth, text, {(10, "area")})
