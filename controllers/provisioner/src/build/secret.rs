//! The Secrets.

use k8s_openapi::api::core::v1::Secret;
use sampledb_shared::domain::labels::Component;

use super::Target;
use crate::credentials::SecretData;

/// A name and a password.
pub const BASIC_AUTH: &str = "kubernetes.io/basic-auth";
/// A certificate and its key.
pub const TLS: &str = "kubernetes.io/tls";

/// A Secret. With `resource_version`, it is written only over what was read: a change that a person made in between
/// is seen in the next pass instead of being lost.
pub fn secret(
    target: &Target<'_>,
    name: String,
    type_: &str,
    data: &SecretData,
    resource_version: Option<&str>,
) -> Secret {
    let mut metadata = target.metadata(name, Component::Credentials);
    metadata.resource_version = resource_version.map(str::to_owned);
    Secret {
        metadata,
        type_: Some(type_.into()),
        data: Some(data.to_bytes()),
        ..Secret::default()
    }
}
