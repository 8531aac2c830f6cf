"""Secrets vanish from command lines, and what an operator wants to read stays."""

import shlex
import time

import pytest

from exporter.analysis.redaction import MAX_CHARS, redacted

SECRET = "5up3r-S3cret.Value"  # of no known look: only what stands before it tells

VANISHES = [
    ["vllm", "serve", "m", "--api-key", SECRET],
    ["vllm", "serve", "m", f"--api-key={SECRET}"],
    ["vllm", "serve", "m", "--api-key", "first", SECRET, "--port", "8000"],
    ["vllm", "serve", "m", "--api_key", SECRET],
    ["vllm", "serve", "m", "--hf-token", SECRET],
    ["vllm", "serve", "m", "--hf-token", f"-{SECRET}"],
    ["vllm", "serve", "m", f"--hf-token={SECRET} with blanks"],
    ["vllm", "serve", "m", "--hf-token", f"with blanks {SECRET}"],
    ["tool", "--password", SECRET],
    ["tool", "-password", SECRET],
    ["tool", "--db.passwd", SECRET],
    ["tool", "--clientSecret", SECRET],
    ["tool", "--client-secret", f"a,b&c;d {SECRET}"],
    ["tool", "--access-key-id", SECRET],
    ["tool", "--ssl-keyfile-password", SECRET],
    ["tool", "--auth", SECRET],
    ["java", f"-Djavax.net.ssl.keyStorePassword={SECRET}"],
    ["env", f"OPENAI_API_KEY={SECRET}", "python"],
    ["env", f"HF_TOKEN={SECRET}", "python"],
    ["env", f"HUGGING_FACE_HUB_TOKEN={SECRET}"],
    ["env", f"AWS_SECRET_ACCESS_KEY={SECRET}"],
    ["env", f"PGPASSWORD={SECRET}"],
    ["env", f"MYSQL_PWD={SECRET}"],
    ["env", f"HFToken={SECRET}"],
    ["env", f"KEY={SECRET}"],
    ["docker", "run", "-e", f"DB_PASSWORD={SECRET}", "image"],
    ["curl", "-H", f"Authorization: Bearer {SECRET}"],
    ["curl", "-H", "Authorization:", "Bearer", SECRET],
    ["curl", "-H", f"Authorization: Basic {SECRET}"],
    ["curl", f"-HAuthorization: Bearer {SECRET}"],
    ["curl", f"--header=Authorization: Bearer {SECRET}"],
    ["curl", "-H", f"X-Api-Key: {SECRET}"],
    ["curl", "-H", f"Cookie: a=1; session={SECRET}"],
    ["tool", f"bearer {SECRET}"],
    ["tool", "Bearer", SECRET],
    ["curl", "-u", f"bob:{SECRET}", "http://host"],
    ["curl", "--proxy-user", f"bob:{SECRET}"],
    ["git", "clone", f"https://bob:{SECRET}@github.com/a/b"],
    ["git", "clone", f"https://{SECRET}@github.com/a/b"],
    ["tool", f"postgres://bob:{SECRET}@db:5432/x"],
    ["tool", f"postgres://bob:a/{SECRET}@db:5432/x"],
    ["tool", f"redis://:{SECRET}@cache"],
    ["tool", f"--url=amqp://bob:{SECRET}@queue"],
    ["tool", f"https://host/path?token={SECRET}"],
    ["tool", f"https://host/path?x=1&access_token={SECRET}#end"],
    ["tool", f"https://bob:pw@host/path?x=1&api_key={SECRET}"],
    ["tool", "--config", f'{{"api_key":"{SECRET}"}}'],
    ["tool", "--config", f'{{"api_key": "a, {SECRET}", "port": 1}}'],
    ["tool", "--config", f'{{"a":{{"password":"x y {SECRET}"}}}}'],
    ["tool", "--config", f"{{'secret': '{SECRET}'}}"],
    ["tool", f"password: {SECRET}"],
    ["bash", "-c", f"export HF_TOKEN={SECRET}; vllm serve m"],
    ["bash", "-c", f"vllm serve m --api-key '{SECRET}' --port 1"],
    ["bash", "-c", f'HF_TOKEN="a {SECRET}" vllm serve m'],
    ["bash", "-c", f"sh -c 'vllm serve m --api-key {SECRET}'"],
    ["bash", "-c", f"curl -H 'Authorization: Bearer {SECRET}' http://host"],
    [f"python -m vllm --api-key {SECRET} --port 1"],  # a title that a process has written
    [f"python\n--token\n{SECRET}"],
    ["--token", SECRET],
]
LOOKS = [
    "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "sk-proj-abcdefghijklmnop1234",
    "nvapi-abcdefghijklmnop1234",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0123456789abcdef",
    "glpat-abcdefghij0123456789",
    "xoxb-1234567890-abcdefghij",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]
STAYS = [
    "vllm serve meta-llama/Llama-3-8B --host 0.0.0.0 --port 8000 --max-num-seqs 64",
    "vllm serve m --tokenizer x --tokenizer-mode auto --max-num-batched-tokens 8192",
    "vllm serve m --served-model-name my-key-model --max-model-len=8192 --dtype bfloat16",
    "vllm serve m --tensor-parallel-size 4 --gpu-memory-utilization 0.9 --enable-prefix-caching",
    "vllm serve m --ssl-keyfile /etc/tls/key.pem --api-key-file /run/api --password_file=/x",
    "vllm serve m --num-speculative-tokens 5 --image-token-id 7 --auth-type none",
    'vllm serve m --kv-transfer-config {"kv_connector":"LMCache","port":8000}',
    "python -m vllm.entrypoints.openai.api_server --model /models/hf_pretrained_models/llama",
    "/opt/venv/bin/python3 /data/hf_checkpoints/task-123456789/train.py --lr=1e-4",
    "env CUDA_VISIBLE_DEVICES=0,1 NCCL_DEBUG=INFO TOKENIZERS_PARALLELISM=false monkey=1",
    "tool http://host:8000/path@x https://github.com/a/b@main ssh://host:22 s3://bucket/key.bin",
    "tool http://a:8000,http://b:8001 http://host/?max_tokens=5&model=x --user bob -u 1000",
    "tool --hf-token --port 8000",
    "VLLM::Worker_TP0",
]


@pytest.mark.parametrize("argv", VANISHES, ids=shlex.join)
def test_a_secret_vanishes(argv: list[str]) -> None:
    line = redacted(argv)
    assert SECRET not in line
    assert "S3cret" not in line
    assert "***" in line
    assert line.split()[0] == argv[0].split()[0]


@pytest.mark.parametrize("token", LOOKS)
@pytest.mark.parametrize("form", ["{}", "--name={}", "run '{}' now", '{{"x":"{}"}}'])
def test_what_looks_like_a_token_vanishes(token: str, form: str) -> None:
    line = redacted(["tool", form.format(token), "--port", "8000"])
    assert token[6:] not in line
    assert line.startswith("tool ")
    assert line.endswith(" --port 8000")


@pytest.mark.parametrize("line", STAYS)
def test_all_else_stays(line: str) -> None:
    assert redacted(line.split(" ")) == line
    assert redacted([line]) == line


def test_what_stands_around_a_secret_stays() -> None:
    argv = ["vllm", "serve", "org/m", "--api-key", "a", "b", "--port", "8000", "--seed=1"]
    assert redacted(argv) == "vllm serve org/m --api-key *** *** --port 8000 --seed=1"
    assert (
        redacted(["curl", "-u", "bob:x", "https://u:p@host:8000/p?token=abc&model=m"])
        == "curl -u bob:*** https://***@host:8000/p?token=***&model=m"
    )
    assert redacted(["--config", '{"a":1,"api_key":"x y","port":8000}']) == (
        '--config {"a":1,"api_key":"***","port":8000}'
    )


def test_a_private_key_vanishes_as_a_whole() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"
    assert redacted(["tool", key]) == "tool ***"


def test_the_line_is_one_printable_line_of_bounded_length() -> None:
    assert redacted(["a\nb", "c\x00\x1b[31m"]) == "a b c  [31m"
    line = redacted(["x" * 400, "y" * 400])
    assert len(line) == MAX_CHARS
    assert line == "x" * 400 + " " + "y" * (MAX_CHARS - 402) + "…"


def test_nothing_is_empty() -> None:
    assert redacted([]) == ""
    assert redacted(["", ""]) == " "


def test_a_secret_far_behind_is_not_cut_open() -> None:
    line = redacted(["x" * 500, f"https://bob:{SECRET}{'z' * 3000}@host"])
    assert "bob" not in line
    assert "S3cret" not in line


@pytest.mark.parametrize(
    "text",
    [
        "a" * 9000,
        "a://" * 3000,
        "'" * 9000,
        "\"' " * 3000,
        "a=" * 4000,
        "key=" * 3000,
        "x://a:b@" * 999,
    ],
    ids=lambda text: text[:8],
)
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()  # what others do on this machine is not in it
    redacted([text])
    assert time.process_time() - start < 1  # milliseconds as a rule
