"""Where a model runs and in which precision."""

import os

import torch

from .errors import ParameterError

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


def resolve_device(device: str) -> torch.device:
    """Turn ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps`` into a device that is there.

    Raises
    ------
    ParameterError
        If the device is unknown or absent on this machine.
    """
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if available[kind]))
    kind, colon, index = device.partition(":")
    if kind not in available or (colon and not index.isdecimal()):
        raise ParameterError(f"device {device!r} is unknown: give auto, cpu, cuda, cuda:0 or mps")
    if not available[kind] or (kind == "cuda" and index and int(index) >= torch.cuda.device_count()):
        raise ParameterError(f"device {device!r} is not on this machine: give auto to take what is there")
    return torch.device(device)


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Turn a dtype name into a torch dtype that the device computes in hardware.

    Raises
    ------
    ParameterError
        If the name is unknown or the device emulates that precision (or lacks it).
    """
    if dtype not in DTYPES:
        raise ParameterError(f"dtype {dtype!r} is unknown: give one of {', '.join(DTYPES)}")
    if dtype == "float64" and device.type == "mps":
        raise ParameterError("dtype 'float64' does not exist on device 'mps': give float32, or device cpu")
    if dtype == "bfloat16" and not has_bfloat16(device):
        raise ParameterError(f"dtype 'bfloat16' is emulated on this {device.type}, which is slow: give float32")
    return DTYPES[dtype]


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_tile") or capabilities.get("bf16"))
    return False


def memory_budget(device: torch.device) -> int:
    """Bytes that one batch of forwards may take: half of what is free on a GPU, at most 1 GiB on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) // 2
    free = (
        os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_AVPHYS_PAGES" in os.sysconf_names else 2**31
    )
    return min(2**30, max(2**26, free // 4))
