//! sampledb-service-publisher
