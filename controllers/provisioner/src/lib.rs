//! sampledb-provisioner
