"""The mask token is no value: what a model gives it is missing from the values of hidden tokens."""

import torch

from maskevidence.check.findings import Finding
from maskevidence.check.trial import Trial
from maskevidence.model import HasLogDistributions

_N_PAIRS = 8
_LEAST = 1e-3
_TIMES_OTHERS = 3.0  # the median of all values, of which networks with random weights give it up to 1.6


def mask_token(trial: Trial) -> Finding:
    """Hardly any probability is given to the mask token at hidden places.

    A network that was trained with the mask token among its outputs has learnt that it never is the answer,
    and gives it less than other values. In MDLM, SEDD and BD3-LM its output is left out before the softmax,
    in training too, and nothing keeps it small: where it is not left out, the answers are too low by
    -log(1 - p(mask token)) nats for each hidden token.
    """
    did = "The probability of the mask token itself at the hidden tokens of some pairs was averaged."
    token = getattr(trial.model, "mask_token_id", None)
    if token is None or not isinstance(trial.model, HasLogDistributions):
        return Finding("mask token", "skipped", "the model has no mask token, or lists no distributions", did)
    rows = trial.rng("mask token").permutation(len(trial.masked))[:_N_PAIRS]
    log_p = torch.cat([answer.log_probs.double().cpu() for answer in trial.distributions(rows)])
    if token >= log_p.shape[1]:
        return trial.passed("mask token", "it is not among the values", did)
    shares = log_p.exp().mean(0)
    share = float(shares[token])
    allowed = max(_LEAST, _TIMES_OTHERS * float(shares.median()))
    numbers = {"largest": share, "allowed": allowed, "n_masks": len(rows)}
    if share <= allowed:
        return trial.passed("mask token", f"it has a probability of {share:.1e}", did, **numbers)
    lost = float(-torch.log1p(-log_p[:, token].exp().clamp(max=1 - 1e-12)).mean())
    text = f"{share:.2%} of the probability goes to the mask token; hidden tokens are {lost:.2g} nats too low"
    return trial.finding("mask token", "failed", text, did, look_at=_LOOK_AT, **numbers)


_LOOK_AT = "the logit of the mask token, to be left out before the softmax (diffusion=mdlm, for example)"
