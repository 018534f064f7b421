"""Which lines of a log a person is shown, and which say that memory was short."""

from __future__ import annotations

import pytest

from scheduler.runtime.last_words import MOST_CHARACTERS, last_words, says_out_of_memory

# Captured from llama-server (llama-cpp-python 0.3.36), paths shortened.
RANDOM_BYTES = """\
0.00.002.755 I srv  llama_server: initializing ...
0.00.003.996 W srv  llama_server: security: no API key is set and CORS allows all origins
0.00.006.563 I srv    load_model: loading model 'rand.gguf'
0.00.006.676 E gguf_init_from_reader: invalid magic characters: 'L?!?', expected 'GGUF'
0.00.006.754 E llama_model_load: error loading model: llama_model_loader: failed to load model
0.00.006.758 E llama_model_load_from_file_impl: failed to load model
0.00.006.801 E gguf_init_from_reader: invalid magic characters: 'L?!?', expected 'GGUF'
0.00.006.809 I srv    operator(): operator(): cleaning up before exit...
0.00.007.091 E srv  llama_server: exiting due to model loading error""".splitlines()

KV_TOO_LARGE = """\
0.04.789.113 E ggml_aligned_malloc: insufficient memory (attempted to allocate 878906.25 MB)
0.04.789.180 E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 9216
0.04.789.192 E alloc_tensor_range: failed to allocate CPU buffer of size 921600000000
0.04.936.352 E llama_init_from_model: failed to initialize the context: failed to allocate buffer
0.04.936.815 E srv  llama_server: exiting due to model loading error""".splitlines()

OUT_OF_MEMORY = [
    *KV_TOO_LARGE[:4],
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1024.00 MiB on device 0: "
    "cudaMalloc failed: out of memory",
    "CUDA error: out of memory",
    "ggml_vulkan: Device memory allocation of size 1073741824 failed.",
    "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
    "ggml_metal: error: command buffer 0 failed with status 5: Insufficient Memory",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    "graph_reserve: failed to allocate compute buffers",
]

ENOUGH_MEMORY = [
    *RANDOM_BYTES,
    "common_fit_params: encountered an error while trying to fit params to free device memory: "
    "failed to load model",
    "llama_params_fit_impl: cannot meet free memory target of 1024 MiB, need to reduce",
    "srv  update_slots: failed to find a memory slot for batch of size 512",
    "load: model buffer size = 92.00 MiB",
]


def test_the_cause_comes_first_and_each_line_once():
    assert last_words(RANDOM_BYTES).splitlines() == [
        "gguf_init_from_reader: invalid magic characters: 'L?!?', expected 'GGUF'",
        "llama_model_load: error loading model: llama_model_loader: failed to load model",
        "llama_model_load_from_file_impl: failed to load model",
        "llama_server: exiting due to model loading error",
    ]


def test_without_an_error_the_last_lines_are_the_words():
    lines = [f"line {number}" for number in range(10)]
    assert last_words(lines) == "line 7\nline 8\nline 9"


def test_errors_of_a_build_without_levels_are_found():
    lines = ["loading", "GGML_ASSERT(n > 0) failed", "one", "two", "three"]
    assert last_words(lines) == "GGML_ASSERT(n > 0) failed"


def test_silence_has_no_words():
    assert last_words([]) == ""
    assert last_words(["", "  "]) == ""


def test_many_errors_are_shortened_and_the_last_one_kept():
    words = last_words([f"0.00.000.001 E error {number}" for number in range(50)])

    assert words.splitlines()[0] == "error 0"
    assert words.splitlines()[-1] == "error 49"
    assert len(words.splitlines()) < 10


def test_words_have_a_length_that_can_be_read():
    assert len(last_words(["0.00.000.001 E " + "x" * 9000] * 3)) <= MOST_CHARACTERS
    assert len(last_words([f"0.00.000.001 E {n}" + "x" * 290 for n in range(6)])) <= MOST_CHARACTERS


@pytest.mark.parametrize("line", OUT_OF_MEMORY)
def test_memory_that_was_short_is_recognised(line):
    assert says_out_of_memory(["one", line, "two"])


@pytest.mark.parametrize("line", ENOUGH_MEMORY)
def test_other_failures_are_not_taken_for_it(line):
    assert not says_out_of_memory([line])


def test_what_stands_far_apart_in_a_line_is_no_failure():
    assert not says_out_of_memory(["unable to allocate " * 100 + "a buffer".rjust(200)])
