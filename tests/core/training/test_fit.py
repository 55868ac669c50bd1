"""The training loop: it reaches the maximum, resumes exactly from a checkpoint, and explains failures."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.tokens import Tokens
from maskevidence.core.training.checkpoints import FILE
from maskevidence.core.training.training_pace import Pace
from refusals import one_line

D = 5
Optimizers = dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]]
OPTIMIZERS: Optimizers = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "l-bfgs": lambda p: torch.optim.LBFGS(p, lr=0.02, max_iter=3),
}


def rows(n: int = 60, seed: int = 1, holes: bool = False) -> np.ndarray:
    """Rows of a PPCA model; with holes, a tenth of the values is missing."""
    table = me.models.PPCA(D, 2, seed=7).sample(n, seed=seed)
    if holes:
        table[np.random.default_rng(seed).random(table.shape) < 0.1] = np.nan
        table[np.isnan(table).all(1), 0] = 0.0
    return table


class Dropout(torch.nn.Module):
    """Learned conditionals from a network of the visible values, with dropout."""

    conditionals = "learned"

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2 * D, 16), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(16, D)
        ).double()
        for index, parameter in enumerate(self.parameters()):
            generator = torch.Generator().manual_seed(index)
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        visible = tokens.visible(masked)
        mean = self.net(torch.cat([torch.where(visible, tokens.values, 0.0), visible.double()], 1))
        return torch.where(masked, torch.distributions.Normal(mean, 1.0).log_prob(tokens.values), 0.0)


def state(model: torch.nn.Module) -> dict[str, list[float]]:
    return {name: value.tolist() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("objective", [me.Likelihood(), me.MaskedObjective(me.Exhaustive())])
def test_the_exact_objectives_reach_maximum_likelihood(objective: Any, holes: bool) -> None:
    x = rows(80, holes=holes)
    best = me.models.PPCA(D, 2).fit(x)
    model = me.models.PPCA(D, 2, seed=3)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")
    me.fit(model, x, objective, optimizer=optimizer, epochs=2)
    assert model.score_samples(x).mean() == pytest.approx(best.score_samples(x).mean(), abs=1e-5)


@pytest.mark.slow
def test_random_sizes_come_close_to_maximum_likelihood() -> None:
    x = rows(200)
    best = me.models.PPCA(D, 2).fit(x).score_samples(x).mean()
    model = me.models.PPCA(D, 2, seed=3)
    history = me.fit(model, x, me.RandomSize(1, 1), epochs=150, learning_rate=0.03, batch_size=100)
    assert len(history) == 150
    assert history.log_evidence[-1] == pytest.approx(model.score_samples(x).mean(), rel=1e-12)
    assert best - 0.03 < history.log_evidence[-1] <= best


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize(
    "build", [lambda: me.models.FactorAnalysis(D, 2, seed=4), Dropout], ids=["fa", "net"]
)
def test_a_resumed_training_ends_bit_by_bit_where_an_uninterrupted_one_does(
    name: str, build: Callable[[], torch.nn.Module], tmp_path: Path
) -> None:
    def train(model: torch.nn.Module, epochs: int, checkpoint: Path | None) -> me.History:
        return me.fit(
            model,
            rows(),
            me.RandomSize(2, 1),
            optimizer=OPTIMIZERS[name](list(model.parameters())),
            epochs=epochs,
            batch_size=17,
            seed=6,
            held_out=rows(seed=2),
            patience=50,
            checkpoint=checkpoint,
            checkpoint_every=3,
        )

    whole, first, second = build(), build(), build()
    expected = train(whole, 9, None)
    torch.manual_seed(int(time.time()))  # the global state must not matter
    train(first, 4, tmp_path)
    before = torch.get_rng_state()
    history = train(second, 9, tmp_path)
    assert history.resumed_from == 4
    assert state(second) == state(whole)
    assert history.to_csv() == expected.to_csv()
    assert torch.equal(before, torch.get_rng_state())


def test_moments_stand_for_rows(tmp_path: Path) -> None:
    x = rows()
    objective = me.MaskedObjective(me.EverySize(2), masks="shared", seed=1)
    by_rows, by_moments = me.models.PPCA(D, 2), me.models.PPCA(D, 2)
    first = me.fit(by_rows, x, objective, epochs=20)
    second = me.fit(by_moments, me.GaussianMoments.from_rows(x), objective, epochs=20)
    assert state(by_rows) == state(by_moments)
    assert np.isfinite(first.log_evidence).all()
    assert np.isnan(second.log_evidence).all()


def test_patience_keeps_the_best_parameters() -> None:
    x, test = rows(8, seed=3), rows(200, seed=4)
    model = me.models.FactorAnalysis(D, 3, seed=1)
    history = me.fit(model, x, me.Likelihood(), learning_rate=0.1, epochs=2000, held_out=test, patience=20)
    assert history.stopped is not None
    assert len(history) == history.best_epoch + 20 < 2000
    assert history.held_out.max() == history.held_out[history.best_epoch - 1]
    assert model.score_samples(test).mean() == pytest.approx(history.held_out.max(), rel=1e-12)


@pytest.mark.slow
def test_a_pace_lowers_the_rate_and_goes_on_from_the_best_parameters(tmp_path: Path) -> None:
    """Too high a rate is left: the end is as good as that of a rate that was right from the start."""
    x, test = rows(100, seed=3), rows(400, seed=4)

    def trained(rate: float, **options: Any) -> tuple[Any, me.History]:
        model = me.models.FactorAnalysis(D, 2, seed=1)
        options = {"held_out": test, "learning_rate": rate, "epochs": 400, "batch_size": 20, **options}
        return model, me.fit(model, x, me.RandomSize(2, 1), **options)

    pace = Pace(patience=3, factor=0.3, lowest=1e-3)
    model, history = trained(3.0, pace=pace)
    right = trained(0.03, epochs=60)[1].held_out.max()
    assert history.stopped == "the held-out evidence stood still at the lowest learning rate"
    assert history.held_out.max() > trained(3.0, epochs=60)[1].held_out.max() + 1.0
    assert history.held_out.max() > right - 0.03
    assert model.score_samples(test).mean() == pytest.approx(history.held_out.max(), rel=1e-12)
    assert not history.notes

    class Stopped(Exception):
        pass

    def stop(record: Any, model: object) -> None:
        if record.epoch == len(history) // 2:
            raise Stopped

    with pytest.raises(Stopped):
        trained(3.0, pace=pace, checkpoint=tmp_path, checkpoint_every=1, callbacks=[stop])
    again, resumed = trained(3.0, pace=pace, checkpoint=tmp_path, checkpoint_every=1)
    assert resumed.resumed_from == len(history) // 2 - 1
    assert state(again) == state(model)


def test_a_slow_climb_is_given_longer_by_a_share_of_the_epochs() -> None:
    """A climb that slows down under noise keeps its highest rate; one that has ended does not."""
    noise = 0.3 * np.random.default_rng(0).normal(size=60)
    climbing = [0.0, *(3 * np.sqrt(np.arange(1, 61)) + noise).tolist()]
    assert Pace(2, 0.25, 0.05).rate(climbing) < 0.1
    pace = Pace(2, 0.25, 0.05, share=0.2)
    assert pace.rate(climbing) == pace.rate(climbing + [0.0] * 11) == 1.0
    assert pace.rate(climbing + [0.0] * 16) == 0.25
    with pytest.raises(me.InputError, match="a share in"):
        Pace(share=1.0)


def test_a_pace_keeps_the_first_parameters_where_no_step_helps() -> None:
    x = rows(50, seed=3)
    model = me.models.PPCA(D, 2)
    me.fit(model, x, me.Likelihood(), epochs=300)
    before = state(model)
    history = me.fit(
        model, rows(50, seed=9) + 5.0, me.Likelihood(), held_out=x, epochs=20, pace=Pace(2, 0.1, 0.5)
    )
    assert history.best_epoch is None
    assert len(history) == 2
    assert state(model) == before


@pytest.mark.parametrize(
    ("best", "n", "note"),
    [
        (1, 40, "highest after epoch 1 of 40: a lower learning rate may reach more"),
        (40, 40, "highest after epoch 40 of 40: more epochs may reach more"),
        (20, 40, None),
        (1, 9, None),
        (None, 40, None),
    ],
)
def test_a_best_epoch_at_either_end_is_noted(best: int | None, n: int, note: str | None) -> None:
    history = me.History(np.arange(1, n + 1), *np.zeros((3, n)), best_epoch=best)
    assert (
        history.notes
        == history.page().notes
        == (() if note is None else (f"the held-out evidence was {note}",))
    )


@pytest.mark.parametrize(
    ("best", "stopped", "noted"), [(94, None, True), (96, None, True), (90, None, False), (94, "x", False)]
)
def test_a_pace_that_its_limit_ends_while_the_evidence_rises_is_noted(
    best: int, stopped: str | None, noted: bool
) -> None:
    history = me.History(np.arange(1, 97), *np.zeros((3, 96)), best_epoch=best, stopped=stopped, paced=True)
    said = f"the held-out evidence was highest after epoch {best} of 96: more epochs may reach more"
    assert history.notes == ((said,) if noted else ())


def test_callbacks_see_every_epoch_and_can_end_it() -> None:
    seen: list[int] = []

    def stop(record: Any, model: torch.nn.Module) -> bool:
        seen.append(record.epoch)
        return record.epoch == 3

    history = me.fit(me.models.PPCA(D, 2), rows(), me.EverySize(1), epochs=10, callbacks=[stop])
    assert seen == history.epoch.tolist() == [1, 2, 3]
    assert history.stopped == "a callback ended it"


def test_a_step_without_a_finite_end_is_never_saved(tmp_path: Path) -> None:
    model = me.models.PPCA(D, 2)
    model.loadings.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(me.NumericalError, match=r"no finite end.*loadings.*none was kept"):
        me.fit(model, rows(), me.Likelihood(), epochs=2, checkpoint=tmp_path, checkpoint_every=1)
    assert not (tmp_path / FILE).exists()


def test_every_row_comes_once_an_epoch() -> None:
    class Spy:
        ids: list[int] = []  # noqa: RUF012

        def __call__(self, model: Any, data: Tokens, *, step: int | None = None) -> torch.Tensor:
            Spy.ids += data.ids.tolist()
            return me.Likelihood()(model, data)

        def settings(self) -> dict[str, Any]:
            return {}

        def check(self, model: Any) -> None: ...

    for size, epochs in ((None, 3), (30, 5), (75, 2)):
        Spy.ids = []
        me.fit(me.models.PPCA(D, 2), rows(50), Spy(), epochs=epochs, batch_size=16, epoch_size=size)
        passes = np.array(Spy.ids).reshape(3, 50)
        assert (np.sort(passes, 1) == np.arange(50)).all()
        assert (passes[0] != passes[1]).any()


def test_a_loss_that_is_not_finite_stops_training_and_names_everything(tmp_path: Path) -> None:
    model = me.models.PPCA(D, 2)

    class BreaksAtStep7(me.Likelihood):
        def __call__(self, model: Any, data: object, *, step: int | None = None) -> torch.Tensor:
            if step == 7:
                with torch.no_grad():
                    model.loadings[0, 1] = float("nan")
                return model.loadings.sum()
            return super().__call__(model, data, step=step)

    with pytest.raises(me.NumericalError) as caught:
        me.fit(model, rows(), BreaksAtStep7(), epochs=20, checkpoint=tmp_path, checkpoint_every=2)
    message = str(caught.value)
    assert "epoch 8, step 7: the loss is nan" in message
    assert "loadings (1 of 10)" in message
    assert f"{tmp_path / FILE} (after epoch 6)" in message
    again = me.models.PPCA(D, 2)
    resumed = me.fit(again, rows(), me.Likelihood(), epochs=6, checkpoint=tmp_path)
    assert resumed.resumed_from == 6
    assert all(torch.isfinite(value).all() for value in again.parameters())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": -1}, "batch_size=-1"),
        ({"patience": 3}, "give held_out"),
        ({"pace": Pace()}, "give held_out"),
        ({"epoch_size": 0}, "epoch_size=0"),
        ({"evidence_every": -1}, "evidence_every=-1"),
        ({"model": torch.nn.Identity()}, "no parameters to train"),
        ({"model": Dropout(), "objective": me.Likelihood()}, "no closed form"),
        ({"model": torch.nn.Linear(2, 2)}, "log_conditionals"),
        ({"optimizer": torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.0)}, "learning rate of 0"),
    ],
)
def test_options_that_cannot_be_used_are_one_clear_line(options: dict[str, Any], message: str) -> None:
    model = options.pop("model", None) or me.models.PPCA(D, 2)
    objective = options.pop("objective", None) or me.EverySize(1)
    one_line(lambda: me.fit(model, rows(), objective, **({"epochs": 2} | options)), match=message)


def _rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of a checkpoint."""
    from safetensors import safe_open
    from safetensors.torch import load, save

    with safe_open(str(path), framework="pt") as file:
        header = json.loads(file.metadata()["maskevidence"])
    change(header)
    path.write_bytes(save(load(path.read_bytes()), metadata={"maskevidence": json.dumps(header)}))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-7]), "is not a readable checkpoint"),
        (lambda path: path.write_bytes(b""), "is not a readable checkpoint"),
        (lambda path: _rewrite(path, lambda h: h.update(version="0.0.1")), "written by maskevidence 0.0.1"),
        (lambda path: _rewrite(path, lambda h: h.update(format=0)), "checkpoint format 0"),
        (lambda path: _rewrite(path, lambda h: h["settings"].update(model="Other")), "model Other instead"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_clear_line(
    break_it: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    me.fit(me.models.PPCA(D, 2), rows(), me.EverySize(1), epochs=2, checkpoint=tmp_path)
    break_it(tmp_path / FILE)
    one_line(
        lambda: me.fit(me.models.PPCA(D, 2), rows(), me.EverySize(1), epochs=4, checkpoint=tmp_path),
        match=message,
    )


@pytest.mark.parametrize(
    ("model", "x", "options", "message"),
    [
        (me.models.PPCA(D, 3), rows(), {}, "parameters"),
        (me.models.PPCA(D, 2), rows(seed=9), {}, "data"),
        (me.models.PPCA(D, 2), rows(), {"seed": 8}, "seed"),
        (me.models.PPCA(D, 2), rows(), {"epochs": 1}, "beyond epochs=1"),
        (me.models.PPCA(D, 2), rows(), {"learning_rate": 0.5}, "learning rate"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    model: torch.nn.Module, x: np.ndarray, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    me.fit(me.models.PPCA(D, 2), rows(), me.EverySize(1), epochs=2, checkpoint=tmp_path)
    with pytest.raises(me.InputError, match=message):
        me.fit(model, x, me.EverySize(1), **({"epochs": 4} | options), checkpoint=tmp_path)
