"""The prefix cache over the life of server processes. Needs DEEPINFER_BINARY and DEEPINFER_MODEL."""

import os
import random
import shutil

import openai
import pytest

pytestmark = pytest.mark.skipif(not (os.environ.get("DEEPINFER_BINARY") and os.environ.get("DEEPINFER_MODEL")),
                                reason="needs DEEPINFER_BINARY and DEEPINFER_MODEL")

WORDS = "river stone garden window seven letter morning paper engine simple answer winter between without children".split()
BLOCK = 64


def text(seed, words=1200):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(words))


def ask(server, prompt, **fields):
    """Tokens of the prompt, those of it that were cached, in all and by tier, and the answer."""
    client = openai.OpenAI(base_url=server.base_url, api_key="x", max_retries=0, timeout=300)
    answer = client.completions.create(model=client.models.list().data[0].id, prompt=prompt, max_tokens=8, temperature=0,
                                       logprobs=1, extra_body={"ignore_eos": True, **fields})
    details = answer.usage.prompt_tokens_details
    tiers = (details.model_extra or {}).get("cached_tokens_by_tier", {})
    choice = answer.choices[0]
    return answer.usage.prompt_tokens, details.cached_tokens, tiers, (choice.text, choice.logprobs.token_logprobs)


def full_blocks(tokens):
    return (tokens - 1) // BLOCK * BLOCK


def test_a_restarted_server_finds_what_it_had_computed(own_server, tmp_path):
    """K01: after an ordered end, and after kill -9."""
    options = ("--cache-dir", str(tmp_path))
    server = own_server(*options)
    tokens, cached, _, first = ask(server, text(1))
    assert tokens >= 1100 and cached == 0
    server.stop()
    server = own_server(*options)
    assert ask(server, text(1)) == (tokens, full_blocks(tokens), {"memory": 0, "disk": full_blocks(tokens)}, first)
    assert ask(server, text(1)) == (tokens, full_blocks(tokens), {"memory": full_blocks(tokens)}, first)
    tokens, _, _, second = ask(server, text(2))
    # What is said to be written is there after kill -9; it is written behind the answer.
    ask(server, text(3, 10))
    server.process.kill()
    server.process.wait()
    server = own_server(*options)
    _, cached, tiers, again = ask(server, text(2))
    assert again == second
    assert cached >= full_blocks(tokens) - BLOCK and tiers["disk"] == cached


def test_blocks_of_another_kind_are_not_found(own_server, tmp_path):
    """K11: a folder that was filled with F16 keys and values has nothing for a server with others."""
    answers = {}
    for kind in ("f16", "bf16", "q8", "f16"):
        server = own_server("--cache-dir", str(tmp_path), "--kv-type", kind)
        tokens, cached, _, answer = ask(server, text(4))
        server.stop()
        assert cached == (full_blocks(tokens) if kind in answers else 0)
        assert answers.setdefault(kind, answer) == answer


def test_hints_do_not_lower_what_is_found(own_server, tmp_path):
    """K04: nothing that names a conversation or a user has a say in what is found."""
    server = own_server("--cache-dir", str(tmp_path))
    client = openai.OpenAI(base_url=server.base_url, api_key="x", max_retries=0, timeout=300)
    model = client.models.list().data[0].id

    def cached(**hints):
        answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": text(5)}], max_tokens=4,
                                                temperature=0, **hints)
        return answer.usage.prompt_tokens_details.cached_tokens, answer.choices[0].message.content

    _, content = cached()
    found = cached()
    assert found[0] >= 1100 and found[1] == content
    for hints in ({"user": "somebody"}, {"metadata": {"session": "7"}}, {"prompt_cache_key": "mine"},
                  {"safety_identifier": "x"}):
        assert cached(**hints) == found, hints


def test_the_folder_may_be_deleted_under_a_server(own_server, tmp_path):
    folder = tmp_path / "cache"
    options = ("--cache-dir", str(folder))
    server = own_server(*options)
    ask(server, text(6, 300))
    shutil.rmtree(folder)
    tokens, _, _, first = ask(server, text(7, 300))
    server.stop()
    server = own_server(*options)
    assert ask(server, text(7, 300)) == (tokens, full_blocks(tokens), {"memory": 0, "disk": full_blocks(tokens)}, first)
