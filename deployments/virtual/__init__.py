"""Strategies in virtual time: what a step takes, on which hardware, and what runs through it."""
