"""`batchyard explain`: what theory says of a config before anything runs."""

from experiments.commands.arguments import RESULTS, AsJson, Config, Force, PageFile, Results
from experiments.commands.step_times import CalibrationFile, Hardware, step_times
from experiments.console import emit, one_line_errors, show, tell

EXAMPLES = (
    "Examples:  batchyard explain experiments/configs/full.yaml --hardware H200  ·  "
    "batchyard explain my.yaml -o theory.html  ·  "
    "batchyard explain my.yaml --calibration results/data/local-0123456789ab/calibration.json --json"
)


def explain(
    config: Config,
    hardware: Hardware = None,
    calibration: CalibrationFile = None,
    output: PageFile = None,
    force: Force = False,
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Say what theory says of a sweep before anything runs: capacities, waits and batches at each rate.

    Step times: --hardware, else --calibration, else what a sweep of this config measured, else the defaults of the
    simulated engine. Nothing is started, no model is loaded and no hub asked.
    """  # fmt: skip
    with one_line_errors():
        from experiments.config import load
        from experiments.explain.explanation import explain as derive
        from experiments.explain.explanation import to_dict
        from experiments.explain.text import text
        from results.output_file import check_output
        from results.report.frame import is_page

        if output is not None:
            check_output(output, force=force, ours=is_page)
        loaded = load(config).on_any_gpu()
        for warning in loaded.warnings:
            tell(f"warning: {config}: {warning}")
        times = step_times(loaded, "explain", hardware, calibration, results)
        explanation = derive(loaded, times.bases, times.rates)
        if as_json:
            emit({**to_dict(explanation), "page": None if output is None else str(output)})
        else:
            for line in text(explanation):
                show(line)
        if output is not None:
            from experiments.explain.page import write

            write(explanation, output)
            (tell if as_json else show)(f"page: {output}")
