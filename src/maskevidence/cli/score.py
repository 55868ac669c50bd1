"""maskevidence score: the log evidence of a model on data."""

from typing import Annotated

import typer

from maskevidence.cli import options, output
from maskevidence.cli.text import TextOptions, show_token_scores, token_scores
from maskevidence.errors import InputError
from maskevidence.held_out import fit_held_out, score_rows, use_saved
from maskevidence.masks import MaskKey, Masks
from maskevidence.models.saving import fingerprint
from maskevidence.report import write_summary
from maskevidence.runs import (
    SAVE_EVERY,
    DataSource,
    Manifest,
    RunDirectory,
    parse_shard,
    read_run,
    record_run,
    rows_per_block,
)
from maskevidence.specs import is_masked_lm, parse_data, parse_design, parse_model


def score(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="gaussian, ppca:8, factor-analysis:8, a saved model's folder, or a masked language model: "
            "its folder, or OWNER/NAME on the Hugging Face hub.",
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="digits, or a .csv, .npy or .parquet table; for texts a .txt, .jsonl, .csv or .parquet "
            "file, glue/qnli:validation and its kin, or hub:OWNER/NAME[/CONFIG][:SPLIT].",
        ),
    ],
    design: Annotated[
        str | None,
        typer.Option(
            "--design",
            help="every-size, random-size, orderings, leave-one-out, exhaustive, fixed-rate:0.15 "
            "or rates:0.01-0.99-0.01; by default every-size, and random-size for texts.",
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
    test_fraction: Annotated[
        float | None,
        typer.Option(
            "--test-fraction",
            help="Share of the rows held out and scored. A model that is fitted first has 0.2, a saved one "
            "scores all rows unless this is given.",
        ),
    ] = None,
    seed: options.Seed = 0,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="Masks in one call of the model.")
    ] = 1024,
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
    """
    options.use_threads(threads)
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
    of_texts = is_masked_lm(model)
    mask_design = parse_design(
        design or ("random-size" if of_texts else "every-size"),
        masks_per_size=masks_per_size,
        draws=draws,
        replicates=replicates,
        orders=orders,
    )
    source_fingerprint = None
    fitted = False
    if of_texts:
        if test_fraction is not None:
            raise InputError(
                "--test-fraction belongs to tables of numbers; choose a split of the texts instead"
            )
        ready = texts.prepare(model, data, mask_design, limit)
    else:
        build, saved = parse_model(model)
        texts.refuse(model)
        rows = parse_data(data, limit)
        fitted = build is not None
        if build is not None:
            test_fraction = 0.2 if test_fraction is None else test_fraction
            ready = fit_held_out(build, rows, test_fraction, seed)
            source_fingerprint = rows.fingerprint()
        else:
            ready = use_saved(saved, rows, test_fraction, seed)
    screen = output.console(json)
    if out is None:
        if shard is not None:
            raise InputError("--shard needs --out, a folder of its own for each shard")
        result, estimate = score_rows(ready, mask_design, seed=seed, masks=masks, batch_size=batch_size)
        output.show_estimate(screen, result)
        if per_token:
            result["tokens"] = token_scores(ready, estimate.scores)
            show_token_scores(screen, result["tokens"], out)
        output.write_json(result, json)
        return
    tokens = ready.table.tokens()
    key = MaskKey(seed, masks)
    manifest = Manifest(
        model=model,
        model_fingerprint=None if fitted else fingerprint(ready.model),
        conditionals=ready.model.conditionals,
        data=DataSource(
            name=data,
            fingerprint=ready.table.fingerprint(),
            source_fingerprint=source_fingerprint,
            text_fingerprint=getattr(ready.table, "text_fingerprint", None),
            n_observations=len(ready.table),
            columns=list(ready.table.columns),
            test_fraction=test_fraction,
            notes=list(ready.notes),
        ),
        design=mask_design.settings(),
        masks=masks,
        seed=seed,
        shard=(1, 1) if shard is None else parse_shard(shard),
        rows_per_block=rows_per_block(ready.model, tokens, mask_design, key),
    )
    folder = RunDirectory(out)
    n_scored = record_run(
        folder,
        manifest,
        ready.model,
        tokens,
        fitted=fitted,
        overwrite=overwrite,
        batch_size=batch_size,
        save_every=save_every,
    )
    finished = folder.estimate() if n_scored == 0 else None
    if finished is not None:
        result = finished
        output.show_estimate(screen, result)
        screen.print(f"This run in {folder.path} was finished before; --overwrite makes it anew.")
    else:
        run = read_run(out)
        result = run.result()
        missing = write_summary(folder, run, result)
        output.show_estimate(screen, result)
        screen.print(f"Left in {folder.path}: {', '.join(folder.files())}")
        if missing:
            screen.print(missing)
    if per_token:
        result = result | {"tokens": token_scores(ready, read_run(out).estimate.scores)}
        show_token_scores(screen, result["tokens"], out)
    output.write_json(result, json)
