"""Small masked language models of all architectures, with random weights, and rows of random tokens."""

import warnings
from typing import Any

import torch

from maskevidence.core.tokens import Tokens

N_IDS, MASK, LONGEST = 96, 5, 66
COMMON = {
    "vocab_size": N_IDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
# architecture -> its entries on top of the common configuration
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Albert": {"embedding_size": 16},
    "Bert": {},
    "BigBird": {},
    "Camembert": {"pad_token_id": 1},
    "ConvBert": {"embedding_size": 32, "head_ratio": 2, "conv_kernel_size": 5},
    "Deberta": RELATIVE,
    "DebertaV2": RELATIVE | {"position_buckets": 16},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "Electra": {"embedding_size": 16},
    "Esm": {
        "pad_token_id": 1,
        "mask_token_id": MASK,
        "position_embedding_type": "rotary",
        "token_dropout": True,
    },
    "FNet": {},
    "Longformer": {"pad_token_id": 1, "attention_window": 8},
    "MPNet": {"pad_token_id": 1},
    "MegatronBert": {},
    "MobileBert": {"embedding_size": 32, "intra_bottleneck_size": 32},
    "ModernBert": {
        "global_attn_every_n_layers": 2,
        "local_attention": 16,
        "cls_token_id": 2,
        "sep_token_id": 3,
    },
    "RemBert": {"input_embedding_size": 16, "output_embedding_size": 24},
    "RoFormer": {"embedding_size": 32},
    "Roberta": {"pad_token_id": 1},
    "XLM": {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "n_words": N_IDS, "pad_index": 0},
    "XLMRoberta": {"pad_token_id": 1},
}


def network(architecture: str) -> Any:
    """A small model with large random weights, so that its predictions differ strongly between tokens."""
    import transformers

    config = getattr(transformers, f"{architecture}Config")(**COMMON | ARCHITECTURES[architecture])
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers warns about initial values, which are replaced here
        torch.manual_seed(0)
        model = transformers.AutoModelForMaskedLM.from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.15)
    return model


def some_tokens(lengths: list[int], seed: int = 0) -> Tokens:
    """Rows of random ids: the first and last tokens are context, the rest of the width is padding."""
    generator = torch.Generator().manual_seed(seed)
    width, n = max(lengths) + 2, torch.tensor(lengths)[:, None]
    values = torch.randint(6, N_IDS, (len(lengths), width), generator=generator)
    column = torch.arange(width)
    maskable = (column >= 1) & (column <= n)
    context = (column == 0) | (column == n + 1)
    return Tokens(values, maskable, context, torch.arange(len(lengths)))
