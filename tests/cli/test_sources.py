"""Where a setting came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepwell.cli._sources import Sources, dotted, explain, is_setting, refuse_unknown_variables
from stepwell.errors import SettingsError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    deep: int = 0


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid")
    port: int = 0
    several: list[Inner] = []


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")
    section: Section = Field(default_factory=Section)


def sources(**layers: Any) -> Sources:
    return Sources(**{"flags": {}, "variables": {}, "file": {}, "path": Path("my.toml"), **layers})


def test_the_highest_layer_that_has_it_is_named() -> None:
    where = ("section", "port")
    file = {"section": {"port": 1}}
    assert sources(file=file).describe(where) == "'section.port' in my.toml"
    assert (
        sources(file=file, variables={"STEPWELL_SECTION__PORT": "1"}).describe(where)
        == "the variable STEPWELL_SECTION__PORT"
    )
    assert (
        sources(file=file, variables={"STEPWELL_SECTION": "{}"}).describe(where)
        == "the variable STEPWELL_SECTION (section.port)"
    )
    assert "command line" in sources(file=file, flags=file).describe(where)
    assert sources().describe(where) == "'section.port'"


def test_a_path_is_written_as_a_user_would() -> None:
    assert dotted(("section", "several", 2, "deep")) == "section.several[2].deep"


def test_an_unknown_key_deep_inside_gets_a_suggestion() -> None:
    values = {"section": {"several": [{"deep": 1}, {"depe": 1}], "prt": 2}}
    with pytest.raises(ValidationError) as error:
        Model.model_validate(values)
    said = explain(Model, error.value, sources(file=values))
    assert "section.several[1].depe" in said
    assert "did you mean section.several.deep?" in said
    assert "(and 1 more)" in said


def test_only_fields_are_settings() -> None:
    assert is_setting(Model, "STEPWELL_SECTION__ANYTHING")
    assert is_setting(Model, "stepwell_section")
    assert not is_setting(Model, "STEPWELL_HOME")
    assert not is_setting(Model, "SECTION")
    with pytest.raises(SettingsError, match="STEPWELL_SECTOIN"):
        refuse_unknown_variables(Model, {"STEPWELL_SECTOIN": ""})
    refuse_unknown_variables(
        Model, {"STEPWELL_HOME": "", "stepwell_section": "", "STEPWELL_TEST_NODE": "", "OTHER": ""}
    )
