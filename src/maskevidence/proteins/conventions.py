"""Conventions for scores of mutants: the contexts to ask for, and the sum over the model's answers.

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

Each convention first asks for contexts, then computes its score from their answers.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence import MaskKey, RandomSize, order_mixture
from maskevidence.core.scores import Reads
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.proteins.mutant_options import Convention

_Letters = Int64[np.ndarray, " n"]
_Answers = Float64[np.ndarray, " n_reads"]
MAX_SITES_ENUMERATED = 10
_MASKS = 0x76617269616E74


class Score(NamedTuple):
    """A score in nats and its Monte-Carlo standard error, 0 without random masks."""

    value: float
    mask_se: float = 0.0
    per_residue: float = 0.0  # for whole sequences: the mutant's mean over residues minus the wild type's
    per_residue_se: float = 0.0


Reduce = Callable[[_Answers], Score]


@dataclass(frozen=True, eq=False)
class Base:
    """A sequence or a window of it, as token ids."""

    ids: Int64[np.ndarray, " m"]  # special tokens included, -2 where there is no token
    column: Int64[np.ndarray, " n"]  # column of each letter


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the mutant or the wild type."""

    base: Base  # its sequence
    filled: Mapping[int, int]  # substituted tokens by site
    # shape (n,); equal numbers for corresponding letters of both sides; None for the site numbers
    columns: _Letters | None = None

    def __len__(self) -> int:
        return len(self.base.column)

    def token(self, site: int) -> int:
        """The token at a site."""
        return self.filled[site] if site in self.filled else int(self.base.ids[self.base.column[site]])

    def ids(self) -> Int64[np.ndarray, " m"]:
        """Shape (m,); all token ids."""
        ids = self.base.ids.copy()
        for site, token in self.filled.items():
            ids[self.base.column[site]] = token
        return ids


@dataclass(frozen=True)
class Pair:
    """A mutant and its wild type."""

    sites: tuple[int, ...]  # the substituted sites, in ascending order
    mutant: Side
    wild_type: Side

    @property
    def same(self) -> bool:
        """Whether the mutant equals the wild type."""
        return not self.sites and self.mutant.base is self.wild_type.base

    @property
    def both(self) -> tuple[Side, Side]:
        """The mutant and the wild type."""
        return self.mutant, self.wild_type


@dataclass(frozen=True)
class Asking:
    """Requests log-probabilities of letters for one convention."""

    reads: Reads  # all contexts and the letters to read in them
    design: RandomSize  # mask design where masks cannot be enumerated
    seed: int  # the seed of the masks
    used: set[int]  # contexts used by this convention
    shared: dict[Any, Any]  # the wild type's reads, shared by all mutants

    def read(
        self,
        base: Base,
        visible: Int64[np.ndarray, " m"],
        hidden: Sequence[int] | Int64[np.ndarray, " k"],
        *letters: tuple[int, int],
    ) -> slice:
        """Request log p of (site, token) letters in one context; return their positions in the answers.

        Args:
            letters: the sites and tokens to read; by default the ids at the hidden sites.
        """
        columns = base.column[np.asarray(hidden, dtype=np.int64)]
        if letters:
            site, token = np.array(letters).T
            number, places = self.reads.ask(visible, columns, base.column[site], token)
        else:
            number, places = self.reads.ask(visible, columns)
        self.used.add(number)
        return places

    def once(self, name: str, side: Side, ask: Callable[[Side], list[Any]]) -> list[Any]:
        """The reads of a side; the wild type's are requested once and shared by all mutants."""
        if side.filled:
            return ask(side)
        key = name, side.base
        if key not in self.shared:
            self.shared[key] = ask(side)
        return self.shared[key]


def _difference(pairs: Sequence[tuple[int, int]]) -> Reduce:
    return lambda answers: Score(sum(answers.item(plus) - answers.item(minus) for plus, minus in pairs))


def _in_one_context(pair: Pair, asking: Asking, side: Side, hidden: Sequence[Sequence[int]]) -> Reduce:
    """Read both residues of each site from one context per element of `hidden`."""
    slots: list[tuple[int, int]] = []
    for sites in hidden:
        reads = [(site, sequence.token(site)) for site in sites or pair.sites for sequence in pair.both]
        places = asking.read(side.base, side.ids(), sites, *reads)
        both = range(places.start, places.stop)
        slots += zip(both[::2], both[1::2], strict=True)
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
    sides = [_leave_one_out(side, asking, pair.sites) for side in pair.both]
    return _difference(list(zip(*sides, strict=True)))


def pll(pair: Pair, asking: Asking) -> Reduce:
    if pair.same:
        return lambda _: Score(0.0)

    def ask(side: Side) -> list[int]:
        return _leave_one_out(side, asking, range(len(side)))

    mutant, wild_type = (asking.once("pll", side, ask) for side in pair.both)
    return lambda answers: Score(
        float(answers[mutant].sum() - answers[wild_type].sum()),
        per_residue=float(answers[mutant].mean() - answers[wild_type].mean()),
    )


def _leave_one_out(side: Side, asking: Asking, sites: Iterable[int]) -> list[int]:
    """Request log p of the letter at each site with only that site hidden; return the positions."""
    visible = side.ids()
    return [asking.read(side.base, visible, (site,)).start for site in sites]


def joint_mutant(pair: Pair, asking: Asking) -> Reduce:
    if len(pair.sites) > MAX_SITES_ENUMERATED:
        return _by_random_sizes(pair, asking, pair.sites)
    return _of_all_masks(pair, asking, area)


def joint_mixture(pair: Pair, asking: Asking) -> Reduce:
    if len(pair.sites) > MAX_SITES_ENUMERATED:
        return lambda _: Score(math.nan, math.nan)
    return _of_all_masks(pair, asking, _mixture)


def _of_all_masks(pair: Pair, asking: Asking, value: Callable[[Any], float]) -> Reduce:
    """The difference, mutant minus wild type, of `value` over all masks of the mutated sites."""
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
    """Positions of log p for every subset of hidden sites; bit i of a row number means that site i is
    hidden.
    """
    n, visible = len(sites), side.ids()
    slots = np.full((2**n, n), -1)
    for row in range(1, 2**n):
        hidden = [k for k in range(n) if row >> k & 1]
        places = asking.read(side.base, visible, [sites[k] for k in hidden])
        slots[row, hidden] = np.arange(places.start, places.stop)
    return slots


def _tables(slots: Slots, answers: _Answers) -> Tables:
    return np.where(slots < 0, 0.0, answers[slots])


def area(log_conditionals: Tables) -> float:
    """Eq. 2 over every mask: the sum over sizes of the mean log-probability of a hidden token, nats.

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
    """The difference of two log evidences and its error, by masks of random sizes shared by both sides.

    Both sides draw sizes from the same uniform numbers and hide letters in the same random order; an inserted
    letter has its own place in that order.
    """
    design, n_draws = asking.design, asking.design.draws
    slots, lengths = [], []
    for side in pair.both:
        allowed = np.arange(len(side)) if sites is None else np.array(sites)
        lengths.append(len(allowed))
        slots.append(_drawn(side, allowed, asking))
    replicate = np.arange(n_draws) % design.n_replicates

    def reduce(answers: _Answers) -> Score:
        mutant, wild_type = (
            np.array([answers[slot].sum() for slot in places]) / sizes / n_draws for places, sizes in slots
        )
        found: list[float] = []
        for difference in (lengths[0] * mutant - lengths[1] * wild_type, mutant - wild_type):
            replicates = np.bincount(replicate, difference) * design.n_replicates
            spread = replicates.std(ddof=1) / math.sqrt(len(replicates)) if len(replicates) > 1 else math.nan
            found += [float(replicates.mean()), float(spread)]
        return Score(*found)

    return reduce


def _drawn(
    side: Side, allowed: _Letters, asking: Asking
) -> tuple[list[slice], Float64[np.ndarray, " draws"]]:
    """Positions of log p of the hidden letters of each draw, and the sizes."""
    n = np.full(asking.design.draws, len(allowed))
    zero, index = np.zeros_like(n), np.arange(len(n))
    position = np.stack([zero, zero + 1], axis=1)
    _, sizes = asking.design.plan(MaskKey(asking.seed, "shared"), zero, n, index, position)

    def ask(side: Side) -> list[slice]:
        places, visible = [], side.ids()
        columns = np.arange(len(side)) if side.columns is None else side.columns
        for draw, size in zip(index, sizes, strict=True):
            order = np.argsort(keyed_bits(asking.seed, _MASKS, int(draw), columns[allowed]), kind="stable")
            places.append(asking.read(side.base, visible, np.sort(allowed[order[:size]])))
        return places

    every = len(allowed) == len(side)
    return asking.once("whole", side, ask) if every else ask(side), sizes.astype(np.float64)


_FUNCTIONS = (
    wild_type_fill,
    mutant_fill,
    match_fill,
    mask_fill,
    unmasked,
    joint_mutant,
    joint_mixture,
    pll,
    whole,
)
CONVENTIONS: dict[str, Callable[[Pair, Asking], Reduce]] = dict(
    zip(get_args(Convention), _FUNCTIONS, strict=True)
)
PER_RESIDUE = "-per-residue"  # suffix of conventions of whole sequences
OF_WHOLE_SEQUENCES: tuple[str, ...] = ("pll", "whole")
FEW_PASSES: tuple[str, ...] = tuple(name for name in CONVENTIONS if name not in OF_WHOLE_SEQUENCES)
