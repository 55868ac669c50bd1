"""The lm-evaluation-harness with a masked model: real task files, caches, kills, chat templates, errors."""

import json
import math
import os
import re
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import harness_tasks
import maskevidence as me
from command_line import CommandLine
from forked import exit_code, fork
from maskevidence.core.errors import InputError, UntrustedFileWarning
from maskevidence.lm_eval.harness import AnswerCache, _with_error, errors_page
from maskevidence.lm_eval.race_command import _complete
from maskevidence.texts.masked_lm import MaskedLM
from text_models import SENTENCES, small_bert, small_tokenizer

pytest.importorskip("lm_eval", reason="lm-eval is not installed")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("kept_settings")]


@pytest.fixture
def kept_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The harness seeds global random numbers, reads data through a cache, and lists what is installed."""
    import datasets
    import torch.utils.collect_env

    monkeypatch.setattr(torch.utils.collect_env, "get_pretty_env_info", str)  # takes a second each time
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    state = torch.get_rng_state(), np.random.get_state()
    yield
    torch.set_rng_state(state[0])
    np.random.set_state(state[1])


@pytest.fixture(scope="module")
def masked_lm() -> MaskedLM:
    tokenizer = small_tokenizer()
    return MaskedLM(small_bert(tokenizer), tokenizer)


@pytest.fixture(scope="module")
def trained_lm() -> MaskedLM:
    """A small BERT that has seen a few sentences, hidden at all sizes."""
    tokenizer = small_tokenizer()
    model = MaskedLM(small_bert(tokenizer), tokenizer)
    tokens, objective = model.tokens(SENTENCES), me.MaskedObjective(me.RandomSize(1, 1))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(80):
        losses.append(objective(model, tokens))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert sum(losses[-8:]) < 0.75 * sum(losses[:8])
    return model.requires_grad_(False)


def evaluated(model: Any, tasks: list[Any], **options: Any) -> dict[str, Any]:
    """The harness's results, without its own bootstrap."""
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_defaults=False)
    return simple_evaluate(model=model, tasks=tasks, task_manager=manager, bootstrap_iters=0, **options)


def built(*configs: dict[str, Any]) -> list[Any]:
    """Tasks of these configurations, whose data are read once for several evaluations."""
    from lm_eval.tasks import TaskManager

    return list(TaskManager(include_defaults=False).load(list(configs))["tasks"].values())


def adapter(masked_lm: MaskedLM, **options: Any) -> Any:
    from maskevidence.lm_eval import MaskedEvidenceLM

    return MaskedEvidenceLM(MaskedLM(masked_lm.network, masked_lm.tokenizer), **{"masks": 16} | options)


def values(results: dict[str, Any]) -> list[float]:
    """Every value of every sample, in the order of tasks and documents."""
    found = []
    for name in sorted(results["samples"]):
        for sample in results["samples"][name]:
            answers = (one[0] for one in sample["resps"])
            found += [answer[0] if isinstance(answer, tuple) else answer for answer in answers]
    return [one for one in found if not isinstance(one, str)]


def texts(results: dict[str, Any]) -> list[str]:
    found = [
        one[0] for samples in results["samples"].values() for sample in samples for one in sample["resps"]
    ]
    return [one for one in found if isinstance(one, str)]


@pytest.mark.data
def test_real_task_files_do_not_depend_on_the_batch_size(trained_lm: MaskedLM, tmp_path: Path) -> None:
    tasks = built(*harness_tasks.real_tasks(tmp_path, limit=2))
    results = {size: evaluated(adapter(trained_lm, batch_size=size), tasks) for size in (1, 8, 32, "auto")}
    expected = results.pop("auto")
    assert set(expected["results"]) == {"qnli", "mrpc", "wikitext", "triviaqa"}
    assert 0 < expected["results"]["wikitext"]["bits_per_byte,none"] < 10
    for other in results.values():
        np.testing.assert_allclose(values(other), values(expected), atol=2e-4)
        assert texts(other) == texts(expected)
    assert texts(expected)
    errors = expected["config"]["maskevidence"]["tasks"]
    assert errors["qnli"]["metrics"]["acc"] == {
        "value": expected["results"]["qnli"]["acc,none"],
        "mask_se": 0.0,
    }
    assert errors["wikitext"]["metrics"]["bits_per_byte"]["mask_se"] > 0


def test_the_order_of_requests_changes_nothing(masked_lm: MaskedLM, tmp_path: Path) -> None:
    """The first documents alone, whose numbers in the harness differ, have the same values, too."""
    tasks = built(harness_tasks.choice_task(tmp_path, SENTENCES, ["acc", "acc_norm"]))
    whole = evaluated(adapter(masked_lm), tasks)
    some = evaluated(adapter(masked_lm), tasks, samples={"sentences": [4, 1]})
    by_question = {sample["doc"]["q"]: sample["resps"] for sample in whole["samples"]["sentences"]}
    for sample in some["samples"]["sentences"]:
        expected = by_question[sample["doc"]["q"]]
        np.testing.assert_allclose(
            *([one[0][0] for one in answers] for answers in (sample["resps"], expected))
        )
    assert len(some["samples"]["sentences"]) == 2


def test_metrics_that_read_values_are_not_raced(masked_lm: MaskedLM, tmp_path: Path) -> None:
    raced = harness_tasks.choice_task(tmp_path, SENTENCES[:2], ["acc"], "raced")
    read = harness_tasks.choice_task(tmp_path, SENTENCES[:2], ["acc", "brier_score"], "read")
    results = evaluated(adapter(masked_lm, masks=64), [raced, read])
    passes = {
        name: [one[-1]["passes"] for sample in results["samples"][name] for one in sample["resps"]]
        for name in ("raced", "read")
    }
    exact = 63  # the choice of six tokens
    assert all(count in (64, exact) for count in passes["read"])
    assert np.mean(passes["raced"]) < 48
    decided = results["config"]["maskevidence"]["tasks"]
    assert decided["raced"]["documents"] == decided["read"]["documents"] == 2


def test_all_argmaxes_that_a_task_lists_are_raced(masked_lm: MaskedLM, tmp_path: Path) -> None:
    tasks = built(harness_tasks.choice_task(tmp_path, SENTENCES[:3], ["acc", "acc_norm"]))
    raced = evaluated(adapter(masked_lm, masks=64), tasks)
    full = evaluated(adapter(masked_lm, target=128), tasks)
    tied = raced["config"]["maskevidence"]["tasks"]["sentences"]["ties"]
    for name in ("acc", "acc_norm"):
        if name not in tied:
            assert (
                raced["results"]["sentences"][f"{name},none"] == full["results"]["sentences"][f"{name},none"]
            )
    assert "acc" not in tied


def test_values_after_an_empty_context_are_not_raced(masked_lm: MaskedLM, tmp_path: Path) -> None:
    """acc_mutual_info subtracts them: all masks are scored for each of its values."""
    tasks = built(harness_tasks.choice_task(tmp_path, SENTENCES[:2], ["acc", "acc_mutual_info"]))
    results = evaluated(adapter(masked_lm, masks=16), tasks)
    passes = [one[-1]["passes"] for sample in results["samples"]["sentences"] for one in sample["resps"]]
    assert set(passes) <= {16, 63}  # 63: the choice of six tokens


@pytest.fixture
def small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskevidence.lm_eval.answering._WAVE", 1)


@pytest.mark.usefixtures("small_waves", "one_thread")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_killed_evaluation_resumes_with_equal_results(
    masked_lm: MaskedLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is killed by the system after two questions; the same evaluation goes on after them."""
    tasks = built(harness_tasks.choice_task(tmp_path, SENTENCES, ["acc", "acc_norm"]))
    cache = str(tmp_path / "answers")
    whole = evaluated(adapter(masked_lm), tasks)

    def killed_after_two() -> None:
        add, count = AnswerCache.add, 0

        def counted(own: AnswerCache, *arguments: Any) -> None:
            nonlocal count
            add(own, *arguments)
            count += 1
            if count == 2:
                len(own.database)  # waits for what is still to be written
                os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(AnswerCache, "add", counted)
        evaluated(adapter(masked_lm), tasks, use_cache=cache)

    assert exit_code(fork(killed_after_two)) == -signal.SIGKILL
    with pytest.warns(UntrustedFileWarning, match="which this run has not written, as Python pickles"):
        resumed = evaluated(adapter(masked_lm), tasks, use_cache=cache)
    np.testing.assert_allclose(values(resumed), values(whole), rtol=1e-6)  # calls are put together anew
    assert resumed["results"] == whole["results"]
    needed = whole["config"]["maskevidence"]["passes"]
    assert 0 < resumed["config"]["maskevidence"]["passes"] < needed
    finished = evaluated(adapter(masked_lm), tasks, use_cache=cache)
    ours = finished["config"]["maskevidence"]
    assert ours["passes"] == 0
    assert ours["tasks"]["sentences"] == resumed["config"]["maskevidence"]["tasks"]["sentences"]


def test_a_cache_of_other_masks_is_refused(masked_lm: MaskedLM, tmp_path: Path) -> None:
    tasks = built(harness_tasks.choice_task(tmp_path, SENTENCES[:1], ["acc"]))
    cache = str(tmp_path / "answers")
    first = evaluated(adapter(masked_lm, seed=0), tasks, use_cache=cache)
    with pytest.raises(InputError, match=r"holds answers of another run \(seed 0 instead of 1\); give a new"):
        evaluated(adapter(masked_lm, seed=1), tasks, use_cache=cache)
    other = MaskedLM(small_bert(masked_lm.tokenizer, num_hidden_layers=1), masked_lm.tokenizer)
    with pytest.raises(InputError, match=r"another run \(model "):
        evaluated(adapter(other), tasks, use_cache=cache)
    assert values(evaluated(adapter(masked_lm, seed=0), tasks, use_cache=cache)) == values(first)
    from sqlitedict import SqliteDict

    with SqliteDict(str(tmp_path / "other_rank0.db"), autocommit=True) as foreign:
        foreign["hash"] = (-1.0, True)
    with pytest.raises(InputError, match="holds answers of another kind of model"):
        evaluated(adapter(masked_lm), tasks, use_cache=str(tmp_path / "other"))


class Trap:
    """What is unpickled as a call that makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def test_a_cache_of_another_process_is_named_before_its_pickles_are_read(
    masked_lm: MaskedLM, tmp_path: Path
) -> None:
    from lm_eval.api.model import CachingLM
    from sqlitedict import SqliteDict

    trap, file = tmp_path / "trap", tmp_path / "cache.db"
    with SqliteDict(str(file), autocommit=True) as foreign:
        foreign["maskevidence: what the answers depend on"] = Trap(trap)
    model = adapter(masked_lm)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrustedFileWarning)
        with pytest.raises(UntrustedFileWarning, match=f"--use_cache reads {re.escape(str(file))}"):
            CachingLM(model, str(file))
    assert not trap.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrustedFileWarning)
        for _ in range(2):
            CachingLM(adapter(masked_lm), str(tmp_path / "own.db"))


def test_chat_templates(masked_lm: MaskedLM, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="the tokenizer has no chat template; leave out --apply_chat_template"
    ):
        adapter(masked_lm).apply_chat_template([{"role": "user", "content": "a"}])
    tokenizer = small_tokenizer()
    tokenizer.chat_template = (
        "{% for message in messages %}[SEP] {{ message.content }} {% endfor %}"
        "{% if add_generation_prompt %}[SEP] the cat said{% endif %}"
    )
    model = adapter(MaskedLM(masked_lm.network, tokenizer))
    task = harness_tasks.choice_task(tmp_path, SENTENCES[:1], ["acc"])
    results = evaluated(model, [task], apply_chat_template=True)
    context = results["samples"]["sentences"][0]["arguments"][0][0]
    assert context == f"[SEP] {SENTENCES[0]} [SEP] the cat said"
    encoded = model.answerer.encoder.pair(context, " a dog")
    assert tokenizer.convert_ids_to_tokens(list(encoded.context)).count("[SEP]") == 2


def test_a_chat_template_that_spells_the_frame_does_not_double_it(masked_lm: MaskedLM) -> None:
    encoder = adapter(masked_lm).answerer.encoder
    rows = [
        encoder.row(encoder.pair(context, continuation))[0]
        for context, continuation in (
            ("[CLS] the cat [SEP] a dog", " sleeps"),
            ("the cat [SEP] a dog", " sleeps"),
            ("", "[CLS] the cat [SEP] a dog sleeps"),
        )
    ]
    assert rows[0] == rows[1] == rows[2]
    assert masked_lm.tokenizer.convert_ids_to_tokens(rows[0])[:3] == ["[CLS]", "the", "cat"]
    assert encoder.row(encoder.before("[CLS] the cat", 2)) == encoder.row(encoder.before("the cat", 2))
    assert len(encoder.windows("[CLS] the cat")[0].scored) == 2


def asked(kind: str, *texts: str, number: int = 0, document: int = 0) -> Any:
    """A request without a task."""
    from lm_eval.api.instance import Instance

    return Instance(kind, {}, texts, number, metadata=("none", document, 1))


def test_requests_of_a_document_that_share_a_number_have_their_own_values(masked_lm: MaskedLM) -> None:
    model = adapter(masked_lm)
    pairs = [("the cat", " sleeps"), ("the cat", " falls on the roof and the dog sings"), ("a", " sleeps")]
    requests = [asked("loglikelihood", *pair) for pair in pairs]
    alone = [model.loglikelihood([request])[0] for request in requests]
    assert len({value for value, _ in alone}) == 3
    np.testing.assert_allclose(model.loglikelihood(requests), alone, rtol=1e-5)
    np.testing.assert_allclose(model.loglikelihood(requests[::-1])[::-1], alone, rtol=1e-5)
    same_texts = model.loglikelihood([*requests, requests[0]])
    assert same_texts[3] == same_texts[0]


def test_an_empty_text_of_a_rolling_task_has_probability_1(masked_lm: MaskedLM) -> None:
    some, empty = adapter(masked_lm).loglikelihood_rolling(
        [asked("loglikelihood_rolling", "a dog"), asked("loglikelihood_rolling", "", document=1)]
    )
    assert some < -1
    assert empty == 0.0


def choices_task(folder: Path, choices: list[list[str]], metrics: list[str]) -> dict[str, Any]:
    """A multiple choice after the same words; the last choice is the right one."""
    rows = [{"q": "the cat", "choices": each, "gold": len(each) - 1} for each in choices]
    task = harness_tasks.choice_task(folder, [], metrics)
    harness_tasks.write_lines(folder / "sentences.jsonl", rows)
    return task


LONG = "a dog sleeps in the rain and sings"  # more tokens than are scored exactly


@pytest.mark.parametrize("options", [{}, {"target": 16}])
def test_choices_of_equal_tokens_are_ties_in_whatever_way_they_are_scored(
    masked_lm: MaskedLM, tmp_path: Path, options: dict[str, Any]
) -> None:
    """The tokenizer knows no capitals: the harness takes the first one, which is wrong here."""
    equal = [["Sleeps", "sleeps"], [LONG.upper(), LONG]]
    apart = [["sleeps", "falls"], ["Falls", "falls", "sleeps"]]
    task = choices_task(tmp_path, [*equal, *apart], ["acc", "acc_norm"])
    results = evaluated(adapter(masked_lm, **options), [task])
    ties = results["config"]["maskevidence"]["tasks"]["sentences"]["ties"]
    best = max(float(one[0][0]) for one in results["samples"]["sentences"][3]["resps"])
    last = float(results["samples"]["sentences"][3]["resps"][2][0][0])
    assert ties == dict.fromkeys(("acc", "acc_norm"), 2 + (last < best))
    tied = [[one[-1].get("tied") for one in each["resps"]] for each in results["samples"]["sentences"]]
    assert tied[:2] == [[["acc", "acc_norm"]] * 2] * 2
    assert tied[2] == [None] * 2


@pytest.mark.parametrize("options", [{}, {"target": 16}])
def test_a_choice_without_a_token_wins_no_question(
    masked_lm: MaskedLM, tmp_path: Path, options: dict[str, Any]
) -> None:
    """An empty choice, and one of a letter that the tokenizer drops, beside short and long ones."""
    choices = [["falls", "sleeps"], ["", "sleeps"], ["\u200b", LONG], ["", "", LONG]]
    task = choices_task(tmp_path, choices, ["acc", "acc_norm", "acc_bytes"])
    with pytest.warns(UserWarning, match="4 choices have no token"), np.errstate(divide="ignore"):
        results = evaluated(adapter(masked_lm, **options), [task])
    ours = results["config"]["maskevidence"]
    assert ours["choices_without_token"] == 4
    assert not ours["tasks"]["sentences"]["ties"]
    for sample in results["samples"]["sentences"][1:]:
        answers = [one[0] for one in sample["resps"]]
        assert all(answer == (-np.inf, False) for answer in answers[:-1])
        assert -99 < answers[-1][0] < 0
        assert all(sample[metric] == 1.0 for metric in ("acc", "acc_norm", "acc_bytes"))


def test_greedy_is_found_where_a_task_reads_it(masked_lm: MaskedLM, tmp_path: Path) -> None:
    from maskevidence.lm_eval.texts import Decoding, write

    model = adapter(masked_lm)
    context = "the cat"
    answerer = model.answerer
    ids = write(answerer.scorer, [answerer.encoder.before(context, 2)], Decoding(2), [0])[0]
    written = " " + model.tokenizer.decode(ids)
    rows = [{"q": context, "end": written}, {"q": context, "end": " the the"}, {"q": context, "end": ""}]
    task = harness_tasks.choice_task(tmp_path, [], ["acc", "perplexity"], "last_words")
    task |= {"output_type": "loglikelihood", "doc_to_target": "end", "target_delimiter": ""}
    task |= {
        "dataset_kwargs": {"data_files": {"test": str(harness_tasks.write_lines(tmp_path / "e.jsonl", rows))}}
    }
    del task["doc_to_choice"]
    assert model.answerer.encoder.pair(context, written).scored == tuple(ids)
    answers = [one["resps"][0][0] for one in evaluated(model, [task])["samples"]["last_words"]]
    assert [greedy for _, greedy in answers] == [True, False, True]
    assert answers[2][0] == 0.0


@pytest.fixture
def own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the tasks that they name by file: the harness's 15,000 files take ten seconds to list."""
    import lm_eval.tasks

    whole = lm_eval.tasks.TaskManager
    monkeypatch.setattr(
        "lm_eval.tasks.TaskManager", lambda *a, **k: whole(*a, **k | {"include_defaults": False})
    )


@pytest.mark.usefixtures("own_tasks")
def test_the_command_writes_the_errors_beside_the_results(
    masked_lm: MaskedLM, tmp_path: Path, run: CommandLine
) -> None:
    model, task = tmp_path / "model", tmp_path / "task.yaml"
    masked_lm.save(model)
    task.write_text(json.dumps(harness_tasks.choice_task(tmp_path, SENTENCES, ["acc"])))
    words = ("lm-eval", "--model_args", f"pretrained={model},masks=16", "--tasks", task, "--limit", "2")
    done = run(*words, "--output_path", tmp_path / "out", "--log_samples")
    assert done.code == 0, done.err
    table, errors = done.out.split("Errors of the masks")
    assert "|sentences|" in table
    ties = json.loads((tmp_path / "out" / "evidence.json").read_text())["tasks"]["sentences"]["ties"]
    assert f"{ties.get('acc', 0)} of 2" in errors
    report = json.loads((tmp_path / "out" / "evidence.json").read_text())
    assert report["tasks"]["sentences"]["documents"] == 2
    arguments = SimpleNamespace(
        model_args={"pretrained": "m"}, output_path=tmp_path / "out", batch_size=1, device="cpu"
    )
    _complete(arguments)
    assert arguments.model_args["evidence"] == str(tmp_path / "out" / "evidence-2.json")
    logged = next((tmp_path / "out").rglob("samples_*.jsonl")).read_text().splitlines()
    assert len(logged) == 2
    assert "mask_se" in logged[0]
    assert "passes" in logged[0]
    whole_results = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())
    assert whole_results["config"]["maskevidence"]["tasks"]["sentences"]["documents"] == 2


def test_a_perplexity_whose_error_exceeds_it_is_shown_on_the_log_scale() -> None:
    def perplexity(items: list[tuple[float, int]]) -> float:
        return math.exp(-sum(value for value, _ in items) / sum(n_words for _, n_words in items))

    task = SimpleNamespace(aggregation=lambda: {"word_perplexity": perplexity})
    noise = np.random.default_rng(0).normal(size=64)
    shown = []
    for spread in (0.1, 3.0):
        redrawn = [[(-80.0 + 10 * spread * each, 10) for each in noise]]
        found = _with_error(task, "word_perplexity", [(-80.0, 10)], redrawn)
        shown.append(errors_page({"wikitext": {"metrics": {"word_perplexity": found}}}).parts[0].rows[0])
    assert shown[0][:3] == ["wikitext", "word_perplexity", "2981"]
    assert shown[1][:3] == ["wikitext", "log(word_perplexity)", "8"]
    assert float(shown[1][3]) == pytest.approx(3.0 * noise.std(ddof=1), rel=0.05)


@pytest.mark.usefixtures("own_tasks")
def test_an_empty_choice_in_the_first_document_is_named(
    masked_lm: MaskedLM, tmp_path: Path, run: CommandLine
) -> None:
    model, task = tmp_path / "model", tmp_path / "task.yaml"
    masked_lm.save(model)
    task.write_text(json.dumps(choices_task(tmp_path, [["", "sleeps"]], ["acc"])))
    done = run("lm-eval", "--model_args", f"pretrained={model}", "--tasks", task)
    assert done.code == 2
    assert "a choice of a task's first document is empty" in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tasks", "qnli"), "there is no model; give --model_args pretrained=FOLDER"),
        (("--no-such-argument", "3"), "unrecognized arguments: --no-such-argument 3"),
        (("--model_args", "pretrained=no/such/folder", "--tasks", "x"), "the harness cannot run this"),
        (("--model_args", "target=decision:2"), "there is no model"),
    ],
)
@pytest.mark.usefixtures("own_tasks")
def test_bad_commands_get_one_line(run: CommandLine, words: tuple[str, ...], message: str) -> None:
    done = run("lm-eval", *words)
    assert done.code == 2
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "decision:2"}, "target=decision:2; give a probability above 0.5 and below 1"),
        ({"target": "soon"}, "target=soon; give decision, decision:0.995 or a whole number of 4 or more"),
        ({"masks": 0}, "masks=0; give a whole number of 4 or more"),
        ({"score": "pl"}, "unknown score 'pl'; did you mean 'pll'?"),
        ({"batch_size": "x"}, "batch_size=x; give auto or a whole number of 1 or more"),
        ({"colour": 1}, "model argument 'colour' is not known"),
    ],
)
def test_bad_model_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    from maskevidence.lm_eval import MaskedEvidenceLM

    with pytest.raises(InputError) as error:
        MaskedEvidenceLM("no/such/folder", **options)
    assert message in str(error.value)


def test_the_example_of_the_docs_runs(
    masked_lm: MaskedLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lm_eval

    page = (Path(__file__).parents[3] / "docs" / "lm_eval.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    masked_lm.save(tmp_path / "model")
    task = harness_tasks.choice_task(tmp_path, SENTENCES, ["acc", "acc_norm"])
    monkeypatch.setattr(
        lm_eval,
        "simple_evaluate",
        lambda model, tasks, limit: evaluated(model, [task], limit=limit),
        raising=False,
    )
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.replace("path/to/model", str(tmp_path / "model")), names)
    assert names["results"]["config"]["maskevidence"]["tasks"]["sentences"]["documents"] == len(SENTENCES)
    assert json.loads((tmp_path / "evidence.json").read_text())["score"] == "evidence"


def test_bits_per_byte_are_those_of_the_text_itself(masked_lm: MaskedLM, tmp_path: Path) -> None:
    texts = ["the rain falls on the roof", "café , said the cat"]
    file = harness_tasks.write_lines(tmp_path / "texts.jsonl", [{"text": text} for text in texts])
    task = harness_tasks.local({"task": "texts", "output_type": "loglikelihood_rolling"}, file)
    task |= {"doc_to_text": "", "doc_to_target": "text", "metric_list": [{"metric": "bits_per_byte"}]}
    results = evaluated(adapter(masked_lm), [task])
    n_bytes = sum(len(text.encode()) for text in texts)
    expected = -sum(values(results)) / (n_bytes * np.log(2))
    assert results["results"]["texts"]["bits_per_byte,none"] == pytest.approx(expected)
