use std::collections::BTreeMap;

use clap::Parser;
use serde_json::json;

use super::*;
use crate::testing::World;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    flags: Flags,
}

fn choose(words: &[&str], variables: &[(&str, &str)]) -> Result<Chosen, String> {
    let words = std::iter::once("program").chain(words.iter().copied());
    let flags = Program::try_parse_from(words).map_err(|error| error.to_string())?.flags;
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    Settings::choose(flags, |name| variables.get(name).map(|value| (*value).to_owned()))
        .map_err(|error| error.to_string())
}

fn settings(words: &[&str], variables: &[(&str, &str)]) -> Settings {
    let chosen = choose(words, variables).unwrap();
    let others: Vec<&String> = chosen.warnings.iter().filter(|warning| !warning.contains("has no effect")).collect();
    assert!(others.is_empty(), "{others:?}");
    chosen.settings
}

fn check_refused(words: &[&str], variables: &[(&str, &str)], expected: &str) {
    let error = choose(words, variables).unwrap_err();
    assert!(error.contains(expected), "{error:?} should contain {expected:?}");
}

// 02/OP1
#[test]
fn the_defaults_are_the_references() {
    let expected = Settings {
        metrics_port: 8080,
        health_probe_port: 8081,
        kube_client: Rate { per_second: 200.0, burst: 300 },
        elects_leader: true,
        watches_before_leading: false,
        observes_cluster_state: true,
        lease_name: "karpenter-leader-election".to_owned(),
        lease_namespace: None,
        cpu_requests: 1000,
        log: LogSettings { level: LogLevel::Info, output: vec![LogPath::Stdout], error_output: vec![LogPath::Stderr] },
        batch_max: Duration::from_secs(10),
        batch_idle: Duration::from_secs(1),
        policy: SchedulingPolicy::default(),
        consolidation_payback: Duration::from_secs(86_400),
        pod_move_cooldown: Duration::from_secs(30),
        initialization_timeout: Some(Duration::from_secs(3600)),
        gates: Gates {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        },
        default_spread: Vec::new(),
    };
    assert_eq!(settings(&[], &[]), expected);
    assert_eq!(Settings::default(), expected);
    assert_eq!(expected.nomination(), Duration::from_secs(20));
}

// 02/OP1
#[test]
fn every_flag_has_its_variable_and_wins_over_it() {
    let values = [
        ("metrics-port", "1", "2"),
        ("health-probe-port", "1", "2"),
        ("kube-client-qps", "1", "2"),
        ("kube-client-burst", "1", "2"),
        ("leader-election-name", "a", "b"),
        ("leader-election-namespace", "a", "b"),
        ("cpu-requests", "1500", "2500"),
        ("log-level", "debug", "error"),
        ("log-output-paths", "stderr", "/log,stdout"),
        ("log-error-output-paths", "stdout", "/log"),
        ("batch-max-duration", "30s", "1m30s"),
        ("batch-idle-duration", "500ms", "2s"),
        ("preference-policy", "Ignore", "Respect"),
        ("min-values-policy", "BestEffort", "Strict"),
        ("node-fee", "0.01", "0"),
        ("consolidation-payback", "1h", "0s"),
        ("pod-move-cooldown", "10m", "0s"),
        ("initialization-timeout", "10m", "0s"),
        ("feature-gates", "NodeRepair=true", "NodeOverlay=true"),
        ("disable-leader-election", "true", "false"),
        ("disable-controller-warmup", "false", "true"),
        ("disable-cluster-state-observability", "true", "false"),
    ];
    for (flag, one, other) in values {
        let variable = variable_of(flag);
        let (by_flag, by_other) = (format!("--{flag}={one}"), format!("--{flag}={other}"));
        let expected = settings(&[&by_flag], &[]);
        assert_ne!(expected, settings(&[&by_other], &[]), "{flag}");
        assert_eq!(settings(&[], &[(&variable, one)]), expected, "{variable}");
        assert_eq!(settings(&[&by_flag], &[(&variable, other)]), expected, "--{flag} over {variable}");
    }
}

// 02/OP1
#[test]
fn flags_variables_and_defaults_join() {
    let mixed = settings(&["--metrics-port", "1"], &[("HEALTH_PROBE_PORT", "2"), ("BATCH_MAX_DURATION", "2s")]);
    assert_eq!((mixed.metrics_port, mixed.health_probe_port, mixed.kube_client.burst), (1, 2, 300));
    assert_eq!(mixed.nomination(), Duration::from_secs(10), "never less than ten seconds");
    assert_eq!(settings(&["--initialization-timeout=0s"], &[]).initialization_timeout, None, "nobody minds");
}

// 02/OP1
#[test]
fn a_bare_switch_is_on_and_the_environment_spells_truth_as_go_does() {
    assert!(!settings(&["--disable-leader-election"], &[]).elects_leader);
    for (text, is_on) in [("1", true), ("T", true), ("True", true), ("f", false), ("FALSE", false)] {
        assert_eq!(settings(&[], &[("DISABLE_LEADER_ELECTION", text)]).elects_leader, !is_on, "{text}");
    }
    check_refused(&["--disable-leader-election=1"], &[], "invalid value '1'");
}

// 02/OP1
#[test]
fn each_gate_is_switched_alone() {
    let gates = |list: &str| settings(&["--feature-gates", list], &[]).gates;
    let default = Gates::default();
    assert_eq!(gates("NodeRepair=true"), Gates { node_repair: true, ..default });
    assert_eq!(gates("ReservedCapacity=false"), Gates { reserved_capacity: false, ..default });
    assert!(!settings(&["--feature-gates=ReservedCapacity=false"], &[]).policy.uses_reservations);
    assert_eq!(gates("SpotToSpotConsolidation=true"), Gates { spot_to_spot_consolidation: true, ..default });
    assert_eq!(gates("NodeOverlay=true"), Gates { node_overlay: true, ..default });
    assert_eq!(gates("StaticCapacity=true"), Gates { static_capacity: true, ..default });
    assert_eq!(gates("CapacityBuffer=true"), Gates { capacity_buffer: true, ..default });
    let spaced = gates(" NodeRepair = true , ReservedCapacity=false,");
    assert_eq!(spaced, Gates { node_repair: true, reserved_capacity: false, ..default });
    let unknown = choose(&["--feature-gates=Drift=true,NodeRepair=true"], &[]).unwrap();
    assert!(unknown.settings.gates.node_repair);
    assert_eq!(unknown.warnings, ["the feature gate Drift is unknown and ignored"]);
    check_refused(&["--feature-gates=NodeRepair"], &[], "has the item \"NodeRepair\"; write it as NodeRepair=true");
    check_refused(&["--feature-gates=NodeRepair=yes"], &[], "sets NodeRepair to \"yes\"; use true or false");
}

// 02/OP1
#[test]
fn what_cannot_be_meant_ends_the_start_with_flag_variable_and_remedy() {
    check_refused(&["--log-level=warn"], &[], "--log-level (or LOG_LEVEL) is \"warn\"; use one of debug, info, error");
    check_refused(&[], &[("LOG_LEVEL", "verbose")], "is \"verbose\"; use one of");
    assert_eq!(settings(&["--log-level="], &[]).log.level, LogLevel::Info);
    check_refused(&["--preference-policy=respect"], &[], "use one of Respect, Ignore");
    check_refused(&["--min-values-policy=Relaxed"], &[], "use one of Strict, BestEffort");
    check_refused(&["--ignore-dra-requests=false"], &[], "devices by resource claim are not served yet");
    check_refused(&[], &[("IGNORE_DRA_REQUESTS", "false")], "leave it at true");
    check_refused(&["--kube-client-qps=0"], &[], "use at least 1");
    check_refused(&["--kube-client-burst=0"], &[], "use at least 1");
    check_refused(&["--leader-election-name="], &[], "name a Lease");
    check_refused(&["--metrics-port=none"], &[], "invalid value 'none' for '--metrics-port <PORT>'");
    check_refused(&["--batch-max-duration=10"], &[], "is not a duration: write a number and a unit");
}

#[test]
fn the_fee_of_a_node_is_read_to_the_last_digit() {
    let read = |text: &str| settings(&["--node-fee", text], &[]).policy.node_fee.pico();
    for (text, pico) in [
        ("0.002", 2_000_000_000),
        ("0", 0),
        (" 0.3 ", 300_000_000_000),
        ("0.000000000001", 1),
        ("99.999999999999", 99_999_999_999_999),
        ("100", 100_000_000_000_000),
    ] {
        assert_eq!(read(text), pico, "{text}");
    }
    assert_eq!(Settings::default().policy.node_fee.pico(), 2_000_000_000, "a fifth of a cent");
}

#[test]
fn a_fee_that_no_node_can_have_is_refused_with_flag_variable_and_remedy() {
    for text in ["-0.002", "NaN", "inf", "100.01", "2000000000", "$0.002", "0,002", "2m", ""] {
        let expected =
            format!("--node-fee (or NODE_FEE) is {text:?}; use dollars per hour from 0 to 100, such as 0.002");
        check_refused(&["--node-fee", text], &[], &expected);
        check_refused(&[], &[("NODE_FEE", text)], &expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_fee_of_a_node_is_part_of_what_plans_depend_on() {
    let world = World::with(settings(&["--node-fee=0.25"], &[]));
    let snapshot = world.ctx.store().snapshot(world.ctx.now());
    assert_eq!(snapshot.policy.node_fee, Price::from_dollars(0.25).unwrap());
}

// 02/OP1
#[test]
fn a_variable_that_cannot_be_read_counts_as_unset_and_is_named() {
    let chosen = choose(&[], &[("METRICS_PORT", "none"), ("BATCH_IDLE_DURATION", "1 second")]).unwrap();
    assert_eq!(chosen.settings, Settings::default());
    assert_eq!(chosen.warnings.len(), 2);
    assert!(
        chosen.warnings[0].starts_with("the environment variable METRICS_PORT is \"none\""),
        "{:?}",
        chosen.warnings
    );
    assert!(chosen.warnings[1].contains("--batch-idle-duration does not take"), "{:?}", chosen.warnings);
}

// 02/OP1
#[test]
fn cpu_of_zero_or_less_means_one_core() {
    for (text, expected) in [("0", 1000), ("-5", 1000), ("1500", 1500), ("99999999999", u32::MAX)] {
        assert_eq!(settings(&[], &[("CPU_REQUESTS", text)]).cpu_requests, expected, "{text}");
        assert_eq!(settings(&["--cpu-requests", text], &[]).cpu_requests, expected, "{text}");
    }
    assert_eq!(settings(&["--cpu-requests=1500"], &[]).cores(), 2);
}

#[test]
fn what_has_no_effect_is_said_once() {
    let chosen = choose(&["--enable-profiling", "--karpenter-service=x"], &[("MEMORY_LIMIT", "1000")]).unwrap();
    assert_eq!(chosen.settings, Settings::default());
    assert_eq!(chosen.warnings.len(), 2, "{:?}", chosen.warnings);
    let gates = "NodeRepair=true,SpotToSpotConsolidation=true,StaticCapacity=true,CapacityBuffer=true,NodeOverlay=true";
    let chosen = choose(&["--feature-gates", gates, "--log-error-output-paths=/tmp/errors"], &[]).unwrap();
    let [warning] = &*chosen.warnings else { panic!("{:?}", chosen.warnings) };
    assert!(warning.contains("--log-error-output-paths") && warning.contains("no effect"), "{warning}");
    let spelled_out = choose(&["--log-error-output-paths=stderr", "--feature-gates=NodeRepair=false"], &[]).unwrap();
    assert_eq!(spelled_out.warnings, [""; 0], "that is how it is anyway");
}

// 02/OP2
#[test]
fn the_scheduler_configuration_is_read_as_yaml_or_json() {
    let yaml = "
podTopologySpread:
  defaultConstraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}
    - {maxSkew: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor}
";
    let spreads = settings(&["--scheduler-config", yaml], &[]).default_spread;
    assert_eq!(spreads.len(), 2);
    assert_eq!((spreads[0].max_skew, spreads[0].min_domains), (1, Some(2)));
    assert_eq!(spreads[1].node_taints_policy.as_deref(), Some("Honor"));
    let constraint =
        json!({"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"});
    let json = json!({"podTopologySpread": {"defaultConstraints": [constraint]}}).to_string();
    assert_eq!(settings(&[], &[("SCHEDULER_CONFIG", &json)]).default_spread.len(), 1);
    assert_eq!(settings(&["--scheduler-config", "podTopologySpread: {}"], &[]).default_spread, []);
}

// 02/OP2
#[test]
fn every_fault_of_the_scheduler_configuration_is_refused() {
    let with = |fields: &str| {
        format!(
            "podTopologySpread: {{defaultConstraints: [{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}}, {{{fields}}}]}}"
        )
    };
    for (fields, expected) in [
        ("maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule", "defaultConstraints[1]: maxSkew is 0; use 1"),
        ("maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: DoNotSchedule", "topologyKey \"a b\" may hold"),
        ("maxSkew: 1, topologyKey: '', whenUnsatisfiable: DoNotSchedule", "topologyKey \"\" needs a name"),
        ("maxSkew: 1, topologyKey: a, whenUnsatisfiable: Never", "use DoNotSchedule or ScheduleAnyway"),
        ("maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule", "stands there twice; keep one"),
        ("maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}", "labelSelector cannot"),
        ("maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [b]", "matchLabelKeys cannot"),
        ("maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, minDomains: 0", "minDomains must be"),
        ("maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: No", "use Honor or Ignore"),
        ("maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, colour: red", "unknown field"),
        ("topologyKey: a, whenUnsatisfiable: DoNotSchedule", "maxSkew"),
    ] {
        check_refused(&["--scheduler-config", &with(fields)], &[], expected);
    }
    check_refused(&["--scheduler-config", "podTopology: {}"], &[], "unknown field");
    check_refused(&["--scheduler-config", "[1"], &[], "is no scheduler configuration");
}

// 02/OP3
#[test]
fn workers_grow_with_the_cores() {
    let workers = Workers { least: 10, most: 1000 };
    let cores = [(0.5, 10), (1.0, 10), (1.5, 26), (15.0, 244), (60.0, 1000), (100.0, 1000)];
    for (cores, expected) in cores {
        assert_eq!(workers.at((cores * 1000.0) as u32), expected, "{cores} cores");
    }
}

// 02/OP4
#[test]
fn rates_and_bursts_grow_with_the_workers() {
    let rate = |per_second, least, at_work| scaled_rate(per_second, Workers { least, most: 1000 }, at_work);
    assert_eq!(rate(10.0, 10, 10), Rate { per_second: 10.0, burst: 100 });
    assert_eq!(rate(25.0, 100, 150), Rate { per_second: 38.0, burst: 380 });
}
