"""Small protein language models with random weights, and plain loops that score mutants."""

import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import maskevidence as me

RESIDUES = list("LAGVSERTIDPKQNFYMHWCXBUZO")
_SPECIAL = ["<cls>", "<pad>", "<eos>", "<unk>"]
_SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 44,
}


def esm_tokenizer(folder: Path) -> Any:
    """ESM's tokenizer: 33 tokens, split by its list of unsplittable tokens."""
    from transformers import EsmTokenizer

    (folder / "vocab.txt").write_text("\n".join([*_SPECIAL, *RESIDUES, ".", "-", "<null_1>", "<mask>"]))
    return EsmTokenizer(str(folder / "vocab.txt"))


def esm_c_tokenizer(_folder: Path) -> Any:
    """ESM-C's tokenizer: byte pairs without merges, and a special token for chain breaks."""
    from tokenizers import Tokenizer, models, processors
    from transformers import PreTrainedTokenizerFast

    words = [*_SPECIAL, *RESIDUES, ".", "-", "|", "<mask>"]
    cut = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<unk>"))
    cut.add_special_tokens(["<cls>", "<pad>", "<mask>", "<eos>", "|"])
    cut.post_processor = processors.TemplateProcessing(
        single="<cls> $A <eos>", pair="<cls> $A <eos> $B <eos>", special_tokens=[("<cls>", 0), ("<eos>", 2)]
    )
    named = {"cls_token": "<cls>", "pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=cut, mask_token="<mask>", **named)


def prot_bert_tokenizer(folder: Path) -> Any:
    """ProtBERT's tokenizer: residues are words, with spaces in between."""
    from transformers import BertTokenizer

    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *RESIDUES]))
    return BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False)


def protein_model(architecture: str, folder: Path) -> me.models.MaskedLM:
    """A small ESM, ESM-C or BERT with large random weights; it reads 42 residues (ESM-C: any number)."""
    import transformers

    tokenizers = {"Esm": esm_tokenizer, "Esmc": esm_c_tokenizer, "Bert": prot_bert_tokenizer}
    tokenizer = tokenizers[architecture](folder)
    special = {
        "pad_token_id": tokenizer.pad_token_id,
        "mask_token_id": tokenizer.mask_token_id,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    if architecture == "Esm":
        special |= {"position_embedding_type": "rotary", "token_dropout": True}
    config = getattr(transformers, f"{architecture}Config")(vocab_size=len(tokenizer), **_SHAPE | special)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = transformers.AutoModelForMaskedLM.from_config(config).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(0.0, 0.2)
    return me.models.MaskedLM(network, tokenizer)


def save_protein_model(folder: Path) -> None:
    """Save a very small BERT of residues in a new folder."""
    folder.mkdir()
    protein_model("Bert", folder).save(folder)


LogP = Callable[[str, Iterable[int], int, str], float]


def one_at_a_time(model: me.models.MaskedLM) -> LogP:
    """log p(letter at a site | letters, some hidden), by one network call with full logits per context."""
    known: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}

    def log_p(letters: str, hidden: Iterable[int], site: int, letter: str) -> float:
        key = letters, tuple(sorted(hidden))
        if key not in known:
            bert = "[MASK]" in model.tokenizer.get_vocab()
            ids = model.tokenizer(" ".join(letters) if bert else letters)["input_ids"]
            assert len(ids) == len(letters) + 2
            for place in key[1]:
                ids[place + 1] = model.mask_token_id
            with torch.no_grad():
                logits = model.network(input_ids=torch.tensor([ids])).logits
            known[key] = torch.log_softmax(logits[0, 1:-1].double(), dim=-1)
        return float(known[key][site, model.tokenizer.convert_tokens_to_ids(letter)])

    return log_p


def pseudo_log_likelihood(log_p: LogP, letters: str) -> float:
    return sum(log_p(letters, [site], site, letter) for site, letter in enumerate(letters))


def plain_scores(log_p: LogP, wild_type: str, mutant: str) -> dict[str, float]:
    """Every convention without random masks, each by its own loop."""
    sites = [j for j in range(len(wild_type)) if wild_type[j] != mutant[j]]

    def ratios(letters: str, hidden: Callable[[int], list[int]]) -> float:
        pairs = [(j, hidden(j)) for j in sites]
        return sum(log_p(letters, h, j, mutant[j]) - log_p(letters, h, j, wild_type[j]) for j, h in pairs)

    return {
        "wild-type-fill": ratios(wild_type, lambda j: [j]),
        "mutant-fill": ratios(mutant, lambda j: [j]),
        "match-fill": sum(
            log_p(mutant, [j], j, mutant[j]) - log_p(wild_type, [j], j, wild_type[j]) for j in sites
        ),
        "mask-fill": ratios(wild_type, lambda _: sites),
        "unmasked": ratios(wild_type, lambda _: []),
        "joint": evidence(log_p, mutant, sites) - evidence(log_p, wild_type, sites),
        "joint-mixture": mixture(log_p, mutant, sites) - mixture(log_p, wild_type, sites),
        "pll": pseudo_log_likelihood(log_p, mutant) - pseudo_log_likelihood(log_p, wild_type),
    }


def orders(log_p: LogP, letters: str, sites: list[int]) -> list[float]:
    """log p of the letters at the sites, filled in each order."""
    values = []
    for order in itertools.permutations(sites):
        left = list(order)
        total = 0.0
        for site in order:
            total += log_p(letters, left, site, letters[site])
            left.remove(site)
        values.append(total)
    return values


def evidence(log_p: LogP, letters: str, sites: list[int]) -> float:
    """The mean of log p over all orders."""
    values = orders(log_p, letters, sites)
    return sum(values) / len(values)


def mixture(log_p: LogP, letters: str, sites: list[int]) -> float:
    """The logarithm of the mean of p over all orders."""
    values = orders(log_p, letters, sites)
    return math.log(sum(map(math.exp, values)) / len(values))
