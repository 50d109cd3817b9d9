"""BERT's losses, gradients and steps against a plain implementation, one sequence after the other and without padding."""

from __future__ import annotations

import pytest
from bert_programs import run

pytestmark = pytest.mark.timeout(300)
PLAIN = """
import math
import numpy as np, torch
import torch.nn.functional as F
import batches, generate
from bert import NETWORKS, Batch, Bert
from checkpoint_in import HUGGING_FACE, exported
from common.optimizers import Optimizer
from common.order import Order
from common.stepping import Speed, Stepper
from common.world import World
from sequences import Sequences

SIZE, ALONE = NETWORKS["tiny"], World(0, 1, 0, torch.device("cpu"))


def loss(w, rows):
    \"\"\"Both losses of the paper, from weights under Hugging Face's names.\"\"\"
    dense = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-12)
    gelu = lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    words, follows = 0.0, 0.0
    table = w["bert.embeddings.word_embeddings.weight"]
    for row in range(len(rows["tokens"])):
        length = int(rows["lengths"][row])
        tokens, segments = (torch.tensor(rows[name][row][:length].astype(int)) for name in ("tokens", "segments"))
        x = table[tokens] + w["bert.embeddings.position_embeddings.weight"][:length]
        x = norm(x + w["bert.embeddings.token_type_embeddings.weight"][segments], "bert.embeddings.LayerNorm")
        for layer in range(SIZE.layers):
            at = f"bert.encoder.layer.{layer}."
            q, k, v = (dense(x, f"{at}attention.self.{part}").chunk(SIZE.heads, 1) for part in ("query", "key", "value"))
            heads = [(a @ b.T / math.sqrt(a.shape[1])).softmax(1) @ c for a, b, c in zip(q, k, v)]
            x = norm(x + dense(torch.cat(heads, 1), at + "attention.output.dense"), at + "attention.output.LayerNorm")
            x = norm(x + dense(gelu(dense(x, at + "intermediate.dense")), at + "output.dense"), at + "output.LayerNorm")
        pooled = torch.tanh(dense(x[0], "bert.pooler.dense"))
        follows = follows - F.log_softmax(dense(pooled, "cls.seq_relationship"), 0)[rows["follows"][row]]
        for position, target, weight in zip(rows["positions"][row], rows["targets"][row], rows["weights"][row]):
            if weight:
                y = norm(gelu(dense(x[position], "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm")
                words = words - weight * F.log_softmax(table @ y + w["cls.predictions.bias"], 0)[target]
    return words / rows["weights"].sum() + follows / len(rows["tokens"])


def made(count, full=False):
    columns = generate.sequences(np.random.default_rng(5), count, 32)
    lengths = columns["input_mask"].sum(1)
    if full:
        chosen = np.flatnonzero(lengths == 32)
        columns, lengths = {name: column[chosen] for name, column in columns.items()}, lengths[chosen]
    kinds = {"tokens": ("input_ids", np.int32), "segments": ("segment_ids", np.uint8), "targets": ("masked_lm_ids", np.int32),
             "positions": ("masked_lm_positions", np.int32), "weights": ("masked_lm_weights", np.float32)}
    rows = {ours: columns[name].astype(kind) for ours, (name, kind) in kinds.items()}
    return Sequences([{**rows, "lengths": lengths.astype(np.int32), "follows": columns["next_sentence_labels"].reshape(-1)}])


def network():
    torch.manual_seed(3)
    model = Bert(SIZE, 0.0, 0.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model
"""

LOSSES = """
for full in (False, True):
    data = made(400 if full else 12, full)
    assert data.full == full and len(data) >= 8
    rows, model = data.rows(np.arange(len(data))), network()
    if not full:
        rows["weights"][3] = 0
        rows["weights"][5, 0] = 0.5
    weights = {name: weight.clone().requires_grad_() for name, weight in exported(model, SIZE.vocabulary, HUGGING_FACE).items()}
    wanted = loss(weights, rows)
    wanted.backward()
    for packed in (False, True):
        batch = batches.batch(rows, 1 / rows["weights"].sum(), full, packed)
        model.zero_grad()
        found = model(*batch)
        found.backward()
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-5)
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        own = Bert(SIZE)
        for name, weight in own.named_parameters():
            weight.data = gradients[name]
        for name, gradient in exported(own, SIZE.vocabulary, HUGGING_FACE).items():
            torch.testing.assert_close(gradient, weights[name].grad, rtol=1e-3, atol=1e-5, msg=lambda text: f"{name}: {text}")
        assert model.logits(Batch.of(batch))[0].shape == (rows["positions"].size, SIZE.rows)  # of masked words alone
"""


def test_both_losses_and_their_gradients_are_those_of_a_plain_implementation_in_every_layout() -> None:
    run("pytorch", "-c", PLAIN + LOSSES)


STEPS = """
data = made(64)
counts = data.weights.reshape(-1, 8).sum(1)
assert len(set(counts.tolist())) > 2  # passes and ranks have different numbers of masked words


def lamb(p, g, state, count, rate):
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g * g
    update = state["m"] / (1 - 0.9**count) / ((state["v"] / (1 - 0.99**count)).sqrt() + 1e-6)
    update = update + 0.02 * p if p.ndim > 1 else update
    return rate * (p.norm() / update.norm() if p.ndim > 1 else 1) * update


def adamw(p, g, state, count, rate):
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g * g
    update = state["m"] / (1 - 0.9**count) / ((state["v"] / (1 - 0.99**count)).sqrt() + 1e-6)
    return rate * (update + 0.02 * p if p.ndim > 1 else update)


def rate(step):
    return 0.02 / step


def plain(formula, steps):
    \"\"\"Whole batches of 32, gradients cut to a common norm of 1, and the formula of an optimizer.\"\"\"
    model = network()
    states = [{} for _ in model.parameters()]
    order = Order(len(data), 32, 1, 0, 1, 1).chunks()
    for step in range(1, steps + 1):
        rows = data.rows(next(order)[1])
        model.zero_grad()
        model(*batches.batch(rows, 1 / rows["weights"].sum(), False, False)).backward()
        whole = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
        assert whole > 1
        with torch.no_grad():
            for p, state in zip(model.parameters(), states):
                p -= formula(p, p.grad / whole, state, step, rate(step))
    return model


def ours(kind, passes, steps):
    model = network()
    optimizer = Optimizer(kind, model, weight_decay=0.02, betas=(0.9, 0.99), eps=1e-6)
    step = Stepper(ALONE, Speed(), model, lambda model, *batch: model(*batch), optimizer, passes, 1.0)
    source = batches.training(data, Order(len(data), 32 // passes, passes, 0, 1, 1), 0, SIZE.vocabulary, False)
    for number in range(1, steps + 1):
        optimizer.rate.fill_(rate(number))
        step([next(source) for _ in range(passes)])
    return model


for kind, formula in (("lamb", lamb), ("adamw", adamw)):
    wanted = plain(formula, 3)
    for passes in (1, 4):
        for (name, found), right in zip(ours(kind, passes, 3).named_parameters(), wanted.parameters()):
            torch.testing.assert_close(found, right, rtol=1e-3, atol=2e-4, msg=lambda text: f"{kind} {passes} {name}: {text}")
"""


def test_steps_are_those_of_the_formulas_with_whole_batches_and_with_accumulated_ones() -> None:
    """Clipped gradients, corrected moments, no decay of norms and biases; each masked word weighs the same in every pass."""
    run("pytorch", "-c", PLAIN + STEPS)
