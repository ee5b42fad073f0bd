//! sampledb-testkit
