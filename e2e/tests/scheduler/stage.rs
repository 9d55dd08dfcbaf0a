//! What stays while worlds come and go: namespaces, storage, drivers on nodes, a runtime class.
//!
//! Worlds draw from it. That it never changes spares a fence for each kind of object in every world.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use cluster::lower::volume::Storage;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use model::labels::Labels;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::near::NAMESPACES;
use crate::nodes::{self, MOST_NODES, ZONE};

/// A runtime class whose pods need more than their containers ask for.
pub(crate) const HEAVY: &str = "heavy";
const DRIVER: &str = "csi.example.com";

/// Claims that are bound to volumes here and there. Every namespace has all claims.
pub(crate) const BOUND: [&str; 4] = ["bound-0", "bound-1", "bound-2", "bound-3"];
/// Claims that wait for their first pod, and claims of no use as they are: `early` waits for a volume, `lost` names one
/// that is gone, and nobody has made `missing`.
pub(crate) const OTHERS: [&str; 7] = ["late", "late", "late-in-a", "late-in-a", "early", "lost", "missing"];

/// What is created last of each kind; see the fence. The last volume is within reach of every node, and the fence's node can
/// attach one volume.
pub(crate) const FENCE: &str = "fence";
pub(crate) const LAST_NAMESPACE: &str = NAMESPACES[NAMESPACES.len() - 1].0;
pub(crate) const LAST_BOUND: &str = BOUND[BOUND.len() - 1];
pub(crate) const LAST_CLAIM: &str = "late";

/// The standing objects, as the API server has them.
pub(crate) struct Stage {
    pub(crate) namespaces: BTreeMap<model::ids::Namespace, Labels>,
    pub(crate) storage: Storage,
    pub(crate) drivers: BTreeMap<String, CSINode>,
}

/// Whether a pod has a claim that a controller would have to bind first. The scheduler would wait for that.
pub(crate) fn waits_for_volume(pod: &Value) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["name"].as_str()).any(|name| name.starts_with("late"))
}

pub(crate) async fn set(client: &Client, draw: &mut Draw) -> Result<Stage> {
    let all: Api<RuntimeClass> = Api::all(client.clone());
    create(
        &all,
        json!({
            "metadata": {"name": HEAVY},
            "handler": HEAVY,
            "overhead": {"podFixed": {"cpu": "300m", "memory": "200Mi"}},
        }),
    )
    .await?;
    let drivers = set_drivers(client, draw).await?;
    let mut storage = Storage { classes: set_classes(client).await?, ..Storage::default() };
    let mut namespaces = BTreeMap::new();
    for (name, labels) in NAMESPACES {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let made: Namespace =
            create(&Api::all(client.clone()), json!({"metadata": {"name": name, "labels": labels}})).await?;
        let labels = made.metadata.labels.unwrap_or_default();
        let labels = labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
        namespaces.insert(name.into(), labels.collect());
        set_claims(client, draw, name, &mut storage).await?;
    }
    Ok(Stage { namespaces, storage, drivers })
}

async fn set_drivers(client: &Client, draw: &mut Draw) -> Result<BTreeMap<String, CSINode>> {
    let mut drivers = BTreeMap::new();
    let names = (0..2).flat_map(|world| (0..MOST_NODES).map(move |index| nodes::name(world, index)));
    for name in names.chain([FENCE.to_owned()]) {
        let mut driver = json!({"name": DRIVER, "nodeID": name});
        if name == FENCE {
            driver["allocatable"] = json!({"count": 1});
        } else if draw.chance(60) {
            driver["allocatable"] = json!({"count": draw.pick(&[0, 1, 2, 2, 3])});
        }
        let object = json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}});
        drivers.insert(name, create(&Api::all(client.clone()), object).await?);
    }
    Ok(drivers)
}

async fn set_classes(client: &Client) -> Result<BTreeMap<String, StorageClass>> {
    let mut classes = BTreeMap::new();
    let late = "WaitForFirstConsumer";
    for (name, mode, zones) in
        [("early", "Immediate", &[][..]), ("late-in-a", late, &["a", "x"]), (LAST_CLAIM, late, &[])]
    {
        let mut object = json!({"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode});
        if !zones.is_empty() {
            object["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]);
        }
        classes.insert(name.to_owned(), create(&Api::all(client.clone()), object).await?);
    }
    Ok(classes)
}

async fn set_claims(client: &Client, draw: &mut Draw, namespace: &str, storage: &mut Storage) -> Result<()> {
    for name in BOUND {
        let volume = format!("{namespace}-{name}");
        let mut object = json!({
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": DRIVER, "volumeHandle": volume},
                "claimRef": {"namespace": namespace, "name": name},
            },
        });
        if name != LAST_BOUND {
            object["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": nodes::terms(draw)}});
        }
        let made: PersistentVolume = create(&Api::all(client.clone()), object).await?;
        storage.volumes.insert(volume.clone(), made);
        set_claim(client, namespace, name, json!({"volumeName": volume, "storageClassName": ""}), storage).await?;
    }
    let lost = json!({"volumeName": "never-was", "storageClassName": ""});
    set_claim(client, namespace, "lost", lost, storage).await?;
    for name in ["early", "late-in-a", LAST_CLAIM] {
        set_claim(client, namespace, name, json!({"storageClassName": name}), storage).await?;
    }
    Ok(())
}

/// Volumes of a pod that are behind these claims.
pub(crate) fn volumes(claims: &[&str]) -> Value {
    claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})).collect()
}

/// A claim that names its volume is bound to it: the controller that would say so is not running.
async fn set_claim(client: &Client, namespace: &str, name: &str, mut spec: Value, storage: &mut Storage) -> Result<()> {
    let is_bound = spec["volumeName"].is_string();
    spec["accessModes"] = json!(["ReadWriteOnce"]);
    spec["resources"] = json!({"requests": {"storage": "1Gi"}});
    let mut object = json!({"metadata": {"name": name}, "spec": spec});
    if is_bound {
        object["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    let made: PersistentVolumeClaim = create(&Api::namespaced(client.clone(), namespace), object).await?;
    storage.claims.entry(namespace.into()).or_default().insert(name.to_owned(), made);
    Ok(())
}

/// Creates an object and returns it as the API server has stored it, with all defaults.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> Result<K>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let text = object.to_string();
    let object: K = serde_json::from_value(object).with_context(|| format!("reading {text}"))?;
    api.create(&PostParams::default(), &object).await.with_context(|| format!("creating {text}"))
}
