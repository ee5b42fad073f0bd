//! sampledb-chart-tests
