//! The controller's own account: it may do its work and nothing else.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use e2e::{Cluster, account};

/// Verb, resource, name or nothing, namespace or nothing.
type Question<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);

fn may(cluster: &Cluster, kubeconfig: &str, (verb, resource, name, namespace): Question<'_>) -> bool {
    let target = name.map_or_else(|| resource.to_owned(), |name| format!("{resource}/{name}"));
    let mut arguments = vec!["auth", "can-i", verb, &target, "--quiet", "--kubeconfig", kubeconfig];
    match namespace {
        Some(namespace) => arguments.extend(["--namespace", namespace]),
        None => arguments.push("--all-namespaces"),
    }
    // It answers by its exit code.
    cluster.kubectl(&arguments).unwrap().status.success()
}

#[test]
fn the_account_may_do_its_work_and_nothing_else() {
    let cluster = Cluster::start().unwrap();
    e2e::Dovetail::apply_crds(&cluster, "kwok").unwrap();
    let kubeconfig = account::controller_kubeconfig(&cluster).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let system = Some(account::NAMESPACE);
    for allowed in [
        ("watch", "pods", None, None),
        ("create", "nodeclaims.karpenter.sh", None, None),
        ("patch", "nodes", None, None),
        ("list", "podtemplates", None, None),
        ("get", "deployments.apps", None, None),
        ("create", "leases.coordination.k8s.io", None, system),
        ("patch", "leases.coordination.k8s.io", Some("karpenter-leader-election"), system),
    ] {
        assert!(may(&cluster, kubeconfig, allowed), "{allowed:?}");
    }
    for denied in [
        ("get", "secrets", None, None),
        ("create", "pods", None, None),
        ("patch", "pods", None, None),
        ("create", "nodepools.karpenter.sh", None, None),
        ("delete", "nodepools.karpenter.sh", None, None),
        ("patch", "leases.coordination.k8s.io", Some("kube-scheduler"), system),
        ("patch", "leases.coordination.k8s.io", Some("a-node"), Some("kube-node-lease")),
        ("create", "configmaps", None, Some("default")),
        ("delete", "namespaces", None, None),
        ("patch", "podtemplates", None, None),
        ("list", "deployments.apps", None, None),
        ("list", "jobs.batch", None, None),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io", None, None),
    ] {
        assert!(!may(&cluster, kubeconfig, denied), "{denied:?}");
    }
}
