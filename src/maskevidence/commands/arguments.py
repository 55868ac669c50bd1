"""The words MODEL and DATA, which several commands take in the same way."""

from typing import Annotated

from maskevidence.kinds.declaring import Argument

Model = Annotated[
    str,
    Argument(
        "MODEL",
        "masked-net, gaussian, kernel-gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20, or a "
        "saved model or transformer: its folder, or OWNER/NAME on the hub; or your own FILE.py:FUNCTION.",
    ),
]
Data = Annotated[
    str,
    Argument(
        "DATA",
        "digits, mnist:test, glue/qnli:validation ..., a .csv, .parquet or .npy table or its address, a .txt "
        "or .jsonl file, a folder of images, or hub:OWNER/NAME[/CONFIG][:SPLIT].",
    ),
]
