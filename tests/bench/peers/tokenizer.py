"""A tokenizer of one token a character, in the Hugging Face layout.

The peers count and invent their prompts with a tokenizer and would fetch one from
a hub. The reference server counts four bytes of a text prompt as one token, so a
peer is asked for four times as many tokens as the server shall count.
"""

import json


def write(folder):
    """Writes tokenizer.json and what its loaders look for beside it into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    # The byte-level alphabet writes a space and a newline as these two letters.
    letters = ["</s>", "\u0120", "\u010a"] + [chr(code) for code in range(0x21, 0x7F)]
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
            "vocab": {letter: number for number, letter in enumerate(letters)},
            "merges": [],
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
