"""Engines that run what they are given: huggingface, vllm and simulated."""
