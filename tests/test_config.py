"""Settings: what is read from where, and what is said when it can not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from gm.config import Config, Setting, load, settings, state_namespace
from gm.errors import ConfigError

DOCS = Path(__file__).parent.parent / "docs" / "configuration.md"


@pytest.fixture
def write(tmp_path: Path) -> Path:
    """Where a test writes its configuration file."""
    return tmp_path / "gm.yaml"


def loaded(path: Path, text: str, **environ: str) -> Config:
    """The settings of a file with ``text``, which must not need a warning."""
    path.write_text(text)
    config, warnings = load(str(path), environ)
    assert warnings == []
    return config


def refusal(path: Path | None, text: str = "", **environ: str) -> str:
    """What is said about a file with ``text`` that can not be used."""
    if path is not None and text:
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(None if path is None else str(path), environ)
    return str(caught.value)


def by_key(key: str) -> Setting:
    """The setting ``key``."""
    return next(setting for setting in settings() if setting.key == key)


@pytest.mark.parametrize(
    "text",
    [
        "websocket: {port: 9000}\nwebsocket.port: 9001\n",
        "websocket.port: 9000\nwebsocket: {address: 0.0.0.0, port: 9001}\n",
    ],
)
def test_two_values_of_a_setting_are_refused(write: Path, text: str) -> None:
    """With dots and in its section; neither of them wins silently."""
    assert refusal(write, text) == (
        f"{write}: websocket.port is 9000, and 9001 in another place of the file: keep one"
    )


def test_a_setting_may_be_repeated_with_its_value_or_without_any(write: Path) -> None:
    """Nothing is lost then; a variable beats both as ever."""
    text = "websocket: {port: 9001}\nwebsocket.port: 9001\nwebsocket.address:\n"
    assert loaded(write, text).websocket.port == 9001
    assert loaded(write, text, GM_WEBSOCKET_PORT="9002").websocket.port == 9002


def test_a_merged_key_may_be_overridden(write: Path) -> None:
    """YAML's ``<<`` is no repetition."""
    text = "log: &a {level: debug}\nhealth: {port: 1}\n"
    merged = "x-shared: &x {level: debug, format: json}\nlog: {<<: *x, level: error}\n"
    assert loaded(write, text).log.level == "debug"
    write.write_text(merged)
    config, warnings = load(str(write), {})
    assert (config.log.level, config.log.format) == ("error", "json")
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("text", "line", "column", "key"),
    [
        ("workers: 4\nlog: {level: info}\nworkers: 4\n", 3, 1, "workers"),
        ("websocket:\n  port: 1\nlog: {}\nwebsocket:\n  address: a\n", 4, 1, "websocket"),
        ("websocket:\n  tls:\n    keyFile: a\n    keyFile: b\n", 4, 5, "keyFile"),
    ],
)
def test_a_key_that_stands_twice_is_refused(
    write: Path, text: str, line: int, column: int, key: str
) -> None:
    """A section that is repeated would lose all of its first part."""
    assert refusal(write, text) == (
        f"{write}: is not YAML: line {line}, column {column}: {key} stands twice here: keep one"
    )


def test_without_file_and_variables_everything_has_its_default() -> None:
    """The defaults are those of Sedna, and ours beside them."""
    config, warnings = load(None, {})
    assert config == Config()
    assert warnings == []
    assert config.websocket.address == "0.0.0.0"
    assert config.websocket.port == 9000
    assert config.local_controller.server == "http://localhost:9100"
    assert config.knowledge_base_server.server == "http://localhost:9020"
    assert config.min_resync_period_seconds == 30
    assert config.aggregation_service == "nodePort"
    assert config.websocket.max_frame_bytes == 8388608


def test_a_configuration_file_of_sedna_is_read_as_it_is(write: Path) -> None:
    """Sedna's own file needs no change."""
    config = loaded(
        write,
        """
kubeConfig: ""
master: ""
namespace: ""
websocket:
  address: 0.0.0.0
  port: 9000
localController:
  server: http://localhost:9100
knowledgeBaseServer:
  server: http://localhost:9020
minResyncPeriodSeconds: 30
""",
    )
    assert config == Config()


def test_every_setting_is_read_from_the_file_under_its_name(write: Path) -> None:
    """Names with capitals that camelCase does not give are among them."""
    config = loaded(
        write,
        """
kubeConfig: /etc/gm/kubeconfig
externalIPs: true
inlineCredentials: true
aggregationService: clusterDNS
completionGraceSeconds: 1.5
websocket:
  auth: mtls
  credentials: never
  tls: {certFile: c.pem, keyFile: k.pem, clientCAFile: ca.pem}
leaderElection: {enabled: true}
log: {format: json, level: debug}
""",
    )
    assert config.kube_config == "/etc/gm/kubeconfig"
    assert config.external_ips is True
    assert config.inline_credentials is True
    assert config.aggregation_service == "clusterDNS"
    assert config.completion_grace_seconds == 1.5
    assert config.websocket.auth == "mtls"
    assert config.websocket.tls.client_ca_file == "ca.pem"
    assert config.leader_election.enabled is True
    assert (config.log.format, config.log.level) == ("json", "debug")


@pytest.mark.parametrize("text", ["", "# nothing\n", "websocket:\nworkers:\n"])
def test_empty_files_sections_and_values_keep_the_defaults(write: Path, text: str) -> None:
    """A key that is there without a value sets nothing."""
    assert loaded(write, text) == Config()


def test_a_key_may_be_written_with_dots(write: Path) -> None:
    """As the documentation and the messages name it."""
    assert loaded(write, "websocket.tls.certFile: c\nwebsocket.tls.keyFile: k\n") == loaded(
        write, "websocket: {tls: {certFile: c, keyFile: k}}"
    )


def test_variables_override_the_file(write: Path) -> None:
    """GM_WORKERS beats workers; numbers and booleans are read from their text."""
    config = loaded(
        write,
        "workers: 2\nwebsocket: {port: 1, maxNodes: 7}\n",
        GM_WORKERS="9",
        GM_WEBSOCKET_PORT="0",
        GM_EXTERNAL_IPS="true",
        GM_WEBSOCKET_TLS_CERT_FILE="c",
        GM_WEBSOCKET_TLS_KEY_FILE="k",
        GM_COMPLETION_GRACE_SECONDS="0.5",
    )
    assert config.workers == 9
    assert (config.websocket.port, config.websocket.max_nodes) == (0, 7)
    assert config.external_ips is True
    assert config.websocket.tls.cert_file == "c"
    assert config.completion_grace_seconds == 0.5


def test_an_empty_variable_counts_as_not_set(write: Path) -> None:
    """Compose files hand over variables that nobody has set as empty ones."""
    assert loaded(write, "workers: 2\n", GM_WORKERS="", GM_MASTER="").workers == 2


def test_unknown_keys_are_warned_of_by_name_with_a_suggestion(write: Path) -> None:
    """A typo does not stop the program, and does not pass unseen either."""
    write.write_text(
        """
websocket: {prot: 1}
localControler: {server: x}
port: 9
frobnicate: {a: 1}
1: 2
"""
    )
    config, warnings = load(str(write), {})
    assert config == Config()
    told = {w.removeprefix(f"{write}: unknown setting ") for w in warnings}
    assert told == {
        "websocket.prot has no effect; did you mean websocket.port?",
        "localControler has no effect; did you mean localController?",
        "port has no effect; did you mean websocket.port?",
        "frobnicate has no effect",
        "1 has no effect",
    }


def test_a_likely_typo_in_a_variable_is_warned_of_and_others_are_left_alone() -> None:
    """Programs beside GM may own variables that begin with GM_ too."""
    _, warnings = load(None, {"GM_WEBSOKET_PORT": "1", "GM_REQUIRE_REAL": "1", "HOME": "/root"})
    assert warnings == [
        "unknown variable GM_WEBSOKET_PORT has no effect; did you mean GM_WEBSOCKET_PORT?"
    ]


def test_variables_that_kubernetes_sets_beside_a_service_are_no_settings() -> None:
    """A Service named gm-websocket puts GM_WEBSOCKET_PORT=tcp://... into every pod."""
    config, warnings = load(
        None,
        {
            "GM_WEBSOCKET_PORT": "tcp://10.96.0.7:9000",
            "GM_WEBSOCKET_PORT_": "tcp://10.96.0.7:9000",
        },
    )
    assert config.websocket.port == 9000
    assert warnings == [
        "GM_WEBSOCKET_PORT is ignored: 'tcp://10.96.0.7:9000' comes from a Kubernetes Service "
        "of that name"
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("workers: many", "workers is 'many'; allowed is a whole number from 1 to 1000"),
        ("workers: 0", "workers is 0; allowed is a whole number from 1 to 1000"),
        ("workers: 2.5", "workers is 2.5; allowed is a whole number from 1 to 1000"),
        ("workers: true", "workers is True; allowed is a whole number from 1 to 1000"),
        (
            "websocket: {port: 70000}",
            "websocket.port is 70000; allowed is a whole number from 0 to 65535",
        ),
        (
            "websocket: {port: '9000'}",
            "websocket.port is '9000'; allowed is a whole number from 0 to 65535",
        ),
        (
            "websocket: {auth: basic}",
            "websocket.auth is 'basic'; allowed is one of none, token, mtls",
        ),
        (
            "completionGraceSeconds: .inf",
            "completionGraceSeconds is inf; allowed is a number of at least 0",
        ),
        ("externalIPs: 'yes'", "externalIPs is 'yes'; allowed is true or false"),
        ("kubeConfig: 7", "kubeConfig is 7; allowed is text"),
        ("master: k8s", "master is 'k8s'; allowed is an http(s):// URL or empty"),
        (
            "namespace: My_Space",
            "namespace is 'My_Space'; allowed is the name of a namespace or empty",
        ),
        (
            "storageInitializerImage: ''",
            "storageInitializerImage is ''; allowed is text, not empty",
        ),
        (
            "localController: {server: 'localhost:9100'}",
            "localController.server is 'localhost:9100'; allowed is an http(s):// URL",
        ),
        ("log: [json]", "log is ['json']; allowed is a section with format, level"),
        ("- a\n- b", "holds a list; allowed is `key: value` lines"),
    ],
)
def test_a_bad_value_stops_the_start_with_file_key_value_and_what_is_allowed(
    write: Path, text: str, told: str
) -> None:
    """Whoever reads the message can mend the file without looking anything up."""
    assert refusal(write, text) == f"{write}: {told}"


def test_a_bad_variable_is_named_as_the_variable() -> None:
    """The message says GM_WORKERS, not workers: that is what was written."""
    assert refusal(None, GM_WORKERS="x") == (
        "GM_WORKERS is 'x'; allowed is a whole number from 1 to 1000"
    )
    assert refusal(None, GM_INLINE_CREDENTIALS="maybe") == (
        "GM_INLINE_CREDENTIALS is 'maybe'; allowed is true or false"
    )


def test_a_section_that_is_no_section_names_what_belongs_into_it(write: Path) -> None:
    """Nested sections are named once, by their own name."""
    told = refusal(write, "websocket: 9000")
    assert told.startswith(f"{write}: websocket is 9000; allowed is a section with address, port,")
    assert told.count("tls") == 1


def test_a_file_that_is_not_there_or_not_yaml_is_said_so(write: Path) -> None:
    """With the place of the mistake, where there is one."""
    assert refusal(write) == f"{write}: can not be read: no such file or directory"
    assert refusal(write.parent) == f"{write.parent}: can not be read: is a directory"
    told = refusal(write, "a: 1\nb: [\n")
    assert told.startswith(f"{write}: is not YAML: line 3, column 1: ")
    write.write_bytes(b"a: \x00")
    assert refusal(write).startswith(f"{write}: is not YAML: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("websocket: {auth: token}", "websocket.auth is 'token' and needs websocket.tokenFile"),
        (
            "websocket: {auth: mtls, tls: {certFile: c, keyFile: k}}",
            "websocket.auth is 'mtls' and needs websocket.tls.certFile, keyFile and clientCAFile",
        ),
        (
            "websocket: {tls: {certFile: c}}",
            "websocket.tls.certFile and websocket.tls.keyFile go together: set both or none",
        ),
    ],
)
def test_settings_that_do_not_fit_together_stop_the_start(
    write: Path, text: str, told: str
) -> None:
    """Each is fine alone."""
    assert refusal(write, text) == told


def test_token_auth_with_its_file_is_fine(write: Path) -> None:
    """The counterpart of the refusal."""
    assert loaded(write, "websocket: {auth: token, tokenFile: t}").websocket.token_file == "t"


def test_every_default_is_allowed_by_its_own_rule() -> None:
    """Writing the default into the file changes nothing."""
    for setting in settings():
        assert setting.parse(setting.default, source=setting.key) == setting.default


def test_the_documentation_lists_every_setting_with_default_and_meaning() -> None:
    """The table in docs/configuration.md is the one that the types make."""
    rows = {
        line.split("|")[1].strip().strip("`"): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in DOCS.read_text().splitlines()
        if line.startswith("| `")
    }
    assert list(rows) == [setting.key for setting in settings()]
    for key, (env, default, allowed, meaning) in rows.items():
        setting = by_key(key)
        assert env == f"`{setting.env}`"
        assert default.strip("`-") == setting.default_text
        assert allowed == setting.allowed
        assert meaning == setting.meaning


def test_records_lie_in_the_pods_own_namespace_unless_set(tmp_path: Path) -> None:
    """Outside a cluster there is no such file: `sedna`."""
    own = tmp_path / "namespace"
    assert state_namespace(Config(), pod_namespace=own) == "sedna"
    own.write_text("edge-system\n")
    assert state_namespace(Config(), pod_namespace=own) == "edge-system"
    own.write_text("")
    assert state_namespace(Config(), pod_namespace=own) == "sedna"
    assert state_namespace(Config(state_namespace="mine"), pod_namespace=own) == "mine"
