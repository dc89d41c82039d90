"""Engines that run what they are given: huggingface, huggingface-continuous, vllm and simulated."""
