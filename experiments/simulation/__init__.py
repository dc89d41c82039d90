"""A sweep in virtual time: the same config, strategies, store and page, without Ray or a model."""
