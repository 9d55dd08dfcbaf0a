//! Every metric of the process, as a field of one struct. Names are the reference's where the meaning is.

use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use provider::metered::{Call, Meter};

/// From five milliseconds to ten minutes.
const DURATIONS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];

pub struct Metrics {
    registry: Mutex<Registry>,
    cloud_duration: Family<CloudCall, Histogram>,
    cloud_errors: Family<CloudError, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CloudCall {
    controller: String,
    method: String,
    provider: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CloudError {
    controller: String,
    method: String,
    provider: String,
    error: String,
    nodepool: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("karpenter");
        let cloud_duration = Family::new_with_constructor((|| Histogram::new(DURATIONS)) as fn() -> Histogram);
        let cloud_errors = Family::default();
        registry.register("cloudprovider_duration_seconds", "Duration of calls to the cloud", cloud_duration.clone());
        registry.register("cloudprovider_errors", "Calls to the cloud that failed", cloud_errors.clone());
        Self { registry: Mutex::new(registry), cloud_duration, cloud_errors }
    }
}

impl Metrics {
    /// Everything as scrapers read it.
    pub fn encode(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        runtime::metrics::encode(&registry, &[]).unwrap_or_default()
    }
}

impl Meter for Metrics {
    fn observe(&self, call: &Call<'_>) {
        let (controller, method) = (call.controller.to_owned(), call.method.to_string());
        let provider = call.provider.to_owned();
        if let Some(error) = call.error {
            let labels = CloudError {
                controller: controller.clone(),
                method: method.clone(),
                provider: provider.clone(),
                error: error.to_owned(),
                nodepool: call.node_pool.to_owned(),
            };
            self.cloud_errors.get_or_create(&labels).inc();
        }
        let labels = CloudCall { controller, method, provider };
        self.cloud_duration.get_or_create(&labels).observe(call.took.as_secs_f64());
    }
}
