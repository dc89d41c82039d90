"""What came out: records, store, metrics, verdicts, statistics and the page."""
