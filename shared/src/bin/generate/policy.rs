//! The table of the policy that says who may change what of a SampleDB's status.

use std::collections::BTreeMap;

use sampledb_shared::api::ownership::{AGENT, CONTROLLERS, Writer};
use serde::Serialize;

/// Who may change what of a status.
#[derive(Serialize)]
pub struct Owners {
    /// The controllers, by ServiceAccount.
    pub controllers: BTreeMap<&'static str, Owned>,
    /// The agents of the SampleDB itself.
    pub agent: Owned,
}

/// What one writer may change.
#[derive(Serialize)]
pub struct Owned {
    /// Fields of `status`.
    pub sections: Vec<&'static str>,
    /// Types of `status.conditions`.
    pub conditions: Vec<&'static str>,
}

/// Who may change what of a status.
pub fn owners() -> Owners {
    Owners {
        controllers: CONTROLLERS.iter().map(|w| (w.manager, owned(w))).collect(),
        agent: owned(&AGENT),
    }
}

fn owned(writer: &Writer) -> Owned {
    Owned {
        sections: writer.sections.to_vec(),
        conditions: writer.conditions.iter().map(|c| c.as_str()).collect(),
    }
}
