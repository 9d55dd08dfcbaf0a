//! Features that are switched one by one.

/// What is on. The names are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    pub node_repair: bool,
    pub reserved_capacity: bool,
    pub spot_to_spot_consolidation: bool,
    pub node_overlay: bool,
    pub static_capacity: bool,
    pub capacity_buffer: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        }
    }
}

impl Gates {
    /// Reads `A=true,B=false`. What is not named keeps its default; an unknown name is passed over with a warning, because
    /// manifests outlive the gates they name.
    pub(super) fn parse(list: &str) -> Result<(Self, Vec<String>), String> {
        let (mut gates, mut warnings) = (Self::default(), Vec::new());
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) =
                item.split_once('=').ok_or_else(|| format!("has the item {item:?}; write it as {item}=true"))?;
            let (name, value) = (name.trim(), value.trim());
            let is_on = match value {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
                "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
                other => return Err(format!("sets {name} to {other:?}; use true or false")),
            };
            match gates.gate(name) {
                Some(gate) => *gate = is_on,
                None => warnings.push(format!("the feature gate {name} is unknown and ignored")),
            }
        }
        Ok((gates, warnings))
    }

    fn gate(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "NodeRepair" => Some(&mut self.node_repair),
            "ReservedCapacity" => Some(&mut self.reserved_capacity),
            "SpotToSpotConsolidation" => Some(&mut self.spot_to_spot_consolidation),
            "NodeOverlay" => Some(&mut self.node_overlay),
            "StaticCapacity" => Some(&mut self.static_capacity),
            "CapacityBuffer" => Some(&mut self.capacity_buffer),
            _ => None,
        }
    }
}
