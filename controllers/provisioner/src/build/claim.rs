//! The claims of the volumes.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sampledb_shared::api::storage::{AccessMode, Volume};
use sampledb_shared::domain::labels::Component;

use super::Target;
use crate::quantity;
use crate::views::ClaimView;

/// A claim that is to be made, or that is there and is to be relabelled or to grow.
///
/// What cannot change in a claim (class, access mode) is repeated as it is, and a class that nobody chose is left to the
/// cluster; the size is never less than what was asked for before.
pub fn claim(
    target: &Target<'_>,
    name: &str,
    volume: &Volume,
    there: Option<&ClaimView>,
) -> PersistentVolumeClaim {
    let mut spec = spec(target, volume);
    if let Some(there) = there {
        spec.access_modes = Some(there.access_modes.clone());
        if spec.storage_class_name.is_some() {
            spec.storage_class_name.clone_from(&there.storage_class);
        }
        spec.volume_mode.clone_from(&there.volume_mode);
        if let Some(requested) = &there.requested {
            spec.resources = Some(request(quantity::larger(&volume.size, requested)));
        }
    }
    PersistentVolumeClaim {
        metadata: target.metadata_of_kept(name, Component::Database),
        spec: Some(spec),
        status: None,
    }
}

/// The template of a claim in the StatefulSet; like the claim itself, so that it does not matter who is first.
pub fn template(target: &Target<'_>, name: &str, volume: &Volume) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            namespace: None,
            ..target.metadata_of_kept(name, Component::Database)
        },
        spec: Some(spec(target, volume)),
        status: None,
    }
}

fn spec(target: &Target<'_>, volume: &Volume) -> PersistentVolumeClaimSpec {
    let mode = match target.db.spec.storage.access_mode {
        AccessMode::ReadWriteOncePod => "ReadWriteOncePod",
        AccessMode::ReadWriteOnce => "ReadWriteOnce",
    };
    PersistentVolumeClaimSpec {
        access_modes: Some(vec![mode.into()]),
        storage_class_name: volume.storage_class_name.clone(),
        volume_mode: Some("Filesystem".into()),
        resources: Some(request(&volume.size)),
        ..PersistentVolumeClaimSpec::default()
    }
}

fn request(size: &Quantity) -> VolumeResourceRequirements {
    VolumeResourceRequirements {
        requests: Some([("storage".to_owned(), size.clone())].into()),
        limits: None,
    }
}
