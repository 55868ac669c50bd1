"""Words of users in the search of the built site: the page of the first hit, ranked as the site does.

`make docs`, then `python tools/site_search.py [site]`. The ranking is lunr's BM25 with the boosts of
mkdocs-material: a page before its parts, and texts that have all words before others.
"""

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

K1, B = 1.2, 0.75
WANTED = {
    "missing values": ("tables", "any_table"),
    "typo": ("wrong_cells",),
    "outliers": ("wrong_cells",),
    "imputation": ("tables", "sklearn"),
    "excel": ("tables",),
    "categorical": ("any_table", "sklearn"),
    "number of factors": ("tables", "sklearn", "gallery"),
    "mutual information": ("information",),
    "marginal likelihood": ("hidden_rows", "concepts"),
    "bayes factor": ("hidden_rows",),
    "gaussian process": ("hidden_rows",),
    "perplexity": ("sentence_score", "masked_lm"),
    "minimal pairs": ("sentence_score",),
    "bert": ("masked_lm", "sentence_score", "training_language_models"),
    "esm2": ("proteins",),
    "trainer": ("training_language_models",),
    "lm-eval": ("lm_eval",),
    "surprisal": ("gallery", "sentence_score", "masked_lm"),
    "vae": ("models",),
    "gpu": ("devices",),
    "resume": ("runs",),
    "nan": ("tables", "any_table", "sklearn"),
    "multiple imputation": ("tables",),
    "spelling mistakes": ("wrong_cells",),
    "model comparison": ("runs", "hidden_rows", "tables"),
    "protein variants": ("proteins",),
    "llada": ("masked_lm", "lm_eval"),
    "checkpoint": ("masked_lm", "training", "training_language_models"),
    "feature selection": ("information", "sklearn"),
    "custom model": ("own_model",),
    "csv": ("tables", "look"),
}


def words(text: str, separator: str) -> list[str]:
    """The tokens of a text, lower case, without markup."""
    return [word for word in re.split(separator, re.sub(r"<[^>]+>", " ", text).lower()) if word]


def text_of(part: dict[str, Any], field: str) -> str:
    """A field of a part of a page; tags are a list."""
    value = part.get(field, "")
    return value if isinstance(value, str) else " ".join(value)


class Search:
    """The index of a site, and the ranking of its parts."""

    def __init__(self, index: Path) -> None:
        content = json.loads(index.read_text())
        self.separator, self.parts = content["config"]["separator"], content["docs"]
        boosts = {field: each["boost"] for field, each in content["config"]["fields"].items()}
        self.fields = [
            (boosts[name], [Counter(words(text_of(part, name), self.separator)) for part in self.parts])
            for name in ("title", "text", "tags")
        ]

    def ranked(self, query: str) -> list[str]:
        """The locations of the parts that match, best first."""
        asked = words(query, self.separator)
        scores: Counter[int] = Counter()
        found: dict[int, set[str]] = {}
        for word in asked:
            for boost, counts in self.fields:
                mean = sum(map(Counter.total, counts)) / len(counts)
                terms = {term for count in counts for term in count if term.startswith(word)}
                for term in terms:
                    having = [k for k, count in enumerate(counts) if count[term]]
                    idf = math.log(1 + abs(len(counts) - len(having) + 0.5) / (len(having) + 0.5))
                    for k in having:
                        length, often = 1 - B + B * counts[k].total() / mean, counts[k][term]
                        scores[k] += boost * idf * (K1 + 1) * often / (K1 * length + often)
                        found.setdefault(k, set()).add(word)
        for k, matched in found.items():
            lift = ("#" not in self.parts[k]["location"]) + (matched == set(asked))
            scores[k] *= 1 + lift**2
        return [self.parts[k]["location"] for k, _ in scores.most_common()]


def main() -> int:
    """Print the first hits, and exit with 1 if a word leads elsewhere."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    search, right = Search(site / "search" / "search_index.json"), 0
    print("| words | first hit | wanted |\n|---|---|---|")
    for query, pages in WANTED.items():
        first = next(iter(search.ranked(query)), "nothing")
        good = first.split("#")[0].strip("/") in pages
        right += good
        print(f"| {query} | {first} | {'yes' if good else ' or '.join(pages)} |")
    print(f"\n{right} of {len(WANTED)} lead to a page that answers")
    return 0 if right == len(WANTED) else 1


if __name__ == "__main__":
    sys.exit(main())
