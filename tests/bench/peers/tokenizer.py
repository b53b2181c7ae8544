"""A tokenizer in the Hugging Face layout that counts the reference server's answers
as the server does: each of its words is one token, anything else falls into letters.

The peers invent prompts and count answers with a tokenizer and would fetch one from
a hub. inference-perf goes further and spreads each chunk's time over the tokens that
it counts in it, so a tokenizer of another opinion would spoil its latencies.
"""

import json
import pathlib
import re

WORDS = pathlib.Path(__file__).parents[3] / "fixtures/reference_server/generated_text.cc"


def server_words():
    """The words the server answers with, each with its space: " amber"."""
    words = re.findall(r'"( [a-z]+)"', WORDS.read_text())
    if len(words) != 64:
        raise ValueError(f"{WORDS}: {len(words)} words, not 64")
    return words


def write(folder):
    """Writes tokenizer.json and what its loaders look for beside it into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    # The byte-level alphabet writes a space and a newline as these two letters.
    space, newline = "\u0120", "\u010a"
    tokens = ["</s>", space, newline] + [chr(code) for code in range(0x21, 0x7F)]
    merges = []
    for word in server_words():
        word = word.replace(" ", space)
        for end in range(2, len(word) + 1):  # letter by letter, from the space on
            if word[:end] not in tokens:
                tokens.append(word[:end])
                merges.append([word[: end - 1], word[end - 1]])
    end = {"id": 0, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**end, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": False,
            "use_regex": False,
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": False,
            "use_regex": False,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": merges,
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "</s>",
                "pad_token": "</s>",
                "model_max_length": 1 << 20,
                "clean_up_tokenization_spaces": False,
            }
        )
    )
    # Some loaders ask for the model's type before they look for a tokenizer.
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
    )
