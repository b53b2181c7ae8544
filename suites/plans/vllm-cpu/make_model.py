"""Makes a tiny Llama that vLLM can serve without weights: a configuration and a
tokenizer; `--load-format dummy` invents the rest.

VENV/bin/python make_model.py FOLDER

Needs the `tokenizers` package, which every vLLM brings along. The same version of it
makes the same bytes each time.
"""

import argparse
import json
import pathlib
import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

# Ids from 1,000 on are what Upgrade Gate's synthetic prompts are made of.
VOCABULARY = 2048
END = "</s>"


def sentences(seed=7, count=20_000):
    """Made-up text: enough different words for the vocabulary to be filled."""
    rng = random.Random(seed)
    onsets = ["b", "br", "d", "f", "g", "gl", "k", "l", "m", "n", "p", "pr", "s", "st", "t", "v"]
    vowels = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
    codas = ["", "l", "m", "n", "r", "s", "t", "nd"]

    def syllable():
        return rng.choice(onsets) + rng.choice(vowels) + rng.choice(codas)

    words = ["".join(syllable() for _ in range(rng.randint(1, 3))) for _ in range(3000)]
    for _ in range(count):
        yield " ".join(rng.choices(words, k=rng.randint(4, 12))).capitalize() + "."


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        sentences(),
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[END],
            show_progress=False,
        ),
    )
    # An id without a token would be an answer without text, as would half a character:
    # a model with invented weights repeats one token for ever, and so be it none of
    # those. The letters are those of the sentences, all of one byte.
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, not {VOCABULARY}")
    return tokenizer


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": VOCABULARY,
    "bos_token_id": 0,
    "eos_token_id": 0,
}

TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": END,
    "eos_token": END,
    "pad_token": END,
    "model_max_length": 4096,
    "clean_up_tokenization_spaces": False,
    "chat_template": "{% for message in messages %}{{ message['role'] }}: "
    "{{ message['content'] }}\n{% endfor %}assistant:",
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    train_tokenizer().save(str(folder / "tokenizer.json"))
    for name, content in (("config.json", CONFIG), ("tokenizer_config.json", TOKENIZER_CONFIG)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
