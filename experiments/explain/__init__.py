"""What theory says of a config before anything runs: as values, as tables, as a page, and as lines over a sweep."""
