"""The engine that a name means. No connection is made."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patchstack.engine.choose import open_engine
from patchstack.engine.docker.endpoint import Endpoint, resolve
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import EngineUnavailable
from patchstack.errors import ConfigError, UsageError
from patchstack.installed import install_hint
from tests.conftest import RunCli
from tests.support.builders import a_fork
from tests.support.checkout import ROOT

needs_docker_program = pytest.mark.skipif(not shutil.which("docker"), reason="no Docker engine's program here: docker")


def make_context(config: Path, name: str, host: str, *more: str) -> None:
    """Make a context with docker's own program, as users do."""
    docker = f"host={host}" + "".join(f",{part}" for part in more)
    subprocess.run(
        ["docker", "--config", str(config), "context", "create", name, "--docker", docker],
        check=True,
        capture_output=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(config)},
    )


@pytest.mark.parametrize(
    "command",
    [
        ["build"],
        ["bisect", "--build", "toy", "--run", "true"],
        ["accept", "product", "--without-gates", "--dry-run"],
        ["gate", "backend-ops", "--op", "ADD", "--bin", "upstream", "--engine", "docker", "--image", "none"],
    ],
)
def test_without_a_docker_engine_the_host_is_offered(
    tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    fork = a_fork(tmp_path)
    (tmp_path / "patchstack.yaml").write_text(
        f"variants: {{toy: {{targets: [toy], image: none}}}}\nseries:\n  product:\n    patches: patches\n"
        f"    upstream: upstream\n    pin: {fork.pin}\n    fork: fork\n    fork_ref: product\n    variant: toy\n"
    )
    ran = run_cli(*command)
    assert ran.code == 3, ran
    assert (
        f"error: no Docker engine at unix://{tmp_path}/none.sock (DOCKER_HOST): the socket does not exist" in ran.stderr
    )
    assert "; or use --engine host to run without a container ('patchstack doctor' lists the tools" in ran.stderr


def test_who_names_an_engine_is_not_offered_the_host(tmp_path: Path) -> None:
    pytest.importorskip("docker", reason="no docker package")
    with pytest.raises(EngineUnavailable) as refused:
        open_engine(f"unix://{tmp_path}/none.sock", root=tmp_path).about()
    assert "--engine host" not in str(refused.value.hint)


def test_docker_is_where_docker_itself_would_look(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert resolve("docker", home).url == "unix:///var/run/docker.sock"
    found = resolve("docker", {**home, "DOCKER_HOST": "ssh://me@dgx"})
    assert (found.url, found.source, found.context) == ("ssh://me@dgx", "DOCKER_HOST", None)
    secured = {"DOCKER_HOST": "tcp://gpu:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"}
    found = resolve("docker", {**home, **secured})
    assert found.certificates is not None
    assert (found.certificates.ca, found.certificates.verify) == (Path("/c/ca.pem"), True)
    assert found.docker_arguments() == (
        *("--host", "tcp://gpu:2376", "--tlsverify"),
        *("--tlscacert=/c/ca.pem", "--tlscert=/c/cert.pem", "--tlskey=/c/key.pem"),
    )


@needs_docker_program
def test_contexts_are_those_of_the_docker_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "docker"
    make_context(config, "dgx", "ssh://me@spark")
    make_context(config, "lab", "unix:///run/lab.sock")
    environment = {"HOME": "/nonexistent", "DOCKER_CONFIG": str(config)}
    assert resolve("docker:dgx", environment).url == "ssh://me@spark"
    assert resolve("docker:dgx", environment).docker_arguments() == ("--context", "dgx")
    assert resolve("docker", {**environment, "DOCKER_CONTEXT": "lab"}).url == "unix:///run/lab.sock"
    assert resolve("docker:default", environment).url == "unix:///var/run/docker.sock"
    assert resolve("docker", environment).url == "unix:///var/run/docker.sock"
    (config / "config.json").write_text('{"currentContext": "lab"}')
    assert resolve("docker", environment).source == f"docker context lab, the current context in {config}/config.json"
    assert resolve("docker", {**environment, "DOCKER_HOST": "tcp://x:1"}).url == "tcp://x:1"  # it overrides contexts


@needs_docker_program
def test_a_contexts_certificates_are_found(tmp_path: Path) -> None:
    config = tmp_path / "docker"
    keys = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x"]
    places = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(["openssl", "req", "-x509", *keys, *places], check=True, capture_output=True)
    files = (f"ca={tmp_path}/cert.pem", f"cert={tmp_path}/cert.pem", f"key={tmp_path}/key.pem")
    make_context(config, "gpu", "tcp://gpu:2376", *files)
    found = resolve("docker:gpu", {"HOME": "/", "DOCKER_CONFIG": str(config)}).certificates
    assert found is not None and found.verify
    assert found.ca is not None and found.ca.read_bytes() == (tmp_path / "cert.pem").read_bytes()
    assert found.key is not None and found.key.read_bytes() == (tmp_path / "key.pem").read_bytes()


@needs_docker_program
def test_an_unknown_context_gives_those_there_are_and_the_nearest(tmp_path: Path) -> None:
    make_context(tmp_path, "spark", "ssh://me@spark")
    with pytest.raises(UsageError) as refused:
        resolve("docker:sparc", {"HOME": "/", "DOCKER_CONFIG": str(tmp_path)})
    assert refused.value.message == "docker context 'sparc' does not exist (from the engine's name)"
    assert str(refused.value.hint).startswith("perhaps you meant spark; existing contexts: default, spark; ")


def test_contexts_of_the_working_directory_are_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("docker"):
        make_context(tmp_path / "evil", "trap", "tcp://evil:1")
        shutil.copytree(tmp_path / "evil/contexts", tmp_path / "contexts")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="docker context 'trap' does not exist"):
        resolve("docker:trap", {"HOME": str(tmp_path / "home")})


@pytest.mark.parametrize("endpoints", ["{", "[]", "{}", '{"docker": 1}', '{"docker": {"Host": ""}}'])
def test_a_damaged_context_is_said_to_be_damaged(tmp_path: Path, endpoints: str) -> None:
    meta = tmp_path / "contexts/meta" / hashlib.sha256(b"x").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(f'{{"Name": "x", "Endpoints": {endpoints}}}')
    with pytest.raises(ConfigError) as refused:
        resolve("docker:x", {"HOME": "/", "DOCKER_CONFIG": str(tmp_path)})
    assert str(meta) in refused.value.message


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("podman", "does not name an engine"),
        ("", "does not name an engine"),
        ("HOST", "does not name an engine"),
        ("ftp://x", "unknown kind of address"),
        ("npipe:////./pipe/docker", "unknown kind of address"),
        ("unix://docker.sock", "the path of a socket must be absolute"),
        ("unix://", "the path of a socket must be absolute"),
        ("tcp://gpu", "the port is missing"),
        ("tcp://:2375", "the host is missing"),
        ("tcp://gpu:many", "Port could not be cast"),
        ("ssh://", "the host is missing"),
        ("ssh://me:secret@dgx", "a password is not allowed"),
        ("ssh://dgx?x=1", "text after the address is not allowed"),
    ],
)
def test_what_is_no_engine_is_refused_with_the_forms_there_are(spec: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        open_engine(spec, root=tmp_path)
    assert why in refused.value.message
    assert refused.value.hint == (
        "use one of: host, docker, docker:CONTEXT, ssh://USER@HOST[:PORT], unix:///PATH or tcp://HOST:PORT"
    )


def test_every_form_opens_without_anything_there(tmp_path: Path) -> None:
    assert isinstance(open_engine("host", root=tmp_path), HostEngine)
    for spec in ("docker", "ssh://dgx", "ssh://me@dgx:2222", "unix:///nowhere.sock", "tcp://nowhere.invalid:1"):
        open_engine(spec, root=tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_the_host_needs_no_docker_package_and_the_rest_says_what_to_install(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["docker"] = None
from pathlib import Path
from patchstack.engine.choose import open_engine
print(open_engine("host", root=Path({str(tmp_path)!r})).about().kind)
try:
    open_engine("docker", root=Path({str(tmp_path)!r}))
except Exception as error:
    print(type(error).__name__, error.render())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert done.stdout == (
        "host\nPackageMissing error: the engine docker needs the docker package, which is not installed\n\n"
        f"hint: {install_hint('docker')}; or use --engine host to run without a container ('patchstack doctor' lists "
        "the tools of this machine)\n"
    ), done.stderr


def test_the_host_opens_without_importing_docker(tmp_path: Path) -> None:
    script = "import sys; from patchstack.engine.choose import open_engine; print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert done.stdout == "False\n", done.stderr


def test_a_socket_may_have_any_path() -> None:
    assert Endpoint(spec="x", url="unix:///a b/s", source="y").socket == "/a b/s"
