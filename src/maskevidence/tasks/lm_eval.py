"""maskevidence lm-eval: EleutherAI's lm-evaluation-harness with masked and diffusion language models."""

import typer


def lm_eval(context: typer.Context) -> None:
    """Evaluate a masked or diffusion language model in EleutherAI's lm-evaluation-harness.

    All arguments are those of `lm_eval`, and are handed on: --tasks, --limit, --num_fewshot, --output_path,
    --log_samples, --use_cache, --apply_chat_template, --device ... Added to them are --model maskevidence and
    --batch_size auto. --model_args takes pretrained=, and among others target=decision:0.995, masks=64,
    seed=0, score=evidence|mixture|pll|llada, dtype=, mask_id=, steps=, block_length=.

    The Monte-Carlo errors of the metrics and the ties are printed below the harness's table, and with
    --output_path written to evidence.json beside the results. lm-eval 0.4.13 loads no models by entry point:
    `lm_eval --model maskevidence` does not find this one, which later releases may.
    `maskevidence lm-eval run --help` lists the arguments of the harness.

    Examples:

        maskevidence lm-eval --model_args pretrained=answerdotai/ModernBERT-base --tasks arc_easy --limit 100
        maskevidence lm-eval --model_args pretrained=runs/bert,target=64 --tasks wikitext
        --output_path out
    """
    from maskevidence.integrations.lm_eval.harness import run_harness

    if not context.args:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    run_harness(context.args)
