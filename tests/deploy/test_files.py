"""Ray and KubeRay accept the files in deploy/, and everything that these files and their page name exists.

No machine is started. `raycluster-1.7.0.json.gz` is KubeRay's schema; its `$comment` names its source.
"""

from __future__ import annotations

import copy
import gzip
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

ray = pytest.importorskip("ray")
yaml = pytest.importorskip("yaml")

from ray.autoscaler._private.util import prepare_config, validate_config  # noqa: E402 (only if Ray is installed)
from ray.scripts.scripts import cli  # noqa: E402 (the same)

HERE, ROOT = Path(__file__).parent, Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
LAUNCHER, KUBERAY = ("aws.yaml", "ssh.yaml"), "kuberay.yaml"
SHELLS = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
COMMANDS = [line for block in SHELLS.findall(PAGE) for line in block.replace("\\\n", " ").splitlines()]


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def closed(schema: Any) -> Any:
    """Return the schema, changed to refuse unknown keys where it lists keys: Kubernetes silently drops them."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: each if key in ("if", "then") else closed(each) for key, each in schema.items()}
    return {**made, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else made


@cache
def validator(name: str) -> Draft202012Validator:
    if name == KUBERAY:
        schema = json.loads(gzip.decompress((HERE / "raycluster-1.7.0.json.gz").read_bytes()))
    else:
        schema = json.loads((Path(ray.__file__).parent / "autoscaler/ray-schema.json").read_text())
    return Draft202012Validator(closed(schema))


def check(name: str, config: dict[str, Any]) -> None:
    """Raise ValidationError unless Ray or KubeRay knows each key, and accepts its value."""
    if name == KUBERAY:
        assert config["apiVersion"] == "ray.io/v1" and config["kind"] == "RayCluster"
    else:
        validate_config(prepare_config(copy.deepcopy(config)))  # fills in Ray's defaults
    validator(name).validate(config)


@pytest.mark.parametrize("name", [*LAUNCHER, KUBERAY])
def test_each_key_is_known(name):
    check(name, load(name))


MISSPELT = [
    ("aws.yaml", [], "max_worker"),
    ("aws.yaml", ["provider"], "regio"),
    ("aws.yaml", ["docker"], "imag"),
    ("aws.yaml", ["available_node_types", "data"], "resource"),
    ("aws.yaml", ["available_node_types", "data", "docker"], "run_option"),
    ("ssh.yaml", [], "setup_command"),
    ("ssh.yaml", ["provider"], "worker_ip"),
    ("ssh.yaml", ["auth"], "ssh_users"),
    (KUBERAY, [], "specs"),
    (KUBERAY, ["spec"], "rayVersions"),
    (KUBERAY, ["spec", "headGroupSpec", "template", "spec"], "volume"),
    (KUBERAY, ["spec", "workerGroupSpecs", 0], "replica"),
    (KUBERAY, ["spec", "workerGroupSpecs", 0, "template", "spec", "containers", 0], "img"),
    (KUBERAY, ["spec", "workerGroupSpecs", 0, "template", "spec", "volumes", 0, "emptyDir"], "size"),
]


@pytest.mark.parametrize(("name", "path", "key"), MISSPELT)
def test_a_misspelt_key_is_refused(name, path, key):
    config = load(name)
    where = config
    for step in path:
        where = where[step]
    where[key] = "1"
    with pytest.raises(ValidationError, match=key):
        check(name, config)


def test_a_wrong_value_is_refused():
    config = load(KUBERAY)
    config["spec"]["workerGroupSpecs"][0]["replicas"] = "two"
    with pytest.raises(ValidationError, match="two"):
        check(KUBERAY, config)


def groups() -> Iterator[tuple[str, dict[str, Any]]]:
    spec = load(KUBERAY)["spec"]
    yield "head", spec["headGroupSpec"]
    for group in spec["workerGroupSpecs"]:
        yield group["groupName"], group


def bytes_of(quantity: str) -> int:
    assert quantity.endswith("Gi")
    return int(quantity.removesuffix("Gi")) << 30


def test_shared_memory_in_kubernetes_is_large_enough_and_within_the_memory_limit():
    for name, group in groups():
        pod = group["template"]["spec"]
        ((container,), (volume,)) = pod["containers"], pod["volumes"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/dev/shm"}], name
        assert volume["emptyDir"]["medium"] == "Memory", name
        size = bytes_of(volume["emptyDir"]["sizeLimit"])
        assert int(group["rayStartParams"]["object-store-memory"]) < size, name
        assert size < bytes_of(container["resources"]["limits"]["memory"]), name


def unknown(line: str) -> list[str]:
    """Return commands and options in a line that Ray's command line does not have."""
    words = shlex.split(line)
    command = cli.commands.get(words[1])
    if command is None:
        return [words[1]]
    options = {option for each in command.params for option in each.opts + each.secondary_opts} | {"--help"}
    return [word for word in words[2:] if word.startswith("-") and word.partition("=")[0] not in options]


def ray_commands() -> Iterator[str]:
    """Yield the calls of `ray` on the page and in the files."""
    for line in COMMANDS:
        if found := re.match(r"(?:\w+=\w+ )?(ray .*)", line):
            yield found[1]
    for name in LAUNCHER:
        config = prepare_config(load(name))
        for line in [*config["head_start_ray_commands"], *config["worker_start_ray_commands"]]:
            yield line[re.search(r"\bray (start|stop)", line).start() :]
    for _, group in groups():
        yield "ray start " + " ".join(f"--{name}={value}" for name, value in group["rayStartParams"].items())


def test_rays_commands_and_their_options_exist():
    lines = list(ray_commands())
    assert len(lines) > 20
    assert [(line, wrong) for line in lines if (wrong := unknown(line))] == []


def test_an_unknown_command_or_option_is_detected():
    assert unknown("ray begin deploy/aws.yaml") == ["begin"]
    assert unknown("ray start --head --object-store=1 --port=6379") == ["--object-store=1"]


def pins(text: str) -> set[tuple[str, str]]:
    """Return the names and versions that a text pins."""
    images = [("ray", version) for version in re.findall(r"rayproject/ray:([\d.]+)-", text)]
    versions = [("ray", version) for version in re.findall(r'rayVersion: "([\d.]+)"', text)]
    return {*re.findall(r"([\w-]+)(?:\[[\w,]+\])?==([\d.]+)", text), *images, *versions}


def test_versions_match_the_pins_of_the_project():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for file in [*DEPLOY.iterdir(), ROOT / "docs/clusters.md"]:
        found = pins(file.read_text(encoding="utf-8"))
        assert "ray" in {name for name, _ in found}, file.name
        assert found <= pins(project), file.name


def test_a_wrong_version_of_ray_is_detected():
    project = pins((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for text in ('"ray[default]==2.1.0"', "FROM rayproject/ray:2.1.0-py311", 'rayVersion: "2.1.0"'):
        assert pins(text) == {("ray", "2.1.0")} and not pins(text) <= project


def test_extras_in_deploy_files_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for file in DEPLOY.iterdir():
        for extra in re.findall(r"replaybench\[(\w+)\]", file.read_text()):
            assert extra in extras, file.name


def test_the_page_shows_each_file_and_options_of_the_example():
    for file in DEPLOY.iterdir():
        assert f"deploy/{file.name}" in PAGE
    usage = (ROOT / "examples/apex_cluster.py").read_text(encoding="utf-8")
    for line in COMMANDS:
        for option in re.findall(r"apex_cluster\.py(.*)", line):
            assert all(f'"{word}"' in usage for word in re.findall(r"--[a-z]+", option)), line


def packing() -> str:
    """Return the command on the page that packs the files for the hosts."""
    (line,) = (line for line in COMMANDS if line.startswith("git archive") and "tar " in line)
    return line


@pytest.mark.slow
def test_the_files_copied_to_hosts_can_be_installed(tmp_path):
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("no git checkout")
    folder = tmp_path / "cluster"
    folder.mkdir()
    subprocess.run(packing().replace("build/cluster", shlex.quote(str(folder))), shell=True, cwd=ROOT, check=True)
    assert (folder / "examples/apex_cluster.py").exists() and (folder / "examples/apex.py").exists()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", tmp_path / "installed", folder], check=True)
    assert list((tmp_path / "installed/cpprb_impl").glob("_native*.so"))
