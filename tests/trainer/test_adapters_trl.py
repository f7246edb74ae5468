"""TRL's own loss on what the adapters hand over: the loss and the gradient of the steps, one by one."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._adapted import VOCABULARY, kept, optimizer_step

from stepwell.reader.adapters import to_trl_async, to_trl_grpo, to_trl_sft

WHY = "TRL is not installed here: pip install trl==1.16.0 into .tools/trainer to run this"
pytest.importorskip("trl", reason=WHY)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return kept(tmp_path_factory.mktemp("adapted"))


@pytest.fixture
def model() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = import_module("transformers")
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        yield transformers.LlamaForCausalLM(
            transformers.LlamaConfig(vocab_size=VOCABULARY, **sizes, attn_implementation="sdpa")
        ).double()


def reference(model: Any, batches: Any, term: Any) -> tuple[float, Any]:
    """Each step alone, unpadded: the weighted sum of its terms, and the gradient of the first layer's weights."""
    total = torch.zeros((), dtype=torch.float64)
    for pack in batches:
        for row in range(len(pack.step_index)):
            ids = torch.from_numpy(pack.sequence(row)).long()
            own = slice(int(pack.occurrence_offsets[row]), int(pack.occurrence_offsets[row + 1]))
            at = pack.position_ids[pack.target_position[pack.occurrence_target[own]]]
            logits = model(ids[None]).logits[0].log_softmax(-1)
            new = logits[torch.from_numpy(at).long() - 1, ids[torch.from_numpy(at).long()]]
            values = [
                None if values is None else torch.from_numpy(values[own]).double()
                for values in (pack.old_logprob, pack.advantage)
            ]
            total = total + (torch.from_numpy(pack.weight[own]).double() * term(new, *values)).sum()
    return graded(model, total)


def graded(model: Any, loss: Any) -> tuple[float, Any]:
    (gradient,) = torch.autograd.grad(loss, [model.model.layers[0].self_attn.q_proj.weight])
    return float(loss), gradient


def assert_same(found: tuple[float, Any], wanted: tuple[float, Any]) -> None:
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)
    assert float((found[1] - wanted[1]).norm() / wanted[1].norm()) < 1e-5


def ppo(new: Any, old: Any, advantage: Any) -> Any:
    ratio = (new - old).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)


def grpo_trainer(loss_type: str) -> Any:
    """`GRPOTrainer` with the settings that its loss looks at, and nothing that generates."""
    trl = import_module("trl")
    trainer = object.__new__(trl.GRPOTrainer)
    given = {
        "args": trl.GRPOConfig(output_dir="unused", report_to=[], use_cpu=True, bf16=False, steps_per_generation=1),
        "loss_type": loss_type,
        "accelerator": import_module("accelerate").Accelerator(cpu=True),
        "current_gradient_accumulation_steps": 1,
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
        "beta": 0.0,
        "temperature": 1.0,
        "top_entropy_quantile": 1.0,
        "importance_sampling_level": "token",
        "off_policy_mask_threshold": None,
        "use_vllm": False,
        "aux_loss_enabled": False,
        "_entropy_bonus_enabled": False,
        "model_kwarg_keys": set(),
        "_metrics": {"train": defaultdict(list)},
    }
    for name, value in given.items():
        object.__setattr__(trainer, name, value)
    return trainer


def patched(model: Any) -> None:
    """As the trainer patches it when it is made."""
    import_module("trl.trainer.utils").add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))


@pytest.mark.parametrize("merge", ["trajectory", "none"])
@pytest.mark.parametrize("loss", ["token-mean", "sequence-mean", "trajectory-mean"])
@pytest.mark.parametrize(("loss_type", "mean"), [("dapo", "token-mean"), ("grpo", "row-mean")])
def test_grpo(uri: str, model: Any, merge: Any, loss: Any, loss_type: str, mean: Any) -> None:
    batches = optimizer_step(uri, merge=merge, loss=loss)
    inputs = {name: torch.from_numpy(values) for name, values in to_trl_grpo(batches, pad=0, mean=mean).items()}
    wanted = reference(model, batches, ppo)
    trainer = grpo_trainer(loss_type)
    trainer.model = model.train()
    patched(model)
    assert_same(graded(model, trainer._compute_loss(model, inputs)), wanted)


def test_sft(uri: str, model: Any) -> None:
    batches = optimizer_step(uri, advantage=None, old_logprobs=False)
    collator = import_module("trl.trainer.sft_trainer").DataCollatorForLanguageModeling
    inputs = collator(pad_token_id=0)(to_trl_sft(batches))
    found = graded(model, model(**inputs).loss)
    assert_same(found, reference(model, batches, lambda new, *_: -new))


def test_async_grpo_knows_the_fields(uri: str) -> None:
    worker = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker", exc_type=ImportError)
    samples = [worker.RolloutSample(**one) for one in to_trl_async(optimizer_step(uri))]
    assert {sample.group_id for sample in samples} == {0, 1, 2}
