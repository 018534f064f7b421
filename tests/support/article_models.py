"""The models of the article on Ollama's scheduler: as they are built, with the article's sizes."""

from __future__ import annotations

from dataclasses import dataclass

from models_registry.gguf.header import Header

GB = 10**9
Q4_K, Q6_K = 144 / 256, 210 / 256
"""Bytes a weight."""


@dataclass(frozen=True)
class Model:
    architecture: str
    blocks: int
    width: int
    heads: int
    feed_forward: int
    vocabulary: int
    context: int
    weights: int
    """Bytes, in Q4_K_M."""
    tied: bool = False
    """Its output layer is the token embeddings."""

    @property
    def header(self) -> Header:
        """Eight heads of 128 for keys and values, as all of them have."""
        values = {
            "block_count": self.blocks, "context_length": self.context,
            "embedding_length": self.width, "feed_forward_length": self.feed_forward,
            "attention.head_count": self.heads, "attention.head_count_kv": 8,
            "attention.key_length": 128, "attention.value_length": 128,
        }  # fmt: skip
        words = self.vocabulary * self.width
        before = int(words * (Q6_K if self.tied else Q4_K))
        output = int(words * Q6_K)
        inside = self.weights - before - (0 if self.tied else output)
        layers = (inside // self.blocks,) * self.blocks + (output,)
        on_host = [before + sum(layers[:count]) for count in range(self.blocks + 1)]
        return Header(
            architecture=self.architecture,
            values={f"{self.architecture}.{key}": value for key, value in values.items()},
            lengths={"tokenizer.ggml.tokens": self.vocabulary},
            tensors=(),
            mapped=(self.weights, *reversed(on_host)),
            block_count=self.blocks,
            layers=layers,
            input_bytes=before,
        )


MODELS = {
    "Qwen3-4B": Model("qwen3", 36, 2560, 32, 9728, 151936, 40960, int(2.6 * GB), tied=True),
    "Qwen3-8B": Model("qwen3", 36, 4096, 32, 12288, 151936, 40960, 5 * GB),
    "Llama3-8B": Model("llama", 32, 4096, 32, 14336, 128256, 8192, int(4.7 * GB)),
    "Qwen3-14B": Model("qwen3", 40, 5120, 40, 17408, 151936, 40960, int(8.2 * GB)),
    "Llama3-70B": Model("llama", 80, 8192, 64, 28672, 128256, 8192, 40 * GB),
}
