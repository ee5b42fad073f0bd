//! What the runtime relies on of a real API server. Run with a cluster: `KUBECONFIG=… cargo test -p sampledb-shared
//! --lib real -- --ignored`.
