"""The GPUs of this machine, counted without touching them: no context is made, so no memory is taken."""


def visible_gpus() -> int:
    """How many NVIDIA GPUs this process may use (CUDA_VISIBLE_DEVICES is heeded)."""
    import torch

    return int(torch.cuda.device_count())
