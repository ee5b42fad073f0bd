//! The pods' ServiceAccount.

use k8s_openapi::api::core::v1::ServiceAccount;
use sampledb_shared::domain::labels::Component;
use sampledb_shared::domain::names;

use super::Target;

/// `<name>-instance`. Its token is mounted in the agent alone, by a projection.
pub fn instance(target: &Target<'_>) -> ServiceAccount {
    ServiceAccount {
        metadata: target.metadata(names::instance_account(&target.name), Component::Database),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
