//! sampledb-e2e
