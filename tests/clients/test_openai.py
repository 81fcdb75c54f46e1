"""The official openai SDK, unmodified, against the server."""

import asyncio
import json
import os
import time

import openai
import pytest

HELLO = [{"role": "user", "content": "Say hello to the world, please."}]


def chat(client, model, **options):
    return client.chat.completions.create(**{"model": model, "messages": HELLO, "max_tokens": 24, "temperature": 0, **options})


def text_of(stream):
    chunks = list(stream)
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), chunks


def middle_of(text):
    """A piece out of the middle, to stop at."""
    assert len(text) >= 4
    at = len(text) // 2
    return text[at:at + 2]


class TestChat:
    def test_answer(self, client, model):
        answer = chat(client, model)
        assert answer.object == "chat.completion"
        assert answer.model == model
        assert answer.choices[0].message.role == "assistant"
        assert answer.choices[0].message.content
        assert answer.choices[0].finish_reason in ("stop", "length")
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
        assert answer.usage.completion_tokens <= 24
        assert answer.usage.prompt_tokens_details.cached_tokens >= 0
        assert abs(answer.created - time.time()) < 300
        assert answer._request_id.startswith("req_")

    def test_stream_equals_answer(self, client, model):
        whole = chat(client, model)
        text, chunks = text_of(chat(client, model, stream=True))
        assert text == whole.choices[0].message.content
        assert chunks[0].choices[0].delta.role == "assistant"
        assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 1)
        assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
        assert all(c.usage is None for c in chunks)
        assert len({c.id for c in chunks}) == 1

    def test_stream_usage(self, client, model):
        whole = chat(client, model)
        _, chunks = text_of(chat(client, model, stream=True, stream_options={"include_usage": True}))
        assert chunks[-1].choices == []
        assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
        assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
        assert all(c.usage is None for c in chunks[:-1])

    def test_stream_helper(self, client, model):
        whole = chat(client, model).choices[0].message.content
        with client.chat.completions.stream(model=model, messages=HELLO, max_tokens=24, temperature=0,
                                            stop=middle_of(whole)) as stream:
            deltas = "".join(e.delta for e in stream if e.type == "content.delta")
            assert stream.get_final_completion().choices[0].message.content == deltas  # the helper refuses "length"

    def test_raw_response(self, client, model):
        raw = client.chat.completions.with_raw_response.create(model=model, messages=HELLO, max_tokens=2)
        assert raw.headers["content-type"] == "application/json"
        assert json.loads(raw.text)["object"] == "chat.completion"
        assert raw.parse().choices

    def test_max_tokens(self, client, model):
        for field in ("max_tokens", "max_completion_tokens"):
            answer = client.chat.completions.create(model=model, messages=HELLO, temperature=0, **{field: 3})
            assert answer.usage.completion_tokens <= 3
        assert chat(client, model, max_tokens=1).choices[0].finish_reason == "length"

    @pytest.mark.parametrize("stream", [False, True])
    def test_stop(self, client, model, stream):
        whole = chat(client, model).choices[0].message.content
        stop = middle_of(whole)
        expected = whole[:whole.index(stop)]
        for value in (stop, ["\u2603 never", stop]):
            answer = chat(client, model, stop=value, stream=stream)
            if stream:
                text, chunks = text_of(answer)
                reason = chunks[-1].choices[0].finish_reason
            else:
                text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
            assert text == expected
            assert reason == "stop"

    def test_seed(self, client, model):
        def sample(seed):
            return chat(client, model, temperature=1, seed=seed).choices[0].message.content
        assert sample(7) == sample(7)
        assert len({sample(seed) for seed in range(5)}) > 1
        assert len({sample(openai.omit) for _ in range(5)}) > 1

    def test_logprobs(self, client, model):
        answer = chat(client, model, logprobs=True, top_logprobs=3, max_tokens=5)
        tokens = answer.choices[0].logprobs.content
        assert len(tokens) == answer.usage.completion_tokens or answer.choices[0].finish_reason == "stop"
        assert bytes(b for t in tokens for b in t.bytes).decode("utf-8", "replace").startswith(
            answer.choices[0].message.content[:1])
        for token in tokens:
            assert token.logprob <= 0
            assert len(token.top_logprobs) == 3
            assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob
        chunks = list(chat(client, model, logprobs=True, max_tokens=5, stream=True))
        streamed = [t for c in chunks if c.choices and c.choices[0].logprobs for t in c.choices[0].logprobs.content]
        assert [t.token for t in streamed] == [t.token for t in tokens]

    def test_harmless_hints(self, client, model):
        chat(client, model, user="me", metadata={"a": "b"}, store=False, service_tier="auto", n=1, presence_penalty=0,
             frequency_penalty=0, logit_bias={}, prompt_cache_key="k", safety_identifier="s", parallel_tool_calls=True,
             response_format={"type": "text"}, extra_body={"top_k": 40, "min_p": 0.05, "ignore_eos": False})

    def test_conversation(self, client, model):
        messages = [{"role": "system", "content": "Be brief."}, *HELLO]
        for _ in range(3):
            answer = client.chat.completions.create(model=model, messages=messages, max_tokens=8, temperature=0)
            messages.append(answer.choices[0].message)  # as the SDK's users do it
            messages.append({"role": "user", "content": [{"type": "text", "text": "And now?"}]})

    def test_control_tokens_in_text_are_text(self, client, model):
        short = chat(client, model, messages=[{"role": "user", "content": "a"}], max_tokens=1).usage.prompt_tokens
        spelled = chat(client, model, messages=[{"role": "user", "content": "<|im_end|><|im_start|>system"}],
                       max_tokens=1).usage.prompt_tokens
        assert spelled > short + 4


class TestCompletions:
    def test_answer_and_stream(self, client, model):
        options = dict(model=model, prompt="Once upon a time", max_tokens=12, temperature=0)
        whole = client.completions.create(**options)
        assert whole.object == "text_completion"
        streamed = list(client.completions.create(**options, stream=True))
        assert "".join(c.choices[0].text for c in streamed if c.choices) == whole.choices[0].text
        assert streamed[-1].choices[0].finish_reason == whole.choices[0].finish_reason

    def test_several_prompts(self, client, model):
        prompts = ["Once upon a time", "The quick brown fox", "Once upon a time"]
        several = client.completions.create(model=model, prompt=prompts, max_tokens=8, temperature=0)
        assert [c.index for c in several.choices] == [0, 1, 2]
        for prompt, choice in zip(prompts, several.choices):
            alone = client.completions.create(model=model, prompt=prompt, max_tokens=8, temperature=0)
            assert alone.choices[0].text == choice.text

    def test_tokens_as_prompt(self, client, model, base_url):
        tokens = client.post("../tokenize", body={"prompt": "Once upon a time"}, cast_to=object)["tokens"]
        options = dict(model=model, max_tokens=8, temperature=0)
        assert (client.completions.create(prompt=tokens, **options).choices[0].text ==
                client.completions.create(prompt="Once upon a time", **options).choices[0].text)

    def test_echo(self, client, model):
        answer = client.completions.create(model=model, prompt="Once upon", max_tokens=4, temperature=0, echo=True)
        assert answer.choices[0].text.startswith("Once upon")
        assert len(answer.choices[0].text) > len("Once upon")

    def test_logprobs(self, client, model):
        answer = client.completions.create(model=model, prompt="Once upon", max_tokens=4, temperature=0, logprobs=2)
        logprobs = answer.choices[0].logprobs
        assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset)
        assert logprobs.text_offset[0] == 0


@pytest.mark.skipif(bool(os.environ.get("DEEPINFER_SCRIPTED_SERVER")), reason="a script does not sample")
class TestSampling:
    options = dict(prompt="Once upon a time", max_tokens=12, seed=5)

    def test_n_shares_the_prompt(self, client, model):
        one = client.completions.create(model=model, **self.options)
        three = client.completions.create(model=model, n=3, **self.options)
        assert [choice.index for choice in three.choices] == [0, 1, 2]
        assert three.choices[0].text == one.choices[0].text
        assert len({choice.text for choice in three.choices}) == 3
        assert three.usage.prompt_tokens == one.usage.prompt_tokens

    def test_best_of(self, client, model):
        options = dict(self.options, logprobs=0)
        drawn = client.completions.create(model=model, n=4, **options).choices
        best = client.completions.create(model=model, n=1, best_of=4, **options).choices
        means = [sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs) for choice in drawn]
        assert [choice.text for choice in best] == [drawn[means.index(max(means))].text]

    def test_logit_bias(self, client, model, base_url):
        greedy = dict(self.options, temperature=0)
        text = client.completions.create(model=model, **greedy).choices[0].text
        token = client.post("../tokenize", body={"prompt": "the", "add_special_tokens": False},
                            cast_to=object)["tokens"][0]
        forced = client.completions.create(model=model, logit_bias={str(token): 100}, **greedy).choices[0].text
        assert forced != text and forced.replace("the", "") == ""
        assert client.completions.create(model=model, logit_bias={str(token): -100}, **greedy).choices[0].text

    def test_penalties(self, client, model):
        def logprobs(**more):
            extra = dict(logprobs_mode="processed_logprobs", **more.pop("extra", {}))
            answer = client.completions.create(model=model, prompt="la la la la la la la", max_tokens=8, temperature=0,
                                               logprobs=0, extra_body=extra, **more)
            return answer.choices[0].logprobs.token_logprobs

        plain = logprobs()
        for penalty in [dict(presence_penalty=2), dict(frequency_penalty=2)]:
            got = logprobs(**penalty)
            assert got[0] == plain[0], "the answer has no tokens yet"
            assert got != plain, penalty
        assert logprobs(extra={"repetition_penalty": 1.5})[0] != plain[0], "the prompt has"

    def test_echo_with_logprobs(self, client, model):
        options = dict(model=model, prompt="Once upon a time", max_tokens=4, temperature=0, logprobs=1)
        plain = client.completions.create(**options)
        echo = client.completions.create(echo=True, **options)
        got = echo.choices[0].logprobs
        assert got.token_logprobs[0] is None and all(p <= 0 for p in got.token_logprobs[1:])
        assert len(got.tokens) == echo.usage.total_tokens
        assert got.token_logprobs[-4:] == plain.choices[0].logprobs.token_logprobs
        # A greedy answer as prompt has the log-probabilities it was drawn with.
        again = client.completions.create(model=model, prompt=echo.choices[0].text, max_tokens=1, logprobs=0, echo=True)
        assert len(again.choices[0].logprobs.tokens) == len(got.tokens) + 1
        for a, b in zip(again.choices[0].logprobs.token_logprobs[1:], got.token_logprobs[1:]):
            assert abs(a - b) < 0.01

    def test_processed_logprobs(self, client, model):
        answer = client.completions.create(model=model, logprobs=3, **self.options,
                                           extra_body={"top_k": 1, "logprobs_mode": "processed_logprobs"})
        assert answer.choices[0].logprobs.token_logprobs == [0.0] * 12


class TestModels:
    def test_list_and_retrieve(self, client, model):
        assert [m.id for m in client.models.list()] == [model]
        assert client.models.retrieve(model).id == model


class TestErrors:
    def test_bad_request(self, client, model):
        with pytest.raises(openai.BadRequestError) as caught:
            chat(client, model, temperature=3)
        assert caught.value.status_code == 400
        assert caught.value.param == "temperature"
        assert caught.value.type == "invalid_request_error"
        assert "between 0 and 2" in caught.value.message

    @pytest.mark.parametrize("field, value", [
        ("response_format", {"type": "json_object"}), ("reasoning_effort", "low"), ("store", True),
        ("tools", [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}])])
    def test_unsupported_is_refused_by_name(self, client, model, field, value):
        with pytest.raises(openai.BadRequestError) as caught:
            chat(client, model, **{field: value})
        assert caught.value.param == field
        assert field in caught.value.message

    def test_unknown_field(self, client, model):
        with pytest.raises(openai.BadRequestError) as caught:
            chat(client, model, extra_body={"temprature": 1})
        assert caught.value.param == "temprature"

    def test_context_length(self, client, model):
        with pytest.raises(openai.BadRequestError) as caught:
            chat(client, model, messages=[{"role": "user", "content": "word " * 300_000}])
        assert caught.value.code == "context_length_exceeded"

    def test_not_found(self, client):
        with pytest.raises(openai.NotFoundError) as caught:
            chat(client, "no-such-model")
        assert caught.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("no-such-model")
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="x", input="y")

    def test_authentication(self, own_server):
        server = own_server("--api-key", "right")
        with pytest.raises(openai.AuthenticationError) as caught:
            openai.OpenAI(base_url=server.base_url, api_key="wrong", max_retries=0).models.list()
        assert caught.value.code == "invalid_api_key"
        assert openai.OpenAI(base_url=server.base_url, api_key="right", max_retries=0).models.list().data

    def test_rate_limit(self, own_server):
        server = own_server("--max-running", "1", "--max-queue", "1")
        client = openai.OpenAI(base_url=server.base_url, api_key="x", max_retries=0)
        model = client.models.list().data[0].id
        patient = client.with_options(max_retries=10)
        first = chat(client, model, stream=True, max_tokens=2000, messages=[{"role": "user", "content": "slow"}],
                     extra_body={"ignore_eos": True})
        next(iter(first))
        second = chat(client, model, stream=True, max_tokens=2000, messages=[{"role": "user", "content": "slow"}],
                      extra_body={"ignore_eos": True})
        time.sleep(0.2)
        with pytest.raises(openai.RateLimitError) as caught:
            chat(client, model)
        assert caught.value.response.headers["retry-after"]
        first.close()
        second.close()
        assert chat(patient, model).choices[0].message.content


class TestConcurrency:
    def test_64_at_once(self, base_url, api_key, model):
        async def run():
            async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0, timeout=600) as client:
                async def one(i):
                    options = dict(model=model, messages=[{"role": "user", "content": f"Tell me about number {i % 8}."}],
                                   max_tokens=16, temperature=1, seed=i % 8)
                    if i % 2:
                        return (await client.chat.completions.create(**options)).choices[0].message.content
                    stream = await client.chat.completions.create(**options, stream=True)
                    return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])
                return await asyncio.gather(*(one(i) for i in range(64)))
        answers = asyncio.run(run())
        # Whatever runs beside it, the same request has the same answer.
        for i, answer in enumerate(answers):
            assert answer == answers[i % 8]
        assert len(set(answers)) > 1

    def test_64_cancelled(self, base_url, api_key, model, metrics):
        async def run():
            async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0, timeout=600) as client:
                async def one(i):
                    stream = await client.chat.completions.create(
                        model=model, messages=[{"role": "user", "content": "slow, very long story"}], max_tokens=100_000,
                        stream=True, extra_body={"ignore_eos": True})
                    if i % 2:
                        async for _ in stream:
                            break
                    await stream.close()
                await asyncio.gather(*(one(i) for i in range(64)))
        asyncio.run(run())
        assert metrics.wait("num_requests_running", lambda n: n == 0, 5)
        assert metrics.wait("num_requests_waiting", lambda n: n == 0, 1)
        assert metrics.wait("kv_cache_usage_perc", lambda n: n == 0, 1)


class TestCancellation:
    def test_closing_a_stream(self, client, model, metrics):
        stream = chat(client, model, stream=True, max_tokens=100_000, messages=[{"role": "user", "content": "slow"}],
                      extra_body={"ignore_eos": True})
        next(iter(stream))
        assert metrics["num_requests_running"] >= 1
        stream.close()
        assert metrics.wait("num_requests_running", lambda n: n == 0, 2)
        assert chat(client, model).choices[0].message.content

    def test_client_timeout(self, client, model, metrics):
        with pytest.raises(openai.APITimeoutError):
            chat(client.with_options(timeout=0.5), model, max_tokens=100_000,
                 messages=[{"role": "user", "content": "slow prefill"}], extra_body={"ignore_eos": True})
        assert metrics.wait("num_requests_running", lambda n: n == 0, 2)
