"""maskevidence score: the log evidence of a model on data."""

from typing import Annotated

import typer

from maskevidence.cli import cluster, options, output
from maskevidence.cli.images import ImageOptions
from maskevidence.cli.recording import record
from maskevidence.cli.rows import RowOptions
from maskevidence.cli.text import TextOptions, show_token_scores, token_scores
from maskevidence.errors import InputError
from maskevidence.masks import MaskKey, Masks
from maskevidence.runs import SAVE_EVERY, parse_shard, read_run
from maskevidence.tasks.parse import is_masked_image, is_masked_lm, parse_design
from maskevidence.tasks.prepare_rows import score_rows


def score(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="gaussian, ppca:8, factor-analysis:8, bernoulli-pca:2, vae:20, a saved model's folder, or a "
            "masked model of texts or images (ViT-MAE): its folder, or OWNER/NAME on the Hugging Face hub.",
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="digits, mnist:test and its kin, a folder of images, or a .csv, .npy or .parquet table; for "
            "texts a .txt, .jsonl, .csv or .parquet "
            "file, glue/qnli:validation and its kin, or hub:OWNER/NAME[/CONFIG][:SPLIT].",
        ),
    ],
    design: Annotated[
        str | None,
        typer.Option(
            "--design",
            help="every-size, random-size, orderings, leave-one-out, exhaustive, fixed-rate:0.15 "
            "or rates:0.01-0.99-0.01; by default every-size, and random-size for transformers.",
        ),
    ] = None,
    masks_per_size: Annotated[
        int | None, typer.Option("--masks-per-size", help="For every-size, fixed-rate, rates.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option("--draws", help="Masks per observation, for random-size.")
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option("--replicates", help="Independent offsets, for random-size; 4 give an error."),
    ] = None,
    orders: Annotated[int | None, typer.Option("--orders", help="Random orders, for orderings.")] = None,
    masks: Annotated[
        Masks, typer.Option("--masks", help="own: for each observation; shared: by all.")
    ] = "own",
    seed: options.Seed = 0,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="Masks in one call of the model.")
    ] = 1024,
    test_fraction: options.TestFraction = None,
    binarise: options.Binarise = None,
    column: options.Column = None,
    resize: options.Resize = None,
    skip_bad: options.SkipBad = False,
    density: options.Density = None,
    patch_statistics: options.PatchStatistics = None,
    calibration_fraction: options.CalibrationFraction = None,
    text: options.Text = None,
    context_field: options.ContextField = None,
    block_size: options.BlockSize = None,
    long: options.LongTexts = None,
    whole_words: options.WholeWords = False,
    per_token: options.PerToken = False,
    tokenizer: options.Tokenizer = None,
    batch_tokens: options.BatchTokens = None,
    device: options.Device = None,
    bf16: options.Bf16 = False,
    trust_remote_code: options.TrustRemoteCode = False,
    limit: options.Limit = None,
    threads: options.Threads = None,
    out: options.Out = None,
    overwrite: options.Overwrite = False,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="K/N", help="Score the K-th of N shares of the rows; see summarize."),
    ] = None,
    save_every: Annotated[
        float,
        typer.Option("--save-every", min=0.0, metavar="SECONDS", help="How often to save scores in --out."),
    ] = SAVE_EVERY,
    engine: cluster.EngineName = "local",
    address: cluster.Address = None,
    workers: cluster.Workers = None,
    gpus_per_worker: cluster.GpusPerWorker = None,
    json: options.Json = None,
) -> None:
    """Estimate the log evidence of MODEL on DATA, with error bars and the curve over mask sizes.

    With --out the scores are saved as they are made: a run that was killed goes on with the same command, and
    one with larger --draws, --orders or --masks-per-size adds to what is there.

    A model word such as `ppca:8` is fitted to a training part of the rows and scored on the rest; the folder
    of a saved model is scored as it is. Standard errors: of the masks (Monte Carlo), and of the observations.

    Examples:

        maskevidence score ppca:8 digits

        maskevidence score gaussian table.csv --design orderings --orders 16 --out runs/a

        maskevidence score runs/a/model table.csv --design leave-one-out --json -

        maskevidence score google-bert/bert-base-uncased glue/qnli:validation --text question,sentence

        maskevidence score runs/a/model table.csv --out runs/b --engine ray --workers 8
    """
    where = cluster.ClusterOptions(engine, address, workers, gpus_per_worker)
    where.check(out)
    options.use_threads(threads)
    rows = RowOptions(test_fraction, binarise, column, resize, skip_bad)
    texts = TextOptions(
        text,
        context_field,
        block_size,
        long,
        whole_words,
        per_token,
        tokenizer,
        batch_tokens,
        device,
        bf16,
        trust_remote_code,
    )
    images = ImageOptions(density, patch_statistics, calibration_fraction, device, batch_tokens)
    of_images = is_masked_image(model)
    of_texts = not of_images and is_masked_lm(model)
    mask_design = parse_design(
        design or ("random-size" if of_texts or of_images else "every-size"),
        masks_per_size=masks_per_size,
        draws=draws,
        replicates=replicates,
        orders=orders,
    )
    if of_images:
        texts.refuse(model, but=("device", "batch_tokens"), kind="a model of images")
        ready = images.prepare(model, data, rows, limit, seed, out)
    elif of_texts:
        images.refuse(model)
        rows.refuse("texts", ("test_fraction", "binarise", "column", "resize", "skip_bad"))
        ready = texts.prepare(model, data, mask_design, limit)
    else:
        images.refuse(model)
        texts.refuse(model)
        ready = rows.prepare(model, data, limit, seed)
    screen = output.console(json)
    if out is None:
        if shard is not None:
            raise InputError("--shard needs --out, a folder of its own for each shard")
        result, estimate = score_rows(ready, mask_design, seed=seed, masks=masks, batch_size=batch_size)
        output.show_estimate(screen, result)
    else:
        result = record(
            screen,
            ready,
            model,
            data,
            mask_design,
            MaskKey(seed, masks),
            out,
            shard=(1, 1) if shard is None else parse_shard(shard),
            overwrite=overwrite,
            batch_size=batch_size,
            save_every=save_every,
            options={
                "limit": limit,
                "column": column,
                "resize": resize,
                "skip_bad": skip_bad,
                "binarise": binarise,
                "block_size": block_size,
                "context_field": context_field,
            },
            engine=where.build(ready, threads),
        )
    if per_token:
        scores = estimate.scores if out is None else read_run(out).estimate.scores
        result = result | {"tokens": token_scores(ready, scores)}
        show_token_scores(screen, result["tokens"], out)
    output.write_json(result, json)
