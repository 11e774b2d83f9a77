"""Devices: memory that runs out, precisions, compilation; and the same logits wherever they are computed."""

from typing import Any

import pytest
import torch

from glauber import MaskedLM, ModelError, ParameterError, devices, engines, load_model
from glauber.models import loading
from glauber.passages import read_passages, starting_states


def rows(lm: MaskedLM, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    states = torch.from_numpy(starting_states(lm.text.encode, read_passages(), 8, count).states)
    return states, torch.arange(count) % 8


def test_out_of_memory_halves_the_batch_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = load_model("glauber-tiny", device="cpu")
    states, positions = rows(lm, 21)
    wanted = lm.conditional_logits(states, positions)
    forward, sizes = lm._forward, []

    def small(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        sizes.append(len(states))
        if len(states) > 4:
            raise torch.OutOfMemoryError("planted")
        return forward(states, positions)

    monkeypatch.setattr(lm, "_forward", small)
    assert torch.allclose(lm.conditional_logits(states, positions), wanted, atol=1e-4)
    assert sizes[0] == 21
    assert max(sizes[-4:]) <= 4
    failures = sum(size > 4 for size in sizes)
    assert lm.conditional_logits(states, positions).shape == wanted.shape
    assert sum(size > 4 for size in sizes) == failures, "the smaller batch is remembered"


def test_a_row_that_does_not_fit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = load_model("glauber-tiny", device="cpu")

    def never(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("planted")

    monkeypatch.setattr(lm, "_forward", never)
    with pytest.raises(ModelError, match="one row of n = 8 tokens does not fit"):
        lm.conditional_logits(*rows(lm, 5))


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_logits_and_short_trajectories_agree_between_devices(device: str) -> None:
    here, cpu = (load_model("glauber-tiny", device=d, dtype="float64") for d in (device, "cpu"))
    states, positions = rows(cpu, 12)
    assert torch.allclose(
        here.conditional_logits(states, positions).cpu(), cpu.conditional_logits(states, positions), atol=1e-9
    )
    for engine in engines.ENGINES:
        traces = [engines.run(lm, states, temperature=0.7, steps=60, seed=4, engine=engine) for lm in (here, cpu)]
        assert (traces[0]["states"].values == traces[1]["states"].values).all()


def test_bfloat16_is_where_the_hardware_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for capabilities, there in (({"amx_tile": True}, True), ({"avx512_bf16": True}, True), ({"avx2": True}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda c=capabilities: c)
        assert devices.has_bfloat16(cpu) == there
    with pytest.raises(ParameterError, match="emulated"):
        devices.resolve_dtype("bfloat16", cpu)
    assert not devices.has_bfloat16(torch.device("mps"))


def test_bfloat16_logits_are_near_and_float32_in_type() -> None:
    cpu = torch.device("cpu")
    if not devices.has_bfloat16(cpu):
        with pytest.raises(ParameterError, match="emulated"):
            load_model("glauber-tiny", device="cpu", dtype="bfloat16")
        return
    half, full = (load_model("glauber-tiny", device="cpu", dtype=d) for d in ("bfloat16", "float32"))
    states, positions = rows(full, 12)
    near = half.conditional_logits(states, positions)
    assert near.dtype == torch.float32
    assert (near - full.conditional_logits(states, positions)).abs().median() < 0.2


def test_float64_is_refused_on_mps() -> None:
    with pytest.raises(ParameterError, match="does not exist on device 'mps'"):
        devices.resolve_dtype("float64", torch.device("mps"))


def test_compilation_is_for_cuda_and_leaves_the_hooks_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="needs a CUDA device"):
        load_model("glauber-tiny", device="cpu", compile_mode="default")
    # As on CUDA, with the compiler replaced by one that counts: the encoder alone goes through it.
    calls: list[str] = []

    def compiler(forward: Any, mode: str, dynamic: bool) -> Any:
        def compiled(*args: Any, **kwargs: Any) -> Any:
            calls.append(mode)
            return forward(*args, **kwargs)

        return compiled

    resolve = devices.resolve_device
    answers = iter([torch.device("cuda"), torch.device("cpu")])
    monkeypatch.setattr(loading, "resolve_device", lambda name: next(answers))
    monkeypatch.setattr(torch, "compile", compiler)
    lm = load_model("glauber-tiny", device="cuda", compile_mode="reduce-overhead")
    monkeypatch.setattr(loading, "resolve_device", resolve)
    states, positions = rows(lm, 6)
    plain = load_model("glauber-tiny", device="cpu").conditional_logits(states, positions)
    assert torch.allclose(lm.conditional_logits(states, positions), plain, atol=1e-5)
    assert calls == ["reduce-overhead"]


def test_memory_budget_is_positive_and_bounded() -> None:
    assert 2**26 <= devices.memory_budget(torch.device("cpu")) <= 2**30
