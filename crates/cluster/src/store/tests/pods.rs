use std::collections::BTreeSet;

use model::ids::Uid;
use model::pod::{HostPort, Protocol};
use model::resources::Resources;

use super::*;
use crate::wake::Duty;

// 01/STA-01, 02/ST1
#[test]
fn pods_count_while_they_are_bound_and_alive() {
    let mut store = store().with([pod("free", json!({})), pod("here", bound("n"))]);
    assert_eq!(store.cpu_used("n"), 1000, "only the one that is bound");
    store.apply(pod("here", bound("n")), at(0));
    assert_eq!(store.cpu_used("n"), 1000, "once, however often it is told");
    store.apply(pod("free", bound("n")), at(0));
    assert_eq!(store.cpu_used("n"), 2000);
    store.apply(pod("free", merged(bound("n"), json!({"status": {"phase": "Succeeded"}}))), at(0));
    assert_eq!(store.cpu_used("n"), 1000, "one that has ended holds nothing");
    store.apply(pod("here", merged(bound("m"), json!({"metadata": {"uid": "another"}}))), at(0));
    assert_eq!((store.cpu_used("n"), store.cpu_used("m")), (0, 1000), "a name that is used again moves");
    store.end(pod("here", json!({"metadata": {"uid": "another"}})));
    assert_eq!((store.cpu_used("m"), store.pod_count()), (0, 0));
}

// 01/STA-01, 02/ST1
#[test]
fn old_states_and_the_dead_do_not_come_back() {
    let mut store = store().with([pod("a", merged(bound("n"), version(5)))]);
    store.apply(pod("a", version(4)), at(0));
    assert_eq!(store.cpu_used("n"), 1000, "an older state is no news");
    store.end(pod("a", version(7)));
    store.apply(pod("a", merged(bound("n"), version(6))), at(0));
    assert_eq!(store.cpu_used("n"), 0, "it was deleted after that");
    store.apply(pod("a", merged(json!({"metadata": {"uid": "new"}}), merged(bound("n"), version(8)))), at(0));
    store.end(pod("a", version(7)));
    assert_eq!(store.cpu_used("n"), 1000, "the deletion of its predecessor comes late");

    store.apply(pod("b", merged(bound("n"), merged(version(2), json!({"status": {"phase": "Failed"}})))), at(0));
    store.apply(pod("b", merged(bound("n"), version(1))), at(0));
    assert_eq!(store.cpu_used("n"), 1000, "nor does one that has ended rise again");
    store.end(pod("never", version(9)));
    store.apply(pod("never", merged(bound("n"), version(8))), at(0));
    assert_eq!(store.cpu_used("n"), 1000, "nor one whose end came before its beginning");
}

#[test]
fn who_departed_is_known_by_its_id_and_not_for_ever() {
    let mut store = store();
    let mut gone = pod("a", json!({})).gone();
    gone.version = None;
    store.delete(&gone, at(0));
    store.apply(pod("a", merged(bound("n"), version(99))), at(1));
    assert_eq!(store.cpu_used("n"), 0);
    store.snapshot(at(121));
    store.apply(pod("a", merged(bound("n"), version(100))), at(121));
    assert_eq!(store.cpu_used("n"), 1000, "after two minutes nobody remembers");
    store.apply(pod("a", merged(bound("n"), json!({"metadata": {"uid": "heir"}}))), at(122));
    store.delete(&gone, at(123));
    assert_eq!(store.cpu_used("n"), 1000, "another has the name now");
}

// 01/STA-02, 02/ST1
#[test]
fn daemons_are_counted_apart() {
    let daemon = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true},
    ]}});
    let store = store().with([pod("web", bound("n")), pod("agent-1", merged(bound("n"), daemon))]);
    let usage = store.usage(&"n".into());
    assert_eq!((usage.pods, usage.requests.cpu_milli, usage.daemons.cpu_milli), (2, 2000, 1000));
}

// 02/ST5
#[test]
fn pods_that_demand_distance_are_known_while_they_run() {
    let apart = |strength: &str, term: Value| {
        let field = format!("{strength}DuringSchedulingIgnoredDuringExecution");
        json!({"spec": {"nodeName": "n", "affinity": {"podAntiAffinity": {field: [term]}}}})
    };
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {}});
    let mut store = store().with([
        pod("must", apart("required", term.clone())),
        pod("would", apart("preferred", json!({"weight": 1, "podAffinityTerm": term}))),
    ]);
    let mut keeping_away = || {
        let snapshot = store.snapshot(at(1));
        let pods = snapshot.pods.values().filter(|pod| !pod.wants.apart.is_empty());
        pods.map(|pod| pod.name.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keeping_away(), ["must"]);
    store.end(pod("must", json!({})));
    assert!(store.snapshot(at(1)).pods.values().all(|pod| pod.wants.apart.is_empty()));
}

// 01/STA-05, 02/ST3
#[test]
fn volumes_and_ports_outlive_every_update_of_claim_and_node() {
    let user = || {
        pod(
            "db",
            json!({"spec": {"nodeName": "n", "containers": [
                {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]},
            ], "volumes": [
                {"name": "a", "csi": {"driver": "disk"}}, {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
            ]}}),
        )
    };
    let mut store = store().with([
        claim("c", launched("id-1")).into(),
        node("n", "id-1", json!({})),
        user(),
        storage_class("late", json!({})),
        volume_claim("data", json!({"spec": {"storageClassName": "late"}})),
    ]);
    let held = |store: &mut Store| {
        let snapshot = store.snapshot(at(1));
        let pods: Vec<_> = snapshot.pods.values().filter(|pod| pod.node == Some("n".into())).cloned().collect();
        let ports: Vec<HostPort> = pods.iter().flat_map(|pod| pod.wants.ports.clone()).collect();
        let drivers: Vec<(String, usize)> = pods
            .iter()
            .flat_map(|pod| pod.wants.volumes.attached.iter())
            .map(|(driver, volumes)| (driver.to_string(), volumes.len()))
            .collect();
        (ports, drivers)
    };
    let port = HostPort { ip: "".into(), port: 80, protocol: Protocol::Tcp };
    let expected = (vec![port], vec![("disk".to_owned(), 1), ("ebs.csi.aws.com".to_owned(), 1)]);
    assert_eq!(held(&mut store), expected);
    store.apply(claim("c", merged(launched("id-1"), condition("Consolidatable", "True"))), at(1));
    assert_eq!(held(&mut store), expected);
    store.apply(user(), at(1));
    store.apply(node("n", "id-1", json!({"spec": {"unschedulable": true}})), at(1));
    assert_eq!(held(&mut store), expected);
    store.end(node("n", "id-1", json!({})));
    store.apply(node("n", "id-1", json!({})), at(1));
    assert_eq!(held(&mut store), expected);
}

fn storage_class(name: &str, change: Value) -> Object {
    let base = json!({
        "metadata": {"name": name}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    Object::from(read::<k8s_openapi::api::storage::v1::StorageClass>(merged(base, change)))
}

fn volume_claim(name: &str, change: Value) -> Object {
    let base = json!({"metadata": {"namespace": "shop", "name": name}});
    Object::from(read::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(merged(base, change)))
}

fn volume(name: &str, zone: &str) -> Object {
    let terms =
        json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]);
    let wire = json!({"metadata": {"name": name}, "spec": {
        "csi": {"driver": "disk", "volumeHandle": "h"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }});
    Object::from(read::<k8s_openapi::api::core::v1::PersistentVolume>(wire))
}

/// Pods may come before what they refer to; each piece that comes is looked up for them again.
#[test]
fn a_pod_follows_its_claim_its_volume_and_its_class() {
    let user = merged(
        waiting(),
        json!({"spec": {"volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        ]}}),
    );
    let mut store = store().with([pod("db", user)]);
    let check = |store: &mut Store, object: Object, problem: &str, place: &str, wakes: bool| {
        let change = store.apply(object.clone(), at(0));
        let provision = Duty::Provision("db-uid".into());
        assert_eq!(change.wake.contains(&provision), wakes, "{object:?}");
        let batch = store.batch(at(1));
        let pod = batch.pending.iter().chain(&batch.ignored).next().unwrap();
        let problems = format!("{:?}", pod.problems);
        assert!(if problem.is_empty() { pod.problems.is_empty() } else { problems.contains(problem) }, "{problems}");
        let places: Vec<String> = pod.wants.volumes.alternatives.iter().map(ToString::to_string).collect();
        assert_eq!(places.join("; "), place);
        assert_eq!(batch.snapshot.pods[&named("db")], *pod, "the snapshot has the same pod");
    };
    let unbound = || volume_claim("data", json!({"spec": {"storageClassName": "late"}}));
    check(&mut store, pod("other", json!({})), "does not exist", "", false);
    check(&mut store, unbound(), "class late does not exist", "", true);
    let zoned = json!({"allowedTopologies": [
        {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a"]}]},
    ]});
    check(&mut store, storage_class("late", zoned), "", "topology.kubernetes.io/zone In [a]", true);
    let tied = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "noise": "1"}},
        "spec": {"storageClassName": "late", "volumeName": "pv"},
    });
    check(&mut store, volume_claim("data", tied.clone()), "volume pv, which does not exist", "", true);
    check(&mut store, volume("pv", "b"), "", "topology.kubernetes.io/zone In [b]", true);
    let noise =
        merged(tied, json!({"metadata": {"annotations": {"noise": "2"}}, "status": {"capacity": {"storage": "1Gi"}}}));
    check(&mut store, volume_claim("data", noise), "", "topology.kubernetes.io/zone In [b]", false);
    store.end(volume("pv", "b"));
    check(&mut store, pod("other", json!({})), "volume pv, which does not exist", "", false);
    assert_eq!(store.volumes_of(&named("db")), ["pv"]);
}

#[test]
fn a_pod_follows_the_labels_of_namespaces() {
    let term = json!({"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}});
    let lonely = json!({"spec": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
    }}}});
    let mut store = store().with([pod("web", lonely)]);
    let namespace = |team: &str| {
        let wire = json!({"metadata": {"name": "bank", "labels": {"team": team}}});
        Object::from(read::<k8s_openapi::api::core::v1::Namespace>(wire))
    };
    let meant = |store: &mut Store| {
        let snapshot = store.snapshot(at(1));
        snapshot.pods[&named("web")].wants.apart[0].namespaces.contains(&"bank".into())
    };
    assert!(!meant(&mut store));
    store.apply(namespace("a"), at(1));
    assert!(meant(&mut store));
    store.apply(namespace("b"), at(1));
    assert!(!meant(&mut store));
    store.apply(namespace("a"), at(1));
    store.end(namespace("a"));
    assert!(!meant(&mut store));
}

#[test]
fn default_spreads_follow_services_and_controllers_only_where_the_operator_chose_some() {
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    let settings = |default_spread| Settings { default_spread, ..Settings::default() };
    let service = || {
        let wire = json!({"metadata": {"namespace": "shop", "name": "s"}, "spec": {"selector": {"app": "web"}}});
        Object::from(read::<k8s_openapi::api::core::v1::Service>(wire))
    };
    let spreads = |store: &mut Store| store.snapshot(at(1)).pods[&named("web")].wants.spread.len();
    let mut store = Store::new(settings(read(spread)), at(0)).with([pod("web", json!({})), service()]);
    assert_eq!(spreads(&mut store), 1);
    store.end(service());
    assert_eq!(spreads(&mut store), 0);
    assert!(store.workloads.is_empty(), "nothing is kept of what is gone");
    let mut store = Store::new(settings(Vec::new()), at(0)).with([pod("web", json!({})), service()]);
    assert_eq!(spreads(&mut store), 0);
    assert!(store.workloads.is_empty(), "nor of what nobody asks for");
}

// 01/STA-07, 02/ST7
#[test]
fn the_newest_pod_of_a_daemon_set_is_remembered_until_the_set_is_gone() {
    let set = || {
        let wire = json!({"metadata": {"namespace": "shop", "name": "agent"}, "spec": {"selector": {}, "template": {
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "7"}}}]},
        }}});
        Object::from(read::<k8s_openapi::api::apps::v1::DaemonSet>(wire))
    };
    let live = |name: &str, owner: &str, minute: u32, cpu: &str| {
        pod(
            name,
            json!({
                "metadata": {"creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"), "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": owner, "name": "agent", "uid": "d", "controller": true},
                ]},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            }),
        )
    };
    let cpu = |store: &mut Store| {
        store.snapshot(at(1)).daemons.values().map(|daemon| daemon.requests.cpu_milli).collect::<Vec<_>>()
    };
    let newest = |store: &Store| store.newest_daemon_pod(&named("agent")).map(|pod| pod.name.name.to_string());
    let mut store = store().with([live("early", "DaemonSet", 1, "1")]);
    assert_eq!((cpu(&mut store), newest(&store)), (vec![], None), "no set, no daemon");
    store.apply(set(), at(0));
    assert_eq!((cpu(&mut store), newest(&store).as_deref()), (vec![1000], Some("early")));
    store.apply(live("late", "DaemonSet", 9, "2"), at(0));
    store.apply(live("middle", "DaemonSet", 5, "3"), at(0));
    store.apply(live("foreign", "ReplicaSet", 10, "4"), at(0));
    assert_eq!((cpu(&mut store), newest(&store).as_deref()), (vec![2000], Some("late")));
    store.end(live("late", "DaemonSet", 9, "2"));
    assert_eq!(cpu(&mut store), [3000]);
    store.end(live("middle", "DaemonSet", 5, "3"));
    store.end(live("early", "DaemonSet", 1, "1"));
    assert_eq!((cpu(&mut store), newest(&store)), (vec![7000], None), "the template, when there is no pod");
    store.end(set());
    assert!(cpu(&mut store).is_empty());
}

// 01/POD-01 differs: 0037
#[test]
fn who_is_like_a_pod_that_was_refused_need_not_wait_for_the_scheduler() {
    let mut store = store();
    let fresh =
        |change: serde_json::Value| merged(json!({"metadata": {"creationTimestamp": "1970-01-01T00:01:19Z"}}), change);
    let wakes = |store: &mut Store, name: &str, change: serde_json::Value| {
        let calls = store.apply(pod(name, fresh(change)), at(80)).wake;
        calls.contains(&Duty::Provision(Uid::from(format!("{name}-uid"))))
    };
    assert!(!wakes(&mut store, "first", json!({})), "nobody like it was refused");
    assert!(store.has_unjudged(at(80)));
    assert!(wakes(&mut store, "refused", waiting()));
    assert!(!store.has_unjudged(at(80)), "what will be said of the first is known");
    assert!(wakes(&mut store, "like", json!({})));
    assert!(!wakes(&mut store, "gated", json!({"spec": {"schedulingGates": [{"name": "later"}]}})));
    assert!(!wakes(&mut store, "other", json!({"metadata": {"labels": {"app": "other"}}})));
    assert!(!wakes(&mut store, "urgent", json!({"spec": {"priority": 7}})));
    assert!(!wakes(&mut store, "old", json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:20Z"}})));
    let names =
        |store: &Store, now: Instant| store.provisionable(now).map(|pod| pod.name.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&store, at(80)), ["first", "like", "refused"]);
    assert_eq!(names(&store, at(140)), ["refused"], "they have waited for too long to be new");
    store.apply(pod("refused", fresh(bound("n"))), at(80));
    assert_eq!(names(&store, at(80)), [""; 0], "nobody like them is refused now");
}

#[test]
fn waiting_pods_wake_provisioning_and_other_news_of_them_does_not() {
    let mut store = store();
    let provision: BTreeSet<Duty> = [Duty::Provision(Uid::from("a-uid"))].into();
    assert_eq!(store.apply(pod("a", json!({})), at(0)).wake, BTreeSet::new(), "nobody has tried to place it yet");
    assert_eq!(store.apply(pod("a", waiting()), at(0)).wake, provision);
    let heartbeat = merged(waiting(), json!({"metadata": {"annotations": {"noise": "1"}}}));
    assert_eq!(store.apply(pod("a", heartbeat), at(0)).wake, BTreeSet::new(), "nothing that matters has changed");
    let nominated = merged(waiting(), json!({"status": {"nominatedNodeName": "n"}}));
    assert_eq!(store.apply(pod("a", nominated), at(0)).wake, BTreeSet::new(), "the scheduler is making room");
    assert_eq!(store.apply(pod("a", waiting()), at(0)).wake, provision);
    assert_eq!(store.provisionable(at(0)).count(), 1);
    let change = store.apply(pod("a", bound("n")), at(0));
    assert_eq!(change.wake, [Duty::PodEvent("n".into())].into(), "disruption had not reckoned with it");
    assert_eq!(store.provisionable(at(0)).count(), 0);
}

#[test]
fn the_first_list_is_no_event_of_its_pods() {
    let mut store = store();
    store.restart(Kind::Pod);
    let change = store.apply(pod("old", bound("n")), at(0));
    assert_eq!(change.wake, BTreeSet::new(), "it was there before us");
    store.finish_list(Kind::Pod, None, at(0));
    let event = Duty::PodEvent("n".into());
    assert!(store.apply(pod("new", bound("n")), at(0)).wake.contains(&event));
    assert!(store.apply(pod("old", merged(bound("n"), deleting())), at(0)).wake.contains(&event));
    let ended = merged(bound("n"), json!({"status": {"phase": "Succeeded"}}));
    assert!(store.apply(pod("new", ended), at(0)).wake.contains(&event));
}

// 01/POD-06
#[test]
fn a_pod_with_a_problem_is_set_aside_and_holds_up_nobody() {
    let broken = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}});
    let mut store = store().with([pod("good", waiting()), pod("broken", merged(waiting(), broken))]);
    let batch = store.batch(at(1));
    let names = |pods: &[Arc<model::pod::Pod>]| pods.iter().map(|pod| pod.name.name.to_string()).collect::<Vec<_>>();
    assert_eq!((names(&batch.pending), names(&batch.ignored)), (vec!["good".to_owned()], vec!["broken".to_owned()]));
    assert_eq!(batch.pods().count(), 1);
}

#[test]
fn pods_of_leaving_machines_need_a_place_if_they_can_move() {
    let budget = json!({"metadata": {"namespace": "shop", "name": "b"}, "spec": {
        "maxUnavailable": 0, "selector": {"matchLabels": {"app": "stuck"}},
    }});
    let mut store = store().with([
        claim("c", launched("id-1")).into(),
        node("n", "id-1", json!({})),
        pod("moves", bound("n")),
        pod("stuck", merged(bound("n"), json!({"metadata": {"labels": {"app": "stuck"}}}))),
        pod("ends", merged(bound("n"), deleting())),
        pod("elsewhere", bound("m")),
        Object::from(read::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(budget)),
    ]);
    assert!(store.batch(at(1)).is_empty());
    let change = store.apply(claim("c", merged(launched("id-1"), deleting())), at(1));
    assert!(change.wake.contains(&Duty::Provision("n-uid".into())), "its pods need another place: {change:?}");
    let displaced = store.batch(at(1)).displaced;
    assert_eq!(displaced.iter().map(|pod| &*pod.name.name).collect::<Vec<_>>(), ["moves"]);
    let change = store.end(pod("moves", json!({})));
    assert!(change.wake.contains(&Duty::Node("n".into())), "whoever drains the node wants to know");
}

// 01/STA-13, 02/ST13
#[test]
fn counts_of_buffer_pods_are_replaced_as_a_whole() {
    let mut store = store();
    store.set_buffered([("a".into(), 2), ("b".into(), 1)].into());
    store.set_buffered([("b".into(), 5)].into());
    assert_eq!((store.buffered_on(&"a".into()), store.buffered_on(&"b".into())), (0, 5));
}

#[test]
fn a_buffer_stands_for_pods_as_long_as_it_can_be_resolved() {
    let buffer = |replicas: i32| {
        let wire = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"namespace": "shop", "name": "room", "uid": "u"},
            "spec": {"podTemplateRef": {"name": "t"}, "replicas": replicas},
        });
        Object::from(read::<api::CapacityBuffer>(wire))
    };
    let template = || Template {
        spec: read(json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}})),
        source: crate::lower::buffer::Source::PodTemplate,
    };
    let mut store = store();
    assert!(store.resolve_buffer(&named("room"), Some(template()), at(0)).is_empty(), "there is no such buffer");
    assert!(store.apply(buffer(2), at(0)).wake.contains(&Duty::Buffer(named("room"))));
    assert_eq!(store.batch(at(1)).buffered.len(), 0);
    let mark = store.quiet_mark(at(1));
    let change = store.resolve_buffer(&named("room"), Some(template()), at(1));
    assert!(change.wake.iter().any(|call| matches!(call, Duty::Provision(_))), "{change:?}");
    assert_ne!(store.quiet_mark(at(1)), mark);
    let batch = store.batch(at(1));
    assert_eq!(batch.buffered.len(), 2);
    assert_eq!(batch.snapshot.pods.len(), 2);
    assert!(
        batch
            .buffered
            .iter()
            .all(|pod| pod.is_virtual && pod.requests == Resources::default().with("cpu", 2000).with("pods", 1))
    );
    store.apply(buffer(1), at(1));
    assert_eq!(store.batch(at(1)).snapshot.pods.len(), 1);
    let name = store.batch(at(1)).buffered[0].name.clone();
    assert_eq!(store.nominate(&name, &"n".into(), at(1)), None);
    assert!(!store.is_nominated(&"n".into(), at(1)), "no machine is held back for a pod that does not exist");
    let mark = store.quiet_mark(at(1));
    store.end(buffer(1));
    assert_eq!(store.batch(at(2)).snapshot.pods.len(), 0);
    assert_ne!(store.quiet_mark(at(2)), mark, "what was kept free for it need not be");
}

fn unreadable(name: &str, change: Value) -> Undecodable {
    let wire = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("{name}-uid")},
        "spec": {"nodeName": "n", "containers": 3}, "status": {"phase": "Running"},
    });
    let text = merged(wire, change).to_string();
    let problem = Object::decode(Kind::Pod, text.as_bytes()).unwrap_err();
    Undecodable::read(Kind::Pod, text.as_bytes(), problem)
}

#[test]
fn a_pod_that_cannot_be_read_is_known_to_be_on_its_node_until_it_can_be_or_is_gone() {
    let mut store = store().with([node("n", "id-1", deleting())]);
    let on = |store: &Store| store.unread_on(&"n".into()).iter().map(ToString::to_string).collect::<Vec<_>>();
    let odd = unreadable("odd", json!({}));
    assert_eq!((odd.uid.clone(), odd.key.to_string()), (Some(Uid::from("odd-uid")), "Pod shop/odd".to_owned()));
    store.see_undecodable(&odd);
    assert_eq!(on(&store), ["shop/odd"]);
    let change = store.apply(pod("odd", merged(bound("n"), version(2))), at(0));
    assert!(change.wake.contains(&Duty::Node("n".into())), "{change:?}");
    assert_eq!(on(&store), [""; 0]);
    store.see_undecodable(&odd);
    assert_eq!((on(&store).len(), store.guests_on(&"n".into()).len()), (0, 1), "what was known of it stays");
    store.end(pod("odd", version(3)));
    store.see_undecodable(&unreadable("other", json!({})));
    assert_eq!(on(&store), ["shop/other"]);
    store.see_undecodable(&unreadable("other", json!({"status": {"phase": "Succeeded"}})));
    assert_eq!(on(&store), [""; 0], "it has ended");
}

#[test]
fn a_pod_that_cannot_be_read_goes_with_the_list_that_does_not_show_it() {
    let mut store = store();
    store.see_undecodable(&unreadable("odd", json!({})));
    store.restart(Kind::Pod);
    store.see_undecodable(&unreadable("odd", json!({})));
    store.finish_list(Kind::Pod, None, at(0));
    assert_eq!(store.unread_on(&"n".into()).len(), 1);
    store.restart(Kind::Pod);
    let change = store.finish_list(Kind::Pod, None, at(0));
    assert_eq!((store.unread_on(&"n".into()).len(), change.wake.len()), (0, 0));
}
