"""The conventions by which mutants are scored: which contexts each of them needs, and how they add up.

For mutated sites j = 1..m with the residues w_j of the wild type and b_j of the mutant:

    wild-type-fill   Σ_j log p(b_j | wild type without j) - log p(w_j | wild type without j)
    mutant-fill      the same, given the mutant without j
    match-fill       Σ_j log p(b_j | mutant without j) - log p(w_j | wild type without j)
    mask-fill        Σ_j log p(b_j | rest) - log p(w_j | rest), where the rest has no mutated site
    unmasked         Σ_j log p(b_j | wild type) - log p(w_j | wild type), nothing hidden
    pll              pseudo-log-likelihood of the mutant minus that of the wild type
    joint            log evidence of b minus that of w, given the rest: Eq. 2 over the mutated sites
    joint-mixture    the same for the mixture over orders, log E_σ p_σ(b | rest) - log E_σ p_σ(w | rest)
    whole            log evidence of the whole mutant minus that of the wild type

Each convention asks for contexts first, and gets its score from the answers afterwards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.masks import MaskKey, RandomSize
from maskevidence.mixture import order_mixture
from maskevidence.support.choices import Convention
from maskevidence.support.keyed_random import keyed_bits
from maskevidence.variant_scores.contexts import Answers, Contexts, Letters

MAX_SITES_ENUMERATED = 10
_MASKS = 0x76617269616E74


class Score(NamedTuple):
    """A score in nats, and the standard error of its masks; 0 where none were drawn."""

    value: float
    mask_se: float = 0.0


Reduce = Callable[[Answers], Score]


@dataclass(frozen=True)
class Side:
    """One side of a comparison, the mutant or the wild type.

    Attributes:
        base: the number of its sequence among the bases.
        of_base: shape (n,); the tokens of that sequence.
        filled: the tokens that differ from it, by site.
        columns: shape (n,); numbers that are equal for letters that belong together on both sides; None for
            the numbers of the sites.
    """

    base: int
    of_base: Letters
    filled: Mapping[int, int]
    columns: Letters | None = None

    def __len__(self) -> int:
        return len(self.of_base)

    def letter(self, site: int) -> int:
        """The token at a site."""
        return self.filled[site] if site in self.filled else int(self.of_base[site])

    def letters(self) -> Letters:
        """Shape (n,); all tokens."""
        letters = self.of_base.copy()
        letters[list(self.filled)] = list(self.filled.values())
        return letters


@dataclass(frozen=True)
class Pair:
    """A mutant beside its wild type; the sites are those of substitutions.

    Attributes:
        sites: the mutated sites, in ascending order.
        mutant: the mutant.
        wild_type: the wild type.
    """

    sites: tuple[int, ...]
    mutant: Side
    wild_type: Side

    @property
    def same(self) -> bool:
        """Whether the mutant is the wild type itself."""
        return not self.sites and self.mutant.base == self.wild_type.base

    @property
    def both(self) -> tuple[Side, Side]:
        """The mutant and the wild type."""
        return self.mutant, self.wild_type


@dataclass(frozen=True)
class Asking:
    """Where contexts are asked for.

    Attributes:
        contexts: all contexts.
        design: how masks are drawn where there are too many.
        seed: their seed.
        used: the numbers of the contexts that were asked for through this object.
        known: answers that several mutants share.
    """

    contexts: Contexts
    design: RandomSize
    seed: int
    used: set[int]
    known: dict[Any, list[int]]

    def read(self, side: Side, hidden: Sequence[int], *reads: tuple[int, int]) -> range:
        """The places of log p of some letters, each a site and its token, in one context."""
        place, slots = self.contexts.ask(side.base, side.filled, hidden, *reads)
        self.used.add(place)
        return slots

    def read_sum(self, side: Side, hidden: Sequence[int], letters: Letters) -> int:
        """The place of Σ log p over the hidden sites of one context."""
        place, slot = self.contexts.ask_sum(side.base, side.filled, hidden, letters)
        self.used.add(place)
        return slot


def _one(side: Side, site: int) -> tuple[int, int]:
    return site, side.letter(site)


def _difference(pairs: Sequence[tuple[int, int]]) -> Reduce:
    return lambda answers: Score(sum(answers.item(plus) - answers.item(minus) for plus, minus in pairs))


def _in_one_context(pair: Pair, asking: Asking, side: Side, hidden: Sequence[Sequence[int]]) -> Reduce:
    """Both residues of each site read off the same context, which hides one of `hidden`."""
    slots = []
    for sites in hidden:
        reads = [_one(one, site) for site in sites or pair.sites for one in pair.both]
        answers = asking.read(side, sites, *reads)
        slots += list(zip(answers[::2], answers[1::2], strict=True))
    return _difference(slots)


def wild_type_fill(pair: Pair, asking: Asking) -> Reduce:
    return _in_one_context(pair, asking, pair.wild_type, [(site,) for site in pair.sites])


def mutant_fill(pair: Pair, asking: Asking) -> Reduce:
    return _in_one_context(pair, asking, pair.mutant, [(site,) for site in pair.sites])


def mask_fill(pair: Pair, asking: Asking) -> Reduce:
    return _in_one_context(pair, asking, pair.wild_type, [pair.sites] if pair.sites else [])


def unmasked(pair: Pair, asking: Asking) -> Reduce:
    return _in_one_context(pair, asking, pair.wild_type, [()] if pair.sites else [])


def match_fill(pair: Pair, asking: Asking) -> Reduce:
    sides = [[asking.read(side, (site,), _one(side, site))[0] for site in pair.sites] for side in pair.both]
    return _difference(list(zip(*sides, strict=True)))


def pll(pair: Pair, asking: Asking) -> Reduce:
    if pair.same:
        return lambda _: Score(0.0)
    mutant, wild_type = (_leave_one_out(side, asking) for side in pair.both)
    return lambda answers: Score(float(answers[mutant].sum() - answers[wild_type].sum()))


def _leave_one_out(side: Side, asking: Asking) -> list[int]:
    def ask() -> list[int]:
        return [asking.read(side, (site,), _one(side, site))[0] for site in range(len(side))]

    if side.filled:
        return ask()
    key = "pll", side.base
    if key not in asking.known:
        asking.known[key] = ask()
    return asking.known[key]


def joint(pair: Pair, asking: Asking) -> Reduce:
    if len(pair.sites) > MAX_SITES_ENUMERATED:
        return _by_random_sizes(pair, asking, pair.sites)
    return _of_all_masks(pair, asking, area)


def joint_mixture(pair: Pair, asking: Asking) -> Reduce:
    if len(pair.sites) > MAX_SITES_ENUMERATED:
        return lambda _: Score(math.nan, math.nan)
    return _of_all_masks(pair, asking, _mixture)


def _of_all_masks(pair: Pair, asking: Asking, value: Callable[[Any], float]) -> Reduce:
    """The difference of a number that follows from all masks of the mutated sites."""
    if not pair.sites:
        return lambda _: Score(0.0)
    mutant, wild_type = (_of_every_subset(side, pair.sites, asking) for side in pair.both)
    return lambda answers: Score(value(_tables(mutant, answers)) - value(_tables(wild_type, answers)))


def whole(pair: Pair, asking: Asking) -> Reduce:
    if pair.same:
        return lambda _: Score(0.0)
    return _by_random_sizes(pair, asking, None)


Slots = Int64[np.ndarray, "n_subsets n"]
Tables = Float64[np.ndarray, "n_subsets n"]


def _of_every_subset(side: Side, sites: tuple[int, ...], asking: Asking) -> Slots:
    """The places of log p of each hidden site; bit i of a row's number says whether site i is hidden."""
    n = len(sites)
    slots = np.full((2**n, n), -1)
    for row in range(1, 2**n):
        hidden = [place for place in range(n) if row >> place & 1]
        reads = [_one(side, sites[place]) for place in hidden]
        slots[row, hidden] = asking.read(side, [sites[place] for place in hidden], *reads)
    return slots


def _tables(slots: Slots, answers: Answers) -> Tables:
    return np.where(slots < 0, 0.0, answers[slots])


def area(log_conditionals: Tables) -> float:
    """Eq. 2 over every mask: the sum over sizes of the mean log-probability of a hidden token, nats.

    Args:
        log_conditionals: shape (2^n, n), as for `order_mixture`; entries of visible tokens are 0.

    Example:
        >>> area(np.log([[1.0, 1.0], [0.5, 1.0], [1.0, 0.5], [0.25, 0.25]])) / math.log(2)
        -3.0
    """
    n = log_conditionals.shape[1]
    size = np.array([row.bit_count() for row in range(1, 2**n)])
    score = log_conditionals[1:].sum(1) / size
    return float((np.bincount(size, score)[1:] / np.bincount(size)[1:]).sum())


def _mixture(log_conditionals: Tables) -> float:
    return float(order_mixture(log_conditionals)[-1])


def _by_random_sizes(pair: Pair, asking: Asking, sites: tuple[int, ...] | None) -> Reduce:
    """The difference of two log evidences by masks of random sizes that both sides share, with its error.

    Both sides have the same uniform numbers behind their sizes, and hide letters in the same random order: a
    letter that an insertion adds has its own place in it.
    """
    design, n_draws = asking.design, asking.design.draws
    slots, weights = [], []
    for side in pair.both:
        allowed = np.arange(len(side)) if sites is None else np.array(sites)
        weights.append(len(allowed) / n_draws)
        slots.append(_drawn(side, allowed, asking))
    replicate = np.arange(n_draws) % design.n_replicates

    def reduce(answers: Answers) -> Score:
        mutant, wild_type = (
            weight * answers[places] / sizes for (places, sizes), weight in zip(slots, weights, strict=True)
        )
        each = np.bincount(replicate, mutant - wild_type) * design.n_replicates
        spread = each.std(ddof=1) / math.sqrt(len(each)) if len(each) > 1 else math.nan
        return Score(float(each.mean()), float(spread))

    return reduce


def _drawn(side: Side, allowed: Letters, asking: Asking) -> tuple[list[int], Float64[np.ndarray, " draws"]]:
    """The places of Σ log p of the hidden sites for each draw, and the sizes."""
    n = np.full(asking.design.draws, len(allowed))
    zero, index = np.zeros_like(n), np.arange(len(n))
    position = np.stack([zero, zero + 1], axis=1)
    _, sizes = asking.design.plan(MaskKey(asking.seed, "shared"), zero, n, index, position)

    def ask() -> list[int]:
        places: list[int] = []
        letters = side.letters()
        columns = np.arange(len(side)) if side.columns is None else side.columns
        for draw, size in zip(index, sizes, strict=True):
            order = np.argsort(keyed_bits(asking.seed, _MASKS, int(draw), columns[allowed]), kind="stable")
            hidden = np.sort(allowed[order[:size]])
            places.append(asking.read_sum(side, hidden.tolist(), letters))
        return places

    if side.filled or len(allowed) < len(side):
        return ask(), sizes.astype(np.float64)
    key = "whole", side.base
    if key not in asking.known:
        asking.known[key] = ask()
    return asking.known[key], sizes.astype(np.float64)


_FUNCTIONS = (
    wild_type_fill,
    mutant_fill,
    match_fill,
    mask_fill,
    unmasked,
    joint,
    joint_mixture,
    pll,
    whole,
)
CONVENTIONS: dict[str, Callable[[Pair, Asking], Reduce]] = dict(
    zip(get_args(Convention), _FUNCTIONS, strict=True)
)
OF_WHOLE_SEQUENCES = ("pll", "whole")
FEW_PASSES = tuple(name for name in CONVENTIONS if name not in OF_WHOLE_SEQUENCES)
