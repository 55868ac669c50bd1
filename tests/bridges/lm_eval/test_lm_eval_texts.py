"""Texts of the harness as tokens, and the values of continuations: against plain loops and enumeration."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.standard_errors import t_half_width
from maskevidence.core.masks.design import MaskKey, drawn_masks
from maskevidence.core.masks.sizes import Exhaustive
from maskevidence.lm_eval.answering import Answerer, Settings
from maskevidence.lm_eval.harness import Contest
from maskevidence.lm_eval.race import Decider, Question, Race, _State, looks_up_to
from maskevidence.lm_eval.texts import (
    Continuation,
    Decoding,
    Encoder,
    TextScorer,
    are_greedy,
    rolling_windows,
    write,
)
from maskevidence.lm_eval.values import (
    QuestionKey,
    ScoredValue,
    Valuer,
    Windows,
    key_of_texts,
)
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.published import LLaDA
from text_models import small_bert, small_tokenizer

CONTEXT, CHOICE = "the cat", " sleeps in the rain and the dog sings"
LONG = CHOICE + " and" * 9


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return small_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> MaskedLM:
    return MaskedLM(small_bert(tokenizer), tokenizer)


@pytest.fixture(scope="module")
def encoder(tokenizer: Any) -> Encoder:
    return Encoder(tokenizer, 64)


@pytest.fixture
def scorer(model: MaskedLM, encoder: Encoder) -> TextScorer:
    return TextScorer(model, encoder)


def log_prob(model: MaskedLM, encoder: Encoder, text: Continuation, hidden: set[int]) -> dict[int, float]:
    """log p of each hidden token of a continuation, by one call of the network without padding."""
    frame = encoder.frame
    ids = [*frame.before, *text.context, *text.scored, *frame.after]
    first = len(frame.before) + len(text.context)
    shown = [model.mask_token_id if place - first in hidden else one for place, one in enumerate(ids)]
    with torch.no_grad():
        table = torch.log_softmax(model.network(input_ids=torch.tensor([shown])).logits[0].double(), -1)
    return {j: float(table[first + j, text.scored[j]]) for j in hidden}


def truth_of(scorer: TextScorer, text: Continuation) -> float:
    """The log evidence of a continuation by all of its masks."""
    return float(Valuer(scorer, "evidence", 0, 64).values([text], [0])[0])


def windows_of(key: int, n_orders: int, n_tokens: int) -> np.ndarray:
    """The masks of a question for a continuation, shape (n_orders, 4, n_tokens)."""
    every = np.ones((1, n_tokens), dtype=np.bool_)
    drawn = drawn_masks(Windows(n_orders), QuestionKey(3, questions=(key,)), np.array([0]), every)
    assert (drawn.masked().sum(1) == drawn.size).all()
    return drawn.masked().reshape(n_orders, 4, n_tokens)


def all_masks(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Every mask of n tokens, and its factor 1/(M·C(n, M)): Σ factor · sum is the log evidence (Eq. 2)."""
    hidden = np.array(list(itertools.product([False, True], repeat=n))[1:])
    return hidden, np.array([1 / (m * math.comb(n, m)) for m in hidden.sum(1).tolist()])


def words(tokenizer: Any, ids: tuple[int, ...]) -> list[str]:
    return tokenizer.convert_ids_to_tokens(list(ids))


@pytest.mark.parametrize(
    ("context", "continuation", "before", "scored"),
    [
        ("the cat", " sleeps", ["the", "cat"], ["sleeps"]),
        ("the cat ", "sleeps", ["the", "cat"], ["sleeps"]),
        ("the cat", "s sing", ["the", "cat"], ["##s", "s", "##i", "##n", "##g"]),
        ("", "the cat", [], ["the", "cat"]),
        ("   ", "the cat", [], ["the", "cat"]),
        ("the cat", "", ["the", "cat"], []),
        ("the cat", "  ", ["the", "cat"], []),
        ("unbel", "ievable", ["un"], ["##believ", "##able"]),
    ],
)
def test_a_token_across_the_border_belongs_to_the_continuation(
    encoder: Encoder, tokenizer: Any, context: str, continuation: str, before: list[str], scored: list[str]
) -> None:
    pair = encoder.pair(context, continuation)
    assert words(tokenizer, pair.context) == before
    assert words(tokenizer, pair.scored) == scored


def test_a_tokenizer_without_offsets_cuts_at_the_common_beginning(encoder: Encoder, tokenizer: Any) -> None:
    class Slow:
        is_fast = False

        def __call__(self, text: str, **_: Any) -> Any:
            return {"input_ids": tokenizer(text, add_special_tokens=False)["input_ids"]}

    slow = Encoder(tokenizer, 64)
    slow.tokenizer = Slow()
    for pair in (("the cat", " sleeps"), ("unbel", "ievable"), ("the cat", "")):
        assert slow.pair(*pair) == encoder.pair(*pair)


def test_a_long_context_is_cut_from_the_left_and_a_long_continuation_refused(tokenizer: Any) -> None:
    short = Encoder(tokenizer, 8)
    pair = short.pair("the rain the rain the dog", " and a cat")
    assert (words(tokenizer, pair.context), pair.n_cut) == (["rain", "the", "dog"], 3)
    with pytest.raises(InputError, match="a continuation has 7 tokens, and the model reads 6"):
        short.pair("a", " cat" * 7)
    with pytest.raises(InputError, match="leaves no room beside 2 special tokens"):
        Encoder(tokenizer, 2)


@pytest.mark.parametrize(("n", "room"), [(1, 4), (4, 4), (5, 4), (10, 4), (12, 4), (7, 1), (5, None)])
def test_windows_score_each_token_once_with_full_context(n: int, room: int | None) -> None:
    windows = rolling_windows(n, room)
    assert [place for _, start, end in windows for place in range(start, end)] == list(range(n))
    for first, start, end in windows[1:]:
        assert end - first == room
        assert start >= first


def test_windows_are_those_of_the_harness() -> None:
    utils = pytest.importorskip("lm_eval.utils", reason="lm-eval is not installed")
    for n, room in ((3, 4), (8, 4), (10, 4), (13, 5)):
        harness = list(utils.get_rolling_token_windows(list(range(n)), -1, room, 1))
        assert [end - start for _, start, end in rolling_windows(n, room)] == [len(b) for _, b in harness]
        first, start, _ = rolling_windows(n, room)[-1]
        disjoint = utils.make_disjoint_window(harness[-1])[0]
        assert start - first <= len(disjoint) <= start - first + 1  # one more is the harness's prefix token


def test_pairs_are_those_of_the_harness(encoder: Encoder, tokenizer: Any) -> None:
    api = pytest.importorskip("lm_eval.api.model", reason="lm-eval is not installed")

    class Plain:
        backend = "causal"

        def tok_encode(self, string: str) -> list[int]:
            return tokenizer(string, add_special_tokens=False)["input_ids"]

    for pair in (("the cat", " sleeps"), ("the cat ", "sleeps"), ("a dog and", " the sun ?"), ("the", "")):
        ours, theirs = encoder.pair(*pair), api.TemplateLM._encode_pair(Plain(), *pair)
        assert (list(ours.context), list(ours.scored)) == theirs


def test_every_mask_gives_the_evidence_without_error(
    model: MaskedLM, encoder: Encoder, scorer: TextScorer
) -> None:
    """The sum over all masks equals that of `Exhaustive`, and that of a loop over subsets."""
    text = encoder.pair(CONTEXT, " sleeps in the rain")
    value = Valuer(scorer, "evidence", 0, 64).values([text], [0])[0]
    n = len(text.scored)
    by_hand = sum(
        sum(log_prob(model, encoder, text, set(some)).values()) / size / math.comb(n, size)
        for size in range(1, n + 1)
        for some in itertools.combinations(range(n), size)
    )
    assert value == pytest.approx(by_hand, abs=1e-5)
    assert value.mask_se == 0.0
    assert n == 4
    assert scorer.asker.n_passes == 15


def test_the_mixture_equals_the_mean_over_orders(
    model: MaskedLM, encoder: Encoder, scorer: TextScorer
) -> None:
    text = encoder.pair(CONTEXT, " sleeps in the rain")
    value = Valuer(scorer, "mixture", 0, 64).values([text], [0])[0]
    n = len(text.scored)
    along = []
    for order in itertools.permutations(range(n)):
        steps = (log_prob(model, encoder, text, set(order[k:]))[order[k]] for k in range(n))
        along.append(sum(steps))
    assert value == pytest.approx(np.log(np.mean(np.exp(along))), abs=1e-5)
    with pytest.raises(InputError, match="score=mixture needs all 2\\^n masks"):
        Valuer(scorer, "mixture", 0, 64).values([encoder.pair("", "a cat " * 7)], [0])


def test_the_pseudo_log_likelihood(model: MaskedLM, encoder: Encoder, scorer: TextScorer) -> None:
    text = encoder.pair(CONTEXT, CHOICE)
    value = Valuer(scorer, "pll", 0, 64).values([text], [0])[0]
    by_hand = sum(log_prob(model, encoder, text, {j})[j] for j in range(len(text.scored)))
    assert value == pytest.approx(by_hand, abs=1e-5)


def test_the_probability_along_a_policy(model: MaskedLM, encoder: Encoder, scorer: TextScorer) -> None:
    texts = [encoder.pair(CONTEXT, CHOICE), encoder.pair("", "a dog"), encoder.pair(CONTEXT, "")]
    values = Valuer(scorer, "policy:left-to-right", 0, 64).values(texts, [0] * 3)
    for text, value in zip(texts, values, strict=True):
        n = len(text.scored)
        steps = (log_prob(model, encoder, text, set(range(k, n)))[k] for k in range(n))
        assert value == pytest.approx(sum(steps), abs=1e-5)


def test_masks_of_windows_are_uniform_subsets_of_uniform_sizes() -> None:
    n, n_draws = 4, 1000
    drawn = windows_of(9, n_draws, n)
    for mask in range(4):
        counts = np.bincount(drawn[:, mask] @ (1 << np.arange(n)), minlength=2**n)
        expected = np.array([0, *(1 / (n * math.comb(n, s.bit_count())) for s in range(1, 2**n))]) * n_draws
        chi2 = ((counts - expected)[1:] ** 2 / expected[1:]).sum()
        assert chi2 < 40  # 14 degrees of freedom: above 36.1 with a probability of 0.1 %
    often = drawn.sum(1)
    assert (often.max(1) - often.min(1) <= 1).all()


def test_choices_share_their_masks_as_far_as_lengths_allow() -> None:
    key = key_of_texts(["a context"])
    long, short = windows_of(key, 3, 30)[2], windows_of(key, 3, 29)[2]
    assert (long == windows_of(key, 5, 30)[2]).all()
    assert (long[:, :29] == short).mean() > 0.9
    assert key != key_of_texts(["another context"])


def test_masks_do_not_depend_on_where_a_continuation_is() -> None:
    maskable = np.array([[True] * 5 + [False] * 3, [False] * 2 + [True] * 5 + [False], [True] * 8])
    key, rows = QuestionKey(3, questions=(9, 9, 7)), np.arange(3)
    masked = drawn_masks(Windows(2), key, rows, maskable).masked().reshape(3, 8, 8)
    assert (masked[0, :, :5] == masked[1, :, 2:7]).all()
    assert (masked[0, :, :5] == windows_of(9, 2, 5).reshape(8, 5)).all()
    assert (masked[2] == windows_of(7, 2, 8).reshape(8, 8)).all()


def test_draws_of_windows_are_unbiased_and_their_error_is_right(encoder: Encoder, scorer: TextScorer) -> None:
    text = encoder.pair(CONTEXT, CHOICE)
    truth = truth_of(scorer, text)
    decider = Decider(scorer, 0, Race(looks=(16,)))
    questions = [Question(key, (text,)) for key in range(100)]
    values = [one[0] for one in decider.answers(questions, [{}] * len(questions))]
    z = (np.mean(values) - truth) / (np.std(values, ddof=1) / math.sqrt(len(values)))
    assert abs(z) < 3.3
    errors = np.array([value.mask_se for value in values])
    assert 0.8 < np.sqrt((errors**2).mean()) / np.std(values) < 1.25
    held = np.abs(np.array(values) - truth) <= t_half_width(1.0, 3, 0.95) * errors
    assert held.mean() >= 0.88  # of 100 intervals at 95 %: 3 standard errors below


@pytest.mark.slow
def test_intervals_of_whole_texts_hold_the_truth(
    encoder: Encoder, model: MaskedLM, scorer: TextScorer
) -> None:
    """300 evaluations of a text in windows of 8, 8 and 7 tokens."""
    text, n_runs = (
        "the rain falls on the roof and the dog sleeps in the sun , who is it that sings on it and the",
        300,
    )
    windows = Encoder(encoder.tokenizer, 10).windows(text)
    assert [len(window.scored) for window in windows] == [8, 8, 7]
    truth = sum(truth_of(scorer, window) for window in windows)
    words = {"score": "evidence", "target": 16, "masks": 64}
    values = []
    for seed in range(n_runs):
        settings = Settings.parse(seed=seed, **words)
        values += Answerer(model, settings, None, 10).texts([SimpleNamespace(args=(text,))])
    z = (np.mean(values) - truth) / (np.std(values, ddof=1) / math.sqrt(n_runs))
    assert abs(z) < 3.3
    held = [abs(value - truth) <= t_half_width(value.mask_se, value.n_draws - 1, 0.95) for value in values]
    assert np.mean(held) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / n_runs)


def test_lladas_masks_have_its_sizes_and_no_bias(encoder: Encoder, scorer: TextScorer) -> None:
    every = np.ones((1, 40), dtype=np.bool_)
    drawn = drawn_masks(LLaDA(32, batch=16), MaskKey(0), np.array([5]), every)
    sizes = drawn.masked().sum(1)
    assert sizes.tolist() == drawn.size.tolist()
    assert sorted(np.diff(np.sort(sizes[:16])).tolist())[0] >= 2  # 16 sizes, 2.5 apart
    text = encoder.pair(CONTEXT, CHOICE)
    truth = truth_of(scorer, text)
    n = len(text.scored)  # in a batch of which no size is rounded, and so there is no bias
    values = Valuer(scorer, "llada", 0, n).values([text] * 60, list(range(60)))
    z = (np.mean(values) - truth) / (np.std(values, ddof=1) / math.sqrt(60))
    assert abs(z) < 3.3


def test_what_looks_the_same_is_one_pass(encoder: Encoder, model: MaskedLM) -> None:
    texts = [encoder.pair(CONTEXT, f" sleeps in the {last}") for last in ("rain", "sun", "roof")]
    together = TextScorer(model, encoder)
    scores = together.scores([*texts, *texts], Exhaustive(), MaskKey(), range(1)).score.reshape(6, 15)
    assert together.asker.n_passes == 3 * 7 + 8  # what hides the last token looks the same
    alone = [
        TextScorer(model, encoder).scores([text], Exhaustive(), MaskKey(), range(1)).score for text in texts
    ]
    np.testing.assert_allclose(scores[:3], alone, atol=1e-5)
    np.testing.assert_array_equal(scores[3:], scores[:3])


@pytest.mark.parametrize("batch_size", [1, 8])
def test_the_batch_size_changes_nothing(
    encoder: Encoder, model: MaskedLM, tokenizer: Any, batch_size: int
) -> None:
    again = MaskedLM(model.network, encoder.tokenizer)
    texts = [encoder.pair(CONTEXT, end) for end in (CHOICE, " sings", " and the dog is in the sun and sings")]
    questions = [Question(key, tuple(texts)) for key in range(3)]
    found = Decider(TextScorer(again, encoder, batch_size), 0, Race(looks=(16,))).answers(questions, [{}] * 3)
    expected = Decider(TextScorer(model, encoder), 0, Race(looks=(16,))).answers(questions, [{}] * 3)
    np.testing.assert_allclose(np.array(found), np.array(expected), atol=1e-4)


def test_a_race_spares_masks_and_keeps_the_order_of_the_choices(encoder: Encoder, scorer: TextScorer) -> None:
    texts = tuple(encoder.pair(CONTEXT, end) for end in (CHOICE, LONG, LONG + " in the sun"))
    contest = Contest("acc", np.ones(3))
    race = Race(0.99, looks_up_to(64))
    question = Question(1, texts, (contest,))
    values = Decider(scorer, 0, race).answers([question], [{}])[0]
    n_draws = [value.n_draws for value in values]
    full = Decider(scorer, 0, Race(looks=(64,))).answers([Question(1, texts)], [{}])[0]
    assert int(np.argmax(values)) == int(np.argmax(full))
    assert sum(value.n_passes for value in values) < sum(value.n_passes for value in full) / 2
    assert max(n_draws) < 16
    assert not any(value.ties for value in values)


class Known:
    """A model and its encoder: the tokens of choices have these log-probabilities in every mask."""

    conditionals, base_measure = "learned", "counting"

    def __init__(self, *log_probs: np.ndarray) -> None:
        self.log_probs = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(own) for own in log_probs], True)

    def row(self, one: Continuation) -> tuple[list[int], int]:
        return [*one.context, *one.scored], len(one.context)

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        choice, place = tokens.values[:, :1], tokens.values
        return torch.where(masked, self.log_probs[choice, place], 0.0)


def simulated(*log_probs: np.ndarray, key: int = 0) -> Question:
    """A question about choices whose context is their number, and whose tokens are their places."""
    n = len(log_probs)
    choices = tuple(Continuation((place,), tuple(range(len(own)))) for place, own in enumerate(log_probs))
    return Question(key, choices, (Contest("acc", np.ones(n)),))


@pytest.mark.parametrize(
    ("n_tokens", "n_choices"),
    [(64, 4), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((32, 2), (64, 2)))],
)
def test_the_best_choice_is_not_lost_to_a_wrong_token_that_few_masks_have_hidden(
    n_tokens: int, n_choices: int
) -> None:
    """600 races of a choice with diffuse doubt against choices with one wrong token, which are 2 % worse."""
    race, n_races = Race(0.995, looks_up_to(64)), 600
    wrong = np.where(np.arange(n_tokens) == np.arange(1, n_choices)[:, None], -10.2, 0.0)
    log_probs = np.full(n_tokens, -10.0 / n_tokens), *wrong
    known = Known(*log_probs)
    scorer: Any = TextScorer(known, known)  # type: ignore[arg-type]
    questions = [replace(simulated(*log_probs), key=key) for key in range(n_races)]
    lost = 0
    for values in Decider(scorer, 0, race).answers(questions, [{}] * n_races):
        tied = [place for place, one in enumerate(values) if one.ties]
        lost += 0 not in (tied or [int(np.argmax(values))])
    assert lost / n_races <= 0.005 + 3 * math.sqrt(0.005 / n_races)


def test_the_least_variance_is_that_of_all_masks() -> None:
    """Choices of equal length, of which each token's log-probability is the same in all masks."""
    rng, n, scale = np.random.default_rng(4), 7, np.array([1.0, 0.2, 1.0])
    log_probs = rng.normal(size=(3, n))
    every, factor = all_masks(n)
    size = every.sum(1)
    values = scale * (n / size[:, None] * (every @ log_probs.T))
    chance = size * factor / n
    state = _State(simulated(*log_probs), {})
    state.tokens = [np.stack([2 * own, np.full(n, 2.0)]) for own in log_probs]
    found = state.least_variance(scale)
    for one, other in itertools.product(range(3), repeat=2):
        apart = values[:, one] - values[:, other]
        assert found[one, other] == pytest.approx(chance @ (apart - chance @ apart) ** 2)


def test_a_value_passes_through_caches_and_json() -> None:
    import json
    import pickle

    value = ScoredValue(-3.5, np.array([0.5, -0.5]), 4, 7, ("acc",))
    again = pickle.loads(pickle.dumps(value))
    assert (again, again.mask_se, again.n_passes, again.draws_key, again.ties) == (
        value,
        value.mask_se,
        4,
        7,
        ("acc",),
    )
    assert json.loads(json.dumps(value)) == -3.5


def greedy_by_hand(model: MaskedLM, encoder: Encoder, text: Continuation) -> list[int]:
    """What unmasking the most confident token first writes, one network call per token."""
    written: dict[int, int] = {}
    n = len(text.scored)
    frame = encoder.frame
    first = len(frame.before) + len(text.context)
    while len(written) < n:
        ids = [
            *frame.before,
            *text.context,
            *(written.get(j, model.mask_token_id) for j in range(n)),
            *frame.after,
        ]
        with torch.no_grad():
            table = torch.softmax(model.network(input_ids=torch.tensor([ids])).logits[0].double(), -1)
        table[:, model.mask_token_id] = 0
        left = [j for j in range(n) if j not in written]
        best = max(left, key=lambda j: float(table[first + j].max()))
        written[best] = int(table[first + best].argmax())
    return [written[j] for j in range(n)]


def test_greedy_is_what_the_most_confident_token_first_gives(
    model: MaskedLM, encoder: Encoder, scorer: TextScorer
) -> None:
    texts = [encoder.pair(CONTEXT, end) for end in (CHOICE, " sings", " in the rain")]
    own = [Continuation(text.context, tuple(greedy_by_hand(model, encoder, text))) for text in texts]
    assert are_greedy(scorer, [*own, Continuation((5,), ())]) == [True] * 4
    assert are_greedy(scorer, texts) == [
        text.scored == one.scored for text, one in zip(texts, own, strict=True)
    ]
    lengths = [len(text.scored) for text in texts]
    for text, one, n in zip(texts, own, lengths, strict=True):
        context = Continuation(text.context, ())
        assert write(scorer, [context], Decoding(max_tokens=n), [0]) == [list(one.scored)]


def test_text_is_written_block_by_block_in_the_given_number_of_passes(
    encoder: Encoder, scorer: TextScorer
) -> None:
    context = encoder.before(CONTEXT, 8)
    for steps, passes in ((None, 8), (4, 4), (2, 2)):
        before = scorer.asker.n_passes
        first = write(scorer, [context], Decoding(8, block_length=4, steps=steps), [1])[0]
        assert scorer.asker.n_passes - before == passes
        assert len(first) == 8
        assert encoder.tokenizer.mask_token_id not in first
    warm = [write(scorer, [context], Decoding(8, temperature=2.0), [key])[0] for key in (1, 2, 1)]
    assert warm[0] == warm[2] != warm[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "max_tokens=0; give a whole number of 1 or more"),
        ({"steps": "x"}, "steps='x'; give a whole number of 1 or more"),
        ({"temperature": -1.0}, "temperature=-1.0; give 0 or more"),
    ],
)
def test_bad_decodings_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError) as error:
        Decoding(**options)
    assert str(error.value) == message
