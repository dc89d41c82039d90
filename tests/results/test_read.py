"""Tables for notebooks: what counts, with a schema that says what each column is."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from results.errors import StoreError
from results.metrics import with_metrics
from results.read import SCHEMAS, read
from results.records import METRICS, REQUESTS, SETTINGS, Trial
from results.schema_page import schema_page
from results.store import Store
from results.summary import find
from results.trial_table import TRIALS

ROOT = Path(__file__).parent.parent.parent


def test_the_tables_have_the_schema_that_is_documented(made_store: Store):
    rows = read(made_store.root)
    for name, schema in SCHEMAS.items():
        assert getattr(rows, name).schema.equals(schema, check_metadata=True), name
    assert rows.requests.num_rows == made_store.requests().num_rows
    assert rows.batches.num_rows == made_store.batches().num_rows
    assert rows.trials.num_rows == len(made_store.trials())
    assert rows.failures.to_pylist() == [
        {"sweep": Path(made_store.root).name}
        | made_store.failures()[0].model_dump(exclude={"schema_version", "lane_time"})
    ]
    assert rows.problems == ()


def test_a_notebook_can_go_on_in_pandas(made_store: Store):
    frame = read(made_store.root).requests.to_pandas()
    np.testing.assert_allclose(frame["e2e_s"], frame["last_token_s"] - frame["planned_s"])
    assert frame["max_wait_ms"].isna().any(), "unknown is not 0"


def test_the_metrics_of_a_request_are_those_that_are_computed():
    computed = with_metrics(REQUESTS.empty_table()).column_names[len(REQUESTS) :]
    assert computed == [field.name for field in METRICS]


def test_a_trial_has_every_fact_and_every_metric(made_store: Store):
    summaries = find(made_store).trials
    metrics = {name for summary in summaries for name in summary.metrics}
    facts = set(Trial.model_fields) - {"schema_version", "clock", "warm_up", "lane_time"}
    settings = {field.name for field in SETTINGS}
    lane = {"lane_held_s", "lane_gpus", "lane_kind", "cost_per_million_tokens"}  # that without a price
    clock = {"clock_offset_s", "clock_uncertainty_s", "clock_drift_s"}
    warm_up = {"warm_up_s", "warm_up_batches", "warm_up_settled", "warm_up_step_s"}
    assert set(TRIALS.names) == facts | warm_up | settings | clock | lane | metrics | {"verdicts", "goodput"}

    of_cell = {row["cell_id"]: row for row in read(made_store.root).trials.to_pylist()}
    for summary in summaries:
        row = of_cell[summary.trial.cell_id]
        assert row["verdicts"] == [verdict.name for verdict in summary.verdicts]
        assert {name: row[name] for name in metrics} == dict(summary.metrics)
        assert row["max_batch_size"] == 8
        assert row["clock_drift_s"] == summary.trial.clock.drift_s


def test_several_sweeps_are_told_apart(made_sweep: ModuleType, tmp_path: Path):
    for name in ("one", "two"):
        made_sweep.make_sweep(tmp_path / name, repeats=1, requests=4)
    rows = read([tmp_path / "one", str(tmp_path / "two")])
    assert rows.requests["sweep"].value_counts().to_pylist() == [
        {"values": name, "counts": rows.requests.num_rows // 2} for name in ("one", "two")
    ]
    assert read(tmp_path / "one").requests.num_rows == rows.requests.num_rows // 2
    with pytest.raises(StoreError, match="each sweep may be given once, got one twice"):
        read([tmp_path / "one", tmp_path / "two" / ".." / "one"])


def test_one_config_measured_in_several_places_is_told_apart(made_sweep: ModuleType, tmp_path: Path):
    folders = [tmp_path / place for place in ("a/data/local-0", "b/data/local-0", "b/data/other-1")]
    for folder in folders:
        made_sweep.make_sweep(folder, repeats=1, rates=(1.0,), requests=4)
    for table in (rows := read(folders)).requests, rows.batches, rows.trials, rows.failures:
        assert table["sweep"].unique().to_pylist() == ["a/data/local-0", "b/data/local-0", "other-1"]
    assert read(folders[1:]).trials["sweep"].unique().to_pylist() == ["local-0", "other-1"]
    (tmp_path / "link").symlink_to(folders[0])
    for same in (folders[0], tmp_path / "a" / ".." / "a" / "data" / "local-0", tmp_path / "link"):
        with pytest.raises(StoreError, match="each sweep may be given once, got local-0 twice"):
            read([folders[0], same])


def test_a_sweep_that_has_just_begun_has_no_rows_yet(tmp_path: Path):
    Store(tmp_path).write_sweep({"name": "made"})
    rows = read(tmp_path)
    assert (rows.requests.num_rows, rows.batches.num_rows, rows.trials.num_rows) == (0, 0, 0)


def test_what_cannot_be_read_is_told(made_sweep: ModuleType, tmp_path: Path):
    made_sweep.make_sweep(tmp_path, repeats=1, requests=4)
    next(iter(sorted(tmp_path.rglob("requests-00001.parquet")))).unlink()
    with pytest.warns(UserWarning, match="set aside"):
        rows = read(tmp_path)
    (problem,) = rows.problems
    assert "requests-00001.parquet" in problem
    assert rows.trials.num_rows == len({*rows.requests["cell_id"].to_pylist()})


def test_a_folder_that_is_no_sweep(tmp_path: Path):
    with pytest.raises(StoreError, match=r"does not exist"):
        read(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_every_column_says_what_it_is():
    for schema in SCHEMAS.values():
        for field in schema:
            says = {key.decode(): value.decode() for key, value in field.metadata.items()}
            assert says["description"].endswith("."), field.name
            if field.name.endswith("_per_s"):
                assert says["unit"].endswith("/s"), field.name
            elif field.name.endswith("_s"):
                assert says["unit"] == "s", field.name
            if field.name.endswith(("_tokens", "_bytes", "_ms")) and "_per_" not in field.name:
                assert says["unit"] == field.name.rpartition("_")[2], field.name


def test_the_schema_page_is_up_to_date():
    assert (ROOT / "docs" / "SCHEMA.md").read_text(encoding="utf-8") == schema_page(), (
        "batchyard schema --rows > docs/SCHEMA.md"
    )


def test_part_files_say_what_their_columns_are(made_store: Store):
    import pyarrow.parquet as pq

    part = next(iter(sorted(Path(made_store.root).rglob("requests-00000.parquet"))))
    assert pq.read_schema(part).field("planned_s").metadata[b"unit"] == b"s"


def test_rows_of_a_file_without_metadata_are_read_too(made_store: Store):
    bare = pa.schema([field.remove_metadata() for field in REQUESTS])
    assert made_store.requests().schema.equals(bare)


def test_reading_imports_neither_ray_nor_an_engine(made_store: Store):
    code = (
        f"import sys; from results.read import read; read({made_store.root!r})\n"
        "print({'ray', 'torch', 'transformers', 'vllm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "set()\n"
