//! A difference, with everything that is needed to make it smaller by hand.

use serde_json::Value;

use crate::SEED;
use crate::arena::Decision;
use crate::pods::{Fate, Standing};
use crate::referee::Opinion;
use crate::stage::Stage;

/// The objects of a world as they stand when a pod is asked for.
pub(crate) struct Scene {
    world: usize,
    objects: Vec<Value>,
}

impl Scene {
    pub(crate) fn new(world: usize, nodes: &[Value], standing: &[Standing]) -> Self {
        let standing = standing.iter().map(|Standing { pod, fate }| {
            let mut pod = pod.clone();
            match fate {
                Fate::Runs => {}
                Fate::Ends => pod["metadata"]["deletionTimestamp"] = "set".into(),
                Fate::Ended(phase) => pod["status"]["phase"] = (*phase).into(),
                Fate::Resized(status) => pod["status"] = status.clone(),
            }
            pod
        });
        Self { world, objects: nodes.iter().cloned().chain(standing).collect() }
    }

    pub(crate) fn bind(&mut self, pod: &Value, node: &str) {
        let mut pod = pod.clone();
        pod["spec"]["nodeName"] = node.into();
        self.objects.push(pod);
    }

    pub(crate) fn report(
        &self,
        stage: &Stage,
        pod: &Value,
        decision: &Decision,
        opinion: &Opinion,
        differences: &[String],
    ) -> String {
        let feasible: Vec<&str> = decision.feasible.iter().map(String::as_str).collect();
        let name = &pod["metadata"]["name"];
        let mut text = format!("world {} of seed {SEED}, pod {name}:\n  {}\n", self.world, differences.join("\n  "));
        text += &format!("the scheduler would take: {}\n", feasible.join(", "));
        if !decision.message.is_empty() {
            text += &format!("the scheduler says: {}\n", decision.message);
        }
        for (node, objection) in opinion {
            let words = objection.as_ref().map_or("yes", |objection| &objection.text);
            text += &format!("the judge on {node}: {words}\n");
        }
        let storage = storage(stage, self.objects.iter().chain([pod]));
        for object in self.objects.iter().chain(&storage).chain([pod]) {
            let yaml = serde_saphyr::to_string(object).unwrap_or_else(|problem| problem.to_string());
            text += &format!("---\n{yaml}");
        }
        text
    }
}

/// The claims of these pods with their volumes and classes.
fn storage<'a>(stage: &Stage, objects: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut found = Vec::new();
    for object in objects {
        let claims = object["metadata"]["namespace"].as_str().and_then(|name| stage.storage.claims.get(&name.into()));
        let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
        for claim in volumes.filter_map(|volume| claims?.get(volume["name"].as_str()?)) {
            let spec = claim.spec.as_ref();
            let volume = spec.and_then(|spec| stage.storage.volumes.get(spec.volume_name.as_ref()?));
            let class = spec.and_then(|spec| stage.storage.classes.get(spec.storage_class_name.as_ref()?));
            found.extend([serde_json::to_value(claim), serde_json::to_value(volume), serde_json::to_value(class)]);
        }
    }
    let mut objects: Vec<Value> = found.into_iter().flatten().filter(|object| !object.is_null()).collect();
    for object in &mut objects {
        // Who wrote which field is long and says nothing here.
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
    }
    objects.sort_by_key(Value::to_string);
    objects.dedup();
    objects
}
