# The DevStack plugin for the local.conf in docs/deploy.md. Enable it after Heat's own plugin.

if is_service_enabled h-api && [[ "$1" == "stack" ]]; then
    case "$2" in
        install)
            pip_install "$DEST/datalog-gate"
            ;;
        post-config)
            "$DEST/datalog-gate/docs/samples/add_doors.sh" "$HEAT_CONF_DIR/api-paste.ini"
            doors=$("${PYTHON:-python3}" -c 'import datalog_gate.doors.heat as heat; print(heat.__path__[0] + "/engine")')
            others=$(iniget "$HEAT_CONF" DEFAULT plugin_dirs)
            iniset "$HEAT_CONF" DEFAULT plugin_dirs "${others:-/usr/lib64/heat,/usr/lib/heat,/usr/local/lib64/heat,/usr/local/lib/heat},$doors"
            iniset "$HEAT_CONF" datalog_gate rules "$DATALOG_GATE_RULES"
            iniset "$HEAT_CONF" datalog_gate mode "$DATALOG_GATE_MODE"
            iniset "$HEAT_CONF" datalog_gate decision_log "$DATA_DIR/heat/decisions.jsonl"
            mkdir -p "$DATA_DIR/heat"
            ;;
    esac
fi
