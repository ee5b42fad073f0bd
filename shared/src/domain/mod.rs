//! Pure values and rules: names, labels, conditions. No IO and no clock.

pub mod conditions;
pub mod crd;
pub mod hex;
pub mod labels;
pub mod names;
pub mod parameters;
