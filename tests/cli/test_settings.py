"""Which source wins, what is refused, and that a child sees the same settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.cli._settings import load_settings
from stepwell.errors import SettingsError


def write(text: str, name: str = "stepwell.toml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def test_without_any_source_the_defaults_hold(place: Path) -> None:
    found = load_settings()
    assert found.data == place / "stepwell-data"
    assert found.warehouse_uri == str(place / "stepwell-data" / "warehouse")
    assert found.spools == place / "stepwell-data" / "spool"
    assert (found.proxy.port, found.proxy.run_port, found.gateway.port) == (8789, 8788, 8787)


def test_flag_over_variable_over_file_over_default(monkeypatch: pytest.MonkeyPatch) -> None:
    write('data = "from-file"\n[proxy]\nport = 1001\nrun_port = 1002\ndrain_seconds = 3\n[gateway]\nport = 1003\n')
    monkeypatch.setenv("STEPWELL_PROXY__RUN_PORT", "2002")
    monkeypatch.setenv("STEPWELL_GATEWAY__PORT", "2003")
    found = load_settings(data=None, proxy={"port": None, "run_port": None}, gateway={"port": 3003})
    assert found.data.name == "from-file"
    assert (found.proxy.port, found.proxy.run_port, found.gateway.port) == (1001, 2002, 3003)
    assert found.proxy.drain_seconds == 3
    assert found.proxy.host == "127.0.0.1"


def test_a_warehouse_in_a_folder_is_absolute_and_elsewhere_left_alone(place: Path) -> None:
    assert load_settings(warehouse="tables").warehouse_uri == str(place / "tables")
    assert load_settings(warehouse="s3://bucket/prefix").warehouse_uri == "s3://bucket/prefix"


def test_a_section_may_come_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_PROXY", '{"port": 5, "hosts": ["api.example.com"]}')
    monkeypatch.setenv("STEPWELL_PROXY__RUN_PORT", "6")
    found = load_settings().proxy
    assert (found.port, found.run_port, found.hosts) == (5, 6, ("api.example.com",))


def test_the_file_is_named_by_flag_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[gateway]\nport = 1\n")
    write("[gateway]\nport = 2\n", "other.toml")
    write("[gateway]\nport = 3\n", "third.toml")
    monkeypatch.setenv("STEPWELL_CONFIG", "other.toml")
    assert load_settings().gateway.port == 2
    assert load_settings(Path("third.toml")).gateway.port == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[proxy]\nprot = 1\n", ["'proxy.prot' in stepwell.toml", "did you mean proxy.port?"]),
        ("[porxy]\nport = 1\n", ["'porxy' in stepwell.toml", "did you mean proxy?"]),
        (
            '[[proxy.routes]]\nhost = "a.example"\nupstraem = "http://x"\n',
            ["proxy.routes[0].upstraem", "proxy.routes.upstream"],
        ),
        ("[proxy]\nport = 'many'\n", ["'proxy.port' in stepwell.toml", "integer"]),
        ("[proxy]\nport = 70000\n", ["'proxy.port' in stepwell.toml", "65535"]),
        ("[store]\naws_secret_access_key = 'x'\n", ["store.aws_secret_access_key"]),
        ("[proxy]\nport = 1\nport = 2\n", ["stepwell.toml is not valid TOML", "line 3"]),
    ],
)
def test_what_is_wrong_in_the_file_is_named_in_one_line(text: str, said: list[str]) -> None:
    write(text)
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert all(part in str(error.value) for part in said), error.value
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("STEPWELL_PROXY__PROT", "1", ["the variable STEPWELL_PROXY__PROT", "did you mean STEPWELL_PROXY__PORT?"]),
        ("STEPWELL_PORXY__PORT", "1", ["STEPWELL_PORXY__PORT", "did you mean STEPWELL_PROXY__PORT?"]),
        ("STEPWELL_PROXY_PORT", "1", ["STEPWELL_PROXY_PORT", "did you mean STEPWELL_PROXY__PORT?"]),
        ("STEPWELL_DTAA", "1", ["STEPWELL_DTAA", "did you mean STEPWELL_DATA?"]),
        ("STEPWELL_GATEWAY__PORT", "x", ["STEPWELL_GATEWAY__PORT", "integer"]),
        ("STEPWELL_PROXY__HOSTS", "api.example.com", ["STEPWELL_PROXY__HOSTS", "JSON"]),
        ("STEPWELL_PROXY", "{", ["STEPWELL_PROXY", "JSON"]),
        ("STEPWELL_PROXY", '{"prot": 1}', ["the variable STEPWELL_PROXY", "proxy.prot"]),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: list[str]
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert all(part in str(error.value) for part in said), error.value
    assert "\n" not in str(error.value)


def test_variables_of_other_parts_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "TOKEN", "TRAJECTORY"):
        monkeypatch.setenv(f"STEPWELL_{name}", "something")
    load_settings()


def test_a_wrong_flag_is_named_as_one() -> None:
    with pytest.raises(SettingsError, match=r"gateway\.port \(given on the command line\)"):
        load_settings(gateway={"port": "x"})


def test_a_named_file_must_exist() -> None:
    with pytest.raises(SettingsError, match=r"no settings file absent\.toml"):
        load_settings(Path("absent.toml"))


def test_a_folder_is_no_settings_file(place: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the settings file"):
        load_settings(place)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    port=st.integers(0, 65535),
    hosts=st.lists(st.from_regex(r"[a-z]{1,8}\.example", fullmatch=True), max_size=3),
    warehouse=st.one_of(st.none(), st.just("s3://bucket/prefix"), st.just("/some where/ü")),
    endpoint=st.one_of(st.none(), st.just("http://127.0.0.1:9")),
)
def test_a_child_sees_the_same_settings_whatever_surrounds_it(
    port: int, hosts: list[str], warehouse: str | None, endpoint: str | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        write("[gateway]\nport = 4\n")
        patch.setenv("STEPWELL_PROXY__DRAIN_SECONDS", "7")
        parent = load_settings(
            warehouse=warehouse, gateway={"port": port}, proxy={"hosts": hosts}, store={"endpoint": endpoint}
        )
        environment = parent.environment(os.environ)
        assert "STEPWELL_PROXY__DRAIN_SECONDS" not in environment
        write("[gateway]\nport = 9\nhost = '127.0.0.2'\n")
        patch.setattr(os, "environ", environment)
        child = load_settings()
    assert child.warehouse_uri == parent.warehouse_uri
    assert child.model_copy(update={"warehouse": parent.warehouse}) == parent


def test_the_environment_keeps_what_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    base = {
        "PATH": "/bin",
        "STEPWELL_HOME": "/h",
        "STEPWELL_URL": "u",
        "stepwell_gateway__port": "5",
        "STEPWELL_PROXY__PORT": "1",
    }
    found = load_settings().environment(base)
    assert {name: found[name] for name in ("PATH", "STEPWELL_HOME", "STEPWELL_URL")} == {
        "PATH": "/bin",
        "STEPWELL_HOME": "/h",
        "STEPWELL_URL": "u",
    }
    assert "stepwell_gateway__port" not in found
    assert "STEPWELL_PROXY__PORT" not in found


def test_redaction_rules_reach_a_child(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write('[redact]\ncallables = ["a.b:c"]\n[[redact.rules]]\nname = "keys"\npattern = \'sk-\\w+ "\'\n')
    found = load_settings()
    for name, value in found.environment({}).items():
        monkeypatch.setenv(name, value)
    assert load_settings().redact == found.redact
    assert (found.redact.rules[0].pattern, found.redact.rules[0].replace) == ('sk-\\w+ "', "[redacted]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[redact.rules]]\npattern = "(secret"\n', r"redact\.rules\[0\]\.pattern' in stepwell\.toml: is no regular"),
        ('[redact]\ncallables = ["nothing"]\n', r"redact\.callables\[0\].*package\.module:function"),
        ('[[redact.rules]]\npattern = "act"\n', "rule 1 matches its own replacement"),
    ],
)
def test_a_bad_redaction_rule_is_said_without_the_pattern(place: Path, text: str, words: str) -> None:
    write(text)
    with pytest.raises(SettingsError, match=words) as caught:
        load_settings()
    assert "(secret" not in str(caught.value)
