"""SGD, LARS, LAMB and AdamW, fused or in few passes over all parameters; none decays norms and biases.

The learning rate is one tensor on the device, so that compiled and captured steps see it change without a new compilation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from common.labels import Wrong

KINDS = ("sgd", "lars", "lamb", "adamw")
States = dict[str, list[Tensor]]  # what is kept for each parameter, by name


class Optimizer:
    """An optimizer with its learning rate; `masters` keeps fp32 copies of parameters that are bf16 themselves."""

    def __init__(
        self,
        kind: str,
        model: nn.Module,
        *,
        weight_decay: float,
        momentum: float = 0.9,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        trust: float = 0.001,
        masters: bool = False,
    ) -> None:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.masters = [parameter.detach().float().clone() for parameter in self.parameters] if masters else self.parameters
        self.rate = torch.zeros((), device=self.parameters[0].device)
        self.kind = kind
        groups, fused = _groups(self.masters, weight_decay), self.rate.device.type in ("cpu", "cuda")
        if kind == "sgd":
            rest: dict[str, Any] = {"fused": fused or None}
            self.inner: Any = torch.optim.SGD(groups, lr=self.rate, momentum=momentum, nesterov=momentum > 0, **rest)
        elif kind == "adamw":
            rest = {"fused": True} if fused else {"capturable": True}  # else a rate on the device is fetched for each parameter
            self.inner = torch.optim.AdamW(groups, lr=self.rate, betas=betas, eps=eps, **rest)
        elif kind == "lars":
            self.inner = Lars(groups, self.rate, momentum, trust)
        elif kind == "lamb":
            self.inner = Lamb(groups, self.rate, betas, eps)
        else:
            raise Wrong(f"`{kind}` is no optimizer. Take one of {', '.join(KINDS)}.")

    def compile(self) -> None:
        """Compiles the update where it is ours; PyTorch's own are fused already."""
        if isinstance(self.inner, (Lars, Lamb)):
            self.inner.update = torch.compile(self.inner.update, dynamic=False)

    @torch.no_grad()
    def step(self) -> None:
        if self.masters is self.parameters:
            self.inner.step()
            return
        for master in self.masters:
            master.grad = torch.empty_like(master) if master.grad is None else master.grad
        torch._foreach_copy_([master.grad for master in self.masters], [parameter.grad for parameter in self.parameters])
        self.inner.step()
        torch._foreach_copy_(self.parameters, self.masters)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        masters = self.masters if self.masters is not self.parameters else []
        return {"kind": self.kind, "inner": self.inner.state_dict(), "masters": masters}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        masters = self.masters if self.masters is not self.parameters else []
        if state["kind"] != self.kind or len(state["masters"]) != len(masters):
            raise ValueError(f"the state of {state['kind']} is none of {self.kind}")
        self.inner.load_state_dict(state["inner"])
        for group in self.inner.param_groups:
            group["lr"] = self.rate
        with torch.no_grad():
            for own, saved in zip(masters, state["masters"]):
                own.copy_(saved)


def _groups(parameters: Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and kernels, which decay and are scaled by trust; norms and biases, which are not."""
    all_of_them = list(parameters)
    decayed = [parameter for parameter in all_of_them if parameter.ndim > 1]
    plain = [parameter for parameter in all_of_them if parameter.ndim <= 1]
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": weight_decay, "trusted": True},
        {"params": plain, "weight_decay": 0.0, "trusted": False},
    ]
    return [group for group in groups if group["params"]]


class _Foreach(torch.optim.Optimizer):
    """An optimizer that updates a whole group at once; `update` is what can be compiled."""

    names: tuple[str, ...] = ()  # of the tensors that it keeps for each parameter
    update: Any

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in parameters:
                if not self.state[parameter]:
                    self.state[parameter].update(self.fresh(parameter))
            states = {name: [self.state[parameter][name] for parameter in parameters] for name in self.names}
            self.update(parameters, [parameter.grad for parameter in parameters], states, group)

    def fresh(self, parameter: Tensor) -> dict[str, Tensor]:
        return {name: torch.zeros_like(parameter) for name in self.names}


class Lars(_Foreach):
    """Layer-wise adaptive rates (You et al. 2017) with momentum; as in MLPerf's reference, the rate is inside of it."""

    names = ("momentum",)

    def __init__(self, groups: list[dict[str, Any]], rate: Tensor, momentum: float, trust: float) -> None:
        super().__init__(groups, {"lr": rate, "momentum": momentum, "trust": trust})
        self.update = lars_update


def lars_update(parameters: list[Tensor], gradients: list[Tensor], states: States, group: dict[str, Any]) -> None:
    decay = group["weight_decay"]
    changes = torch._foreach_add(gradients, parameters, alpha=decay) if decay else list(gradients)
    if group["trusted"]:
        weights, slopes = torch._foreach_norm(parameters), torch._foreach_norm(gradients)
        ratios = [_ratio(w, s + decay * w + 1e-9, group["trust"]) * group["lr"] for w, s in zip(weights, slopes)]
        changes = torch._foreach_mul(changes, ratios)
    else:
        changes = torch._foreach_mul(changes, group["lr"])
    torch._foreach_mul_(states["momentum"], group["momentum"])
    torch._foreach_add_(states["momentum"], changes)
    torch._foreach_sub_(parameters, states["momentum"])


class Lamb(_Foreach):
    """Layer-wise adaptive moments (You et al. 2019) with bias correction and decoupled decay."""

    names = ("mean", "square", "count")

    def __init__(self, groups: list[dict[str, Any]], rate: Tensor, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, {"lr": rate, "betas": betas, "eps": eps})
        self.update = lamb_update

    def fresh(self, parameter: Tensor) -> dict[str, Tensor]:
        return {**super().fresh(parameter), "count": torch.zeros((), device=parameter.device)}


def lamb_update(parameters: list[Tensor], gradients: list[Tensor], states: States, group: dict[str, Any]) -> None:
    (first, second), rate = group["betas"], group["lr"]
    means, squares, counts = states["mean"], states["square"], states["count"]
    torch._foreach_add_(counts, 1)  # all of a group have taken the same number of steps
    torch._foreach_lerp_(means, gradients, 1 - first)
    torch._foreach_mul_(squares, second)
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
    roots = torch._foreach_div(squares, 1 - second ** counts[0])
    torch._foreach_sqrt_(roots)
    torch._foreach_add_(roots, group["eps"])
    changes = torch._foreach_div(means, 1 - first ** counts[0])
    torch._foreach_div_(changes, roots)
    if group["weight_decay"]:
        torch._foreach_add_(changes, parameters, alpha=group["weight_decay"])
    if group["trusted"]:
        weights, sizes = torch._foreach_norm(parameters), torch._foreach_norm(changes)
        torch._foreach_mul_(changes, [_ratio(w, s, 1.0) * rate for w, s in zip(weights, sizes)])
    else:
        torch._foreach_mul_(changes, rate)
    torch._foreach_sub_(parameters, changes)


def _ratio(weight: Tensor, change: Tensor, trust: float) -> Tensor:
    """How far a layer may go for its size; 1 where one of both is zero."""
    usable = (weight > 0) & (change > 0)
    return torch.where(usable, trust * weight / change.clamp(min=1e-30), torch.ones_like(weight))
