use super::*;
use crate::testing::Trouble;

const EVICTION: &str = "POST /api/v1/namespaces/shop/pods/a/eviction";
const DELETION: &str = "DELETE /api/v1/namespaces/shop/pods/a";

/// A node with the pod `a`, which was ordered to go.
async fn ordered(change: Value, claim: Value) -> Stage {
    let stage = Stage::with([merged(pod("a"), change)]);
    stage.world.put(claim);
    stage.tick().await;
    assert_eq!(stage.ordered(&["a"]), ["a"]);
    stage
}

async fn plain() -> Stage {
    ordered(json!({}), claim_of("n", json!({}))).await
}

// 02/EV3 02/EV4 02/EV8 02/TE10 02/TE11
#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_by_its_uid_and_told_why() {
    let unschedulable =
        json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}});
    let stage = ordered(unschedulable, claim_of("n", json!({}))).await;
    assert_eq!(stage.attempt("a").await, Next::OnChange);
    assert!(!stage.has_pod("a") && stage.evictions.len() == 0);
    let body = &stage.world.server.asked(EVICTION)[0].body;
    assert_eq!(body["deleteOptions"], json!({"preconditions": {"uid": "uid-a"}}));
    assert_eq!((&body["kind"], &body["apiVersion"]), (&json!("Eviction"), &json!("policy/v1")));
    assert_eq!(stage.told("Evicted").await, ["Evicted pod: Forceful Termination"]);
    stage.counted(r#"karpenter_pods_eviction_requests_total{code="200"} 1"#);
    stage.counted(r#"karpenter_pods_drained_total{reason="Forceful Termination"} 1"#);

    let why = json!({"type": "DisruptionReason", "status": "True", "reason": "Drifted", "lastTransitionTime": EPOCH});
    let stage = ordered(json!({}), claim_of("n", json!({"status": {"conditions": [why]}}))).await;
    stage.attempt("a").await;
    assert_eq!(stage.told("Evicted").await, ["Evicted pod: Drifted"]);
    stage.counted(r#"karpenter_pods_drained_total{reason="Drifted"} 1"#);
}

// 02/EV1 02/EV2 02/EV12
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_or_another_by_now_is_dropped_in_silence() {
    for code in [404, 409] {
        let stage = plain().await;
        stage.world.server.trouble(EVICTION, Trouble::Refuses(code));
        assert_eq!(stage.attempt("a").await, Next::OnChange);
        assert_eq!(stage.evictions.len(), 0);
        assert!(stage.told("Evicted").await.is_empty());
        stage.counted(&format!(r#"karpenter_pods_eviction_requests_total{{code="{code}"}} 1"#));
    }
    let stage = plain().await;
    stage.world.server.remove("Pod", "a");
    assert_eq!(stage.attempt("a").await, Next::OnChange);
    assert_eq!(stage.evictions.len(), 0, "nothing is left behind");
    assert!(stage.world.server.asked(EVICTION).is_empty());
}

// 02/TE21
#[tokio::test(start_paused = true)]
async fn a_new_pod_of_the_same_name_is_not_meant() {
    let stage = plain().await;
    stage.world.server.remove("Pod", "a");
    stage.world.put(merged(pod("a"), json!({"metadata": {"uid": "another"}})));
    assert_eq!(stage.attempt("a").await, Next::OnChange);
    assert!(stage.has_pod("a") && stage.world.server.asked(EVICTION).is_empty());
}

// 02/EV5 02/TE14
#[tokio::test(start_paused = true)]
async fn a_budget_that_says_no_is_asked_again_later_and_later() {
    let stage = plain().await;
    for millis in [100, 200, 400] {
        stage.world.server.trouble(EVICTION, Trouble::Refuses(429));
        assert_eq!(stage.attempt("a").await, Next::After(Duration::from_millis(millis)));
    }
    assert_eq!(stage.ordered(&["a"]), ["a"]);
    pass(121).await;
    stage.world.server.trouble(EVICTION, Trouble::Refuses(429));
    stage.attempt("a").await;
    let told = stage.told("FailedDraining").await;
    assert!(told.contains(&"Failed to drain node, evicting pod violates a PDB (Pod=shop/a)".to_owned()), "{told:?}");
    stage.tick().await;
    assert!(stage.has_node("n") && stage.has_pod("a"));
    stage.attempt("a").await;
    assert!(!stage.has_pod("a"));
}

// 02/EV6
#[tokio::test(start_paused = true)]
async fn two_budgets_over_one_pod_are_named() {
    let stage = plain().await;
    pass(121).await;
    stage.world.server.trouble(EVICTION, Trouble::SeveralBudgets);
    assert_eq!(stage.attempt("a").await, Next::After(Duration::from_millis(100)));
    let told = stage.told("FailedDraining").await;
    let text = "Failed to drain node, eviction does not support multiple PDBs (Pod=shop/a)".to_owned();
    assert!(told.contains(&text), "{told:?}");
    stage.counted(r#"karpenter_pods_eviction_requests_total{code="500"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_want_to_be_disturbed_is_held_until_it_does() {
    let protected =
        json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "30s"}}, "status": {"startTime": EPOCH}});
    let stage = ordered(protected, claim_of("n", json!({}))).await;
    assert_eq!(stage.attempt("a").await, Next::After(Duration::from_secs(10)));
    pass(25).await;
    assert_eq!(stage.attempt("a").await, Next::After(Duration::from_secs(5)));
    assert!(stage.has_pod("a") && stage.world.server.asked(EVICTION).is_empty());
    let until = "The karpenter.sh/do-not-disrupt grace period will elapse at 2026-01-01T00:00:30Z";
    assert_eq!(stage.told("DoNotDisruptUntil").await, [until]);
    pass(5).await;
    stage.attempt("a").await;
    assert!(!stage.has_pod("a"));
    let elapsed = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable";
    assert_eq!(stage.told("DoNotDisruptGracePeriodElapsed").await, [elapsed]);
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_makes_no_sense_is_told_and_protects_nothing() {
    let odd = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "maybe"}}});
    let stage = ordered(odd, claim_of("n", json!({}))).await;
    stage.attempt("a").await;
    assert!(!stage.has_pod("a"));
    let told = stage.told("InvalidDoNotDisruptAnnotation").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("Invalid karpenter.sh/do-not-disrupt annotation: \"maybe\" is neither true nor"),
        "{told:?}"
    );
}

// 02/EV9 02/EV10 02/TE22 02/TE23
#[tokio::test(start_paused = true)]
async fn a_deadline_deletes_in_time_whatever_protects_the_pod() {
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    let stage = ordered(protected, claim_of("n", json!({}))).await;
    stage.attempt("a").await;
    assert!(stage.has_pod("a"));
    // Somebody sets a deadline while the drain hangs.
    stage.world.put(with_deadline("2026-01-01T00:01:00Z"));
    pass(29).await;
    stage.tick().await;
    assert_eq!(stage.attempt("a").await, Next::After(Duration::from_secs(1)));
    assert!(stage.world.server.asked(DELETION).is_empty(), "it still has all of its grace");
    pass(1).await;
    stage.attempt("a").await;
    assert!(stage.world.server.asked(EVICTION).is_empty());
    let deletion = &stage.world.server.asked(DELETION)[0].body;
    assert_eq!((&deletion["gracePeriodSeconds"], &deletion["preconditions"]["uid"]), (&json!(30), &json!("uid-a")));
    let told = stage.told("Disrupted").await;
    let text = "Deleting the pod to accommodate the terminationTime 2026-01-01T00:01:00Z of the node. The pod was granted 30 \
                seconds of grace-period of its 30 terminationGracePeriodSeconds. This bypasses the PDB of the pod and the \
                do-not-disrupt annotation.";
    assert_eq!(told, [text]);
    assert_eq!(stage.evictions.len(), 0);
}

// 02/TE24 02/TE25 02/EV13
#[tokio::test(start_paused = true)]
async fn a_pod_that_would_end_too_late_gets_what_is_left() {
    let ending = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z", "finalizers": ["example.com/x"]},
        "spec": {"priorityClassName": "system-cluster-critical"},
    });
    let stage = Stage::with([
        merged(pod("a"), ending),
        merged(pod("b"), json!({"spec": {"terminationGracePeriodSeconds": 1}})),
    ]);
    stage.world.put(with_deadline("2026-01-01T00:01:00Z"));
    pass(20).await;
    stage.tick().await;
    assert_eq!(stage.ordered(&["a", "b"]), ["a", "b"], "it does not wait for its tier");
    stage.attempt("a").await;
    assert_eq!(stage.world.server.asked(DELETION)[0].body["gracePeriodSeconds"], 40);
    pass(100).await;
    stage.tick().await;
    stage.attempt("b").await;
    let last = &stage.world.server.asked("DELETE /api/v1/namespaces/shop/pods/b")[0].body;
    assert_eq!(last["gracePeriodSeconds"], 1);
}

// 02/EV7 02/EV10 02/EV11
#[tokio::test(start_paused = true)]
async fn deadlines_only_ever_get_tighter_whoever_adds_them() {
    let stage = Stage::new();
    let (order, node) = (stage.order("a"), NodeName::from("n"));
    let at = |second: i64| Some(Instant::from_unix_seconds(second));
    let steps = [(None, None), (at(100), at(100)), (at(200), at(100)), (None, at(100)), (at(50), at(50))];
    let news = [true, true, false, false, true];
    for ((added, expected), is_news) in steps.into_iter().zip(news) {
        assert_eq!(stage.evictions.add(&order, &node, added), is_news, "{added:?}");
        assert_eq!(stage.evictions.get(&order).unwrap().deadline, expected);
    }
    let evictions = &stage.evictions;
    std::thread::scope(|scope| {
        for second in 1..20 {
            let (order, node) = (&order, &node);
            scope.spawn(move || evictions.add(order, node, at(second)));
        }
    });
    assert_eq!((evictions.len(), evictions.get(&order).unwrap().deadline), (1, at(1)));
}

// 02/EV5
#[tokio::test(start_paused = true)]
async fn other_failures_are_errors_and_tried_again() {
    let stage = plain().await;
    stage.world.server.trouble(EVICTION, Trouble::Refuses(503));
    stage.world.sync();
    let failed = stage.queue.tick(&stage.world.ctx, &stage.order("a"), &stage.world.id()).await.unwrap_err();
    assert_eq!(failed.reaction(), crate::Reaction::BackOff);
    assert_eq!(stage.ordered(&["a"]), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_was_refused_is_not_asked_sooner_because_somebody_looks_at_the_node() {
    let stage = Stage::with([pod("a")]);
    (0..200).for_each(|_| stage.world.server.trouble(EVICTION, Trouble::Refuses(429)));
    let restless = async {
        for number in 0..300 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let note = json!({"metadata": {"labels": {"number": number.to_string()}}});
            stage.world.put(merged(stage.world.server.get("Pod", "a").unwrap(), note));
        }
    };
    futures::join!(stage.world.run(Duration::from_secs(3)), restless);
    let asked = stage.world.server.asked(EVICTION).len();
    assert!((3..=6).contains(&asked), "{asked} times in three seconds");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_refused_is_deleted_when_its_time_is_up_and_not_later() {
    let stage = ordered(json!({}), with_deadline("2026-01-01T00:01:00Z")).await;
    pass(29).await;
    for millis in [100, 200, 400, 800, 1000, 1000] {
        stage.world.server.trouble(EVICTION, Trouble::Refuses(429));
        assert_eq!(stage.attempt("a").await, Next::After(Duration::from_millis(millis)));
    }
}

// Spec 02, flaw 28: orders for pods that vanish do not pile up.
#[tokio::test(start_paused = true)]
async fn an_order_that_nobody_comes_back_to_is_not_kept() {
    let stage = plain().await;
    stage.world.server.trouble(EVICTION, Trouble::Refuses(410));
    stage.world.sync();
    stage.queue.tick(&stage.world.ctx, &stage.order("a"), &stage.world.id()).await.unwrap_err();
    assert_eq!(stage.evictions.len(), 0);
}

// Spec 02, flaw 34: there only an event tells who holds up a drain.
#[tokio::test(start_paused = true)]
async fn a_claim_names_who_holds_up_its_drain_for_as_long_as_somebody_does() {
    let blocked = |stage: &Stage| stage.world.condition("NodeClaim", "claim-n", "DrainBlocked");
    let says = |reason: &str, message: &str| Some(["True", reason, message].map(str::to_owned));
    let stage = plain().await;
    assert_eq!(blocked(&stage), None, "it will go");
    stage.world.server.trouble(EVICTION, Trouble::Refuses(429));
    stage.attempt("a").await;
    stage.tick().await;
    assert_eq!(blocked(&stage), says("PodDisruptionBudget", "a PodDisruptionBudget keeps pod shop/a"));
    assert_eq!(stage.condition("Drained"), ["Unknown", "Draining"]);
    pass(90).await;
    let shows = |line: &str| {
        let text = stage.world.ctx.metrics.scrape(&stage.world.ctx);
        let near: Vec<&str> = text.lines().filter(|found| found.starts_with("dovetail_draining")).collect();
        assert!(near.contains(&line), "{line} is not among {near:#?}");
    };
    shows(r#"dovetail_draining_blocked_seconds{nodepool="default",cause="pdb"} 90"#);
    shows(r#"dovetail_draining_blocked_nodes{nodepool="default",cause="pdb"} 1"#);
    // Another one takes its place: the drain has been held up since the first.
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    stage.world.put(merged(pod("b"), protected));
    stage.attempt("a").await;
    assert!(!stage.has_pod("a"));
    stage.tick().await;
    let message = "pod shop/b has the annotation karpenter.sh/do-not-disrupt";
    assert_eq!(blocked(&stage), says("DoNotDisrupt", message));
    shows(r#"dovetail_draining_blocked_seconds{nodepool="default",cause="do_not_disrupt"} 90"#);
    stage.world.server.remove("Pod", "b");
    stage.tick().await;
    assert_eq!(blocked(&stage), None);
    assert!(!stage.world.ctx.metrics.scrape(&stage.world.ctx).contains("dovetail_draining_blocked_seconds{"));
}

// Spec 02, flaw 34
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_not_detached_is_named_too() {
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "at-pv"},
        "spec": {"attacher": "disk", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": true},
    });
    let stage = Stage::with([attachment]);
    stage.tick().await;
    pass(5).await;
    stage.tick().await;
    let said = stage.world.condition("NodeClaim", "claim-n", "DrainBlocked").unwrap();
    assert_eq!(said, ["True", "VolumeAttached", "VolumeAttachment at-pv is still there"]);
    stage.world.server.remove("VolumeAttachment", "at-pv");
    stage.tick().await;
    assert!(!stage.has_node("n"));
    assert_eq!(stage.world.condition("NodeClaim", "claim-n", "DrainBlocked"), None);
}
