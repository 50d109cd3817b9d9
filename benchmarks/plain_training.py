"""The plain alternative: torchvision's ResNet-50 or transformers' BERT-large, bf16, synthetic data; prints one JSON object."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

WARM_UP = 10
SETS = 4  # batches in turn, so that no cache holds the only one


def resnet50(batch: int, size: int, device: str) -> tuple[Any, Callable[[Any], Any], list[Any]]:
    from torchvision.models import resnet50 as plain

    model = plain().to(device, memory_format=torch.channels_last)
    score = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def sample() -> Any:
        images = torch.randn(batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
        return images, torch.randint(0, 1000, (batch,), device=device)

    return model, lambda data: score(model(data[0]), data[1]), [sample() for _ in range(SETS)]


def bert_large(batch: int, length: int, device: str) -> tuple[Any, Callable[[Any], Any], list[Any]]:
    from transformers import BertConfig, BertForPreTraining

    sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    model = BertForPreTraining(BertConfig(**sizes)).to(device)

    def sample() -> Any:
        words = torch.randint(0, 30522, (batch, length), device=device)
        masked = torch.rand(batch, length, device=device) < 0.15
        return {
            "input_ids": words,
            "attention_mask": torch.ones_like(words),
            "token_type_ids": torch.zeros_like(words),
            "labels": torch.where(masked, words, -100),
            "next_sentence_label": torch.randint(0, 2, (batch,), device=device),
        }

    return model, lambda data: model(**data).loss, [sample() for _ in range(SETS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=["resnet50", "bert-large"])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="the side of an image, or the length of a sequence")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    model, loss, sets = (resnet50 if options.workload == "resnet50" else bert_large)(options.batch, options.size, device)
    if options.workload == "resnet50":
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if options.compile:
        loss = torch.compile(loss)
    rates = []
    model.train()
    for part in range(-1, 4):
        steps = WARM_UP if part < 0 else options.steps // 4
        started = time.perf_counter()
        for step in range(steps):
            with torch.autocast(device, torch.bfloat16):
                found = loss(sets[step % SETS])
            found.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        if part >= 0:
            rates.append(options.batch * steps / (time.perf_counter() - started))
    print(json.dumps({"throughput": statistics.median(rates), "parts": rates, "loss": float(found)}))


if __name__ == "__main__":
    main()
