"""The sample files are what oslo's generators write."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

from oslo_config import cfg, generator
from oslo_policy import generator as policies

from tests.pages import DOCS, assert_written


def test_the_sample_of_heat_conf_has_every_option() -> None:
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(["--namespace", "datalog_gate"], default_config_files=[])
    output = io.StringIO()
    generator.generate(conf, output_file=output)
    assert_written(DOCS / "samples" / "heat.conf", output.getvalue())


def test_the_sample_of_the_policy_file_has_every_rule() -> None:
    conf = cfg.ConfigOpts()
    output = io.StringIO()
    with redirect_stdout(output):
        policies.generate_sample(["--namespace", "datalog_gate"], conf)
    assert_written(DOCS / "samples" / "policy.yaml", output.getvalue())
