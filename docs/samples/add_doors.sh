#!/bin/sh
# Put the gate's doors into an api-paste.ini of Heat, before its applications: add_doors.sh FILE
set -eu
if grep -q '^\[filter:datalog_gate\]' "$1"; then
    exit 0
fi
sed -i -e 's/ apiv1app$/ datalog_gate apiv1app/' -e 's/ apicfnv1app$/ datalog_gate_cfn apicfnv1app/' "$1"
cat >> "$1" <<'END'

[filter:datalog_gate]
use = egg:datalog-gate#datalog_gate

[filter:datalog_gate_cfn]
use = egg:datalog-gate#datalog_gate_cfn
END
