//! The Services. Only what is meant is said: cluster addresses and node ports are the API server's to choose, and
//! stay as they are.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use kube::ResourceExt;
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::services::ServiceType;
use sampledb_shared::domain::labels::{self, Component};
use sampledb_shared::domain::names::{
    self, METRICS_PORT, METRICS_PORT_NAME, PEER_PORT, POSTGRES_PORT, POSTGRES_PORT_NAME,
};

use super::metadata;

/// The name of the agents' port among themselves.
const PEER_PORT_NAME: &str = "peers";

/// `<name>-rw`: the instance that takes writes. It has no selector: the primary's agent writes its EndpointSlice.
pub fn rw(db: &SampleDb) -> Service {
    let wanted = &db.spec.services.rw;
    let type_ = match wanted.type_ {
        ServiceType::ClusterIP => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
    };
    Service {
        metadata: metadata(
            db,
            names::rw(&db.name_any()),
            Component::Service,
            &wanted.annotations,
        ),
        spec: Some(ServiceSpec {
            type_: Some(type_.into()),
            ports: Some(vec![port(POSTGRES_PORT_NAME, POSTGRES_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// `<name>-r`: every ready instance, the primary included.
pub fn r(db: &SampleDb) -> Service {
    let name = db.name_any();
    Service {
        metadata: metadata(db, names::r(&name), Component::Service, &BTreeMap::new()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(labels::pod_selector(&name)),
            ports: Some(vec![port(POSTGRES_PORT_NAME, POSTGRES_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// `<name>-pods`: a name for each instance, ready or not, so that agents meet before they are ready.
pub fn pods(db: &SampleDb) -> Service {
    let name = db.name_any();
    Service {
        metadata: metadata(db, names::pods(&name), Component::Service, &BTreeMap::new()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(labels::pod_selector(&name)),
            ports: Some(vec![
                port(POSTGRES_PORT_NAME, POSTGRES_PORT),
                port(PEER_PORT_NAME, PEER_PORT),
                port(METRICS_PORT_NAME, METRICS_PORT),
            ]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port: number,
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_services_as_a_person_would_see_them() {
        let db = testing::db();
        insta::assert_yaml_snapshot!([rw(&db), pods(&db), r(&db)]);
    }

    #[test]
    fn a_load_balancer_gets_its_annotations_and_keeps_its_ports() {
        let db = testing::db_with(
            "  services: {rw: {type: LoadBalancer, annotations: {external-dns/hostname: db.example.org}}}",
        );
        let service = rw(&db);
        insta::assert_yaml_snapshot!(service);
        let spec = service.spec.unwrap();
        assert!(spec.cluster_ip.is_none() && spec.ports.unwrap().iter().all(|p| p.node_port.is_none()));
    }
}
