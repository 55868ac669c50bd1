"""maskevidence variants: mutants of a protein scored by every convention."""

from typing import Annotated

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.kinds.declaring import Argument
from maskevidence.kinds.options import CheckpointOptions, Common, TextDevice
from maskevidence.show.terminal import print_page
from maskevidence.tasks.variant_options import VariantOptions


def variants(
    model: Annotated[
        str, Argument("MODEL", "A masked language model of proteins, DNA or RNA: its folder, or OWNER/NAME.")
    ],
    data: Annotated[
        str, Argument("MUTANTS", "A .csv, .parquet or .jsonl table with a column mutant or mutated_sequence.")
    ],
    options: VariantOptions,
    checkpoint: CheckpointOptions,
    device: TextDevice,
    common: Common,
) -> None:
    """Score MUTANTS of a wild type under MODEL by every convention, each distinct context in one pass.

    A score above 0 says that the model prefers the mutant to the wild type. `wild-type-fill` and `unmasked`
    are known as masked marginals and wild-type marginals; docs/proteins.md says what each convention hides,
    and why they fall apart where mutated sites are neighbours. With `--measured`, each has Spearman's rank
    correlation with the measured effect, and its bootstrap interval over the mutants.

    Examples:

        maskevidence variants facebook/esm2_t12_35M_UR50D dms.csv --wild-type wt.fasta --measured DMS_score

        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --start 24 --conventions all --plan

        maskevidence variants runs/protein dms.csv --wild-type wt.fasta --conventions joint,pll --out scores
    """
    use_threads(common.threads)
    from maskevidence.tasks.variants import score_variants

    result = score_variants(model, data, options, checkpoint, device)
    screen = output.console(common.json)
    print_page(screen, result.page())
    if options.out is not None and result.scores is not None:
        screen.print(f"Written to {options.out}: variants.csv, variants.json")
    scores = {} if result.scores is None else {"scores": result.scores.rows()}
    output.write_json(result.to_dict() | scores, common.json)
