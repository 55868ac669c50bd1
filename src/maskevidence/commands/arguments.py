"""The words MODEL and DATA, which several commands take in the same way."""

from typing import Annotated

from maskevidence.kinds.declaring import Argument

Model = Annotated[
    str,
    Argument(
        "MODEL",
        "gaussian, kernel-gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20, the folder of a "
        "saved model, or a masked language or image model (ViT-MAE): its folder, or OWNER/NAME on the "
        "Hugging Face hub.",
    ),
]
Data = Annotated[
    str,
    Argument(
        "DATA",
        "digits, mnist, fashion-mnist, cifar100 ..., a folder of images, or a .csv, .tsv, .parquet, .feather "
        "or .npy table, or the address of one (s3://...). Texts: a .txt, .jsonl, .csv or .parquet file, "
        "glue/qnli:validation ..., or hub:OWNER/NAME[/CONFIG]. :SPLIT at the end selects a split, as in "
        "mnist:test.",
    ),
]
